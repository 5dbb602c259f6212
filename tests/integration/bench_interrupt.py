#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, signals and deaths in the middle of a run: everything ends, and what was measured is printed."""
import json
import os
import select
import signal
import subprocess
import time

from bench_support import BENCH, environment, main, members_of_group, wait_until

LONG = ["--start_block_size=64K", "--max_block_size=64K", "--warmup_iter=0", "--num_iter=2000000000", "--progress=on"]


def start(*args):
    p = subprocess.Popen([BENCH, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                         env=environment())
    wait_until(lambda: len(members_of_group(p.pid)) == 2 or p.poll() is not None, 20, "two processes")
    seen = ""
    deadline = time.monotonic() + 30
    while "measuring: " not in seen.replace("measuring: 0 of", ""):  # the progress line counts iterations
        ready, _, _ = select.select([p.stderr], [], [], 0.1)
        if ready:
            seen += os.read(p.stderr.fileno(), 4096).decode()
        if p.poll() is not None or time.monotonic() > deadline:
            os.killpg(p.pid, signal.SIGKILL)
            raise AssertionError((p.returncode, seen))
    return p


def end(p, seconds=20):
    try:
        out, err = p.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        raise AssertionError(f"it did not end within {seconds} s") from None
    wait_until(lambda: members_of_group(p.pid) == [], 5, "all processes gone")
    return out, err


def ctrl_c_ends_both_processes_and_prints_what_was_measured():
    p = start(*LONG)
    os.killpg(p.pid, signal.SIGINT)
    out, err = end(p)
    assert p.returncode == 1, (p.returncode, err)
    row = [line for line in out.splitlines() if line.startswith("65536 ")]
    assert len(row) == 1, out
    assert float(row[0].split()[2]) > 0
    assert "Interrupted" in out, out


def a_signal_to_the_first_process_alone_does_the_same():
    p = start(*LONG, "--output=json")
    os.kill(p.pid, signal.SIGTERM)
    out, _ = end(p)
    assert p.returncode == 1
    doc = json.loads(out)
    assert doc["interrupted"] is True
    (r,) = doc["results"]
    assert r["partial"] is True and 0 < r["requests"] < 2000000000
    assert r["bytes"] == r["requests"] * 65536


def rows_before_the_interruption_are_kept():
    p = start("--start_block_size=4K", "--max_block_size=2M", "--large_blk_iter_ftr=1", "--warmup_iter=0",
              "--num_iter=100000", "--progress=on")
    time.sleep(1)
    os.killpg(p.pid, signal.SIGINT)
    out, err = end(p)
    assert p.returncode == 1, err
    assert any(line.startswith("4096 ") for line in out.splitlines()), out


def the_peer_ends_when_the_first_process_is_killed():
    p = start(*LONG)
    os.kill(p.pid, signal.SIGKILL)
    end(p)
    assert p.returncode == -signal.SIGKILL


def a_peer_that_is_killed_is_told_in_words():
    p = start(*LONG)
    (child,) = [pid for pid in members_of_group(p.pid) if pid != p.pid]
    os.kill(child, signal.SIGKILL)
    _, err = end(p, 60)
    assert p.returncode == 1
    words = [line for line in err.splitlines() if line.startswith("nixlbench: ")]
    assert len(words) == 1 and len(words[0]) > 30, err


def a_peer_that_is_stopped_does_not_hold_up_ctrl_c():
    p = start(*LONG)
    (child,) = [pid for pid in members_of_group(p.pid) if pid != p.pid]
    os.kill(child, signal.SIGSTOP)
    time.sleep(0.3)
    os.kill(p.pid, signal.SIGINT)
    end(p, 45)
    assert p.returncode == 1


main([
    ctrl_c_ends_both_processes_and_prints_what_was_measured,
    a_signal_to_the_first_process_alone_does_the_same,
    rows_before_the_interruption_are_kept,
    the_peer_ends_when_the_first_process_is_killed,
    a_peer_that_is_killed_is_told_in_words,
    a_peer_that_is_stopped_does_not_hold_up_ctrl_c,
])
