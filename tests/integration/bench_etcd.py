#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nixlbench's ETCD runtime with a real etcd: processes started by hand meet, measure, and leave nothing behind; runs that
crash do not hold up the next one."""
import base64
import contextlib
import json
import signal
import socket
import subprocess
import time

from bench_support import BENCH, Etcd, bench, environment, etcd_call, etcd_keys, free_port, main, refused, wait_until
from exchange_namespaces import SIDES, Cable

FLAGS = ["--start_block_size=4K", "--max_block_size=16K", "--num_iter=64", "--warmup_iter=16", "--progress=off", "--output=json"]
LEASE_S = 5  # of a process that has not met the others yet


def start(endpoint, *flags, within=()):
    return subprocess.Popen([*within, BENCH, f"--etcd_endpoints={endpoint}", *FLAGS, *flags], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=environment())


def finish(processes, seconds=60):
    """(status, stdout, stderr) of each."""
    ends = []
    deadline = time.monotonic() + seconds
    try:
        for p in processes:
            out, err = p.communicate(timeout=max(0.1, deadline - time.monotonic()))
            ends.append((p.returncode, out, err))
    finally:
        for p in processes:
            p.kill()
            p.wait()
    return ends


def run_of(endpoint, count, *flags):
    """All processes of a run; the document that one of them prints."""
    ends = finish([start(endpoint, *flags) for _ in range(count)])
    assert all(rc == 0 for rc, _, _ in ends), ends
    documents = [json.loads(out) for _, out, _ in ends if out]
    assert len(documents) == 1, ends
    return documents[0]


def two_processes_meet_and_every_byte_is_right():
    with Etcd() as endpoint:
        begin = time.monotonic()
        doc = run_of(endpoint, 2, "--check_consistency", "--op_type=both")
        took = time.monotonic() - begin
        assert doc["runtime"] == "ETCD" and doc["processes"] == 2
        assert len(doc["results"]) == 6 and all(r["checked"] and r["requests"] == 64 for r in doc["results"])
        assert not etcd_keys(endpoint, "xferbench/")
        print(f"# met, measured six cases and ended in {took:.2f} s")


def the_same_name_serves_again_at_once_and_two_names_side_by_side():
    with Etcd() as endpoint:
        for _ in range(3):
            run_of(endpoint, 2, "--runtime_type=ETCD")
        pairs = [start(endpoint, f"--benchmark_group={name}") for name in ("one", "two", "one", "two")]
        assert all(rc == 0 for rc, _, _ in finish(pairs))
        assert not etcd_keys(endpoint, "xferbench/")


def more_than_two_processes_and_the_other_schemes_meet_too():
    with Etcd() as endpoint:
        doc = run_of(endpoint, 4, "--num_initiator_dev=2", "--num_target_dev=2", "--check_consistency")
        assert doc["processes"] == 4 and all(r["aggregate_gb_s"] > 0 for r in doc["results"])
        doc = run_of(endpoint, 3, "--scheme=manytoone", "--num_initiator_dev=2", "--check_consistency")
        assert doc["processes"] == 3 and all(r["checked"] for r in doc["results"])
        assert not etcd_keys(endpoint, "xferbench/")


def two_machines_meet_by_the_etcd_of_one_of_them():
    with Cable() as cable:
        left, right = (("ip", "netns", "exec", cable.names[side]) for side in "lr")
        with Etcd(SIDES["l"][0], left) as endpoint:
            ends = finish([start(endpoint, "--check_consistency", within=side) for side in (left, right)])
            assert all(rc == 0 for rc, _, _ in ends), ends
            doc = json.loads(ends[0][1] or ends[1][1])
            assert all(r["checked"] for r in doc["results"]), doc


def a_process_killed_while_it_waits_does_not_hold_up_the_next_run():
    with Etcd() as endpoint:
        lost = start(endpoint)
        wait_until(lambda: etcd_keys(endpoint, "xferbench/default//rank/"), 10, "the first process's rank")
        lost.kill()
        lost.wait()
        begin = time.monotonic()
        run_of(endpoint, 2)
        took = time.monotonic() - begin
        assert took < LEASE_S + 10, took
        assert not etcd_keys(endpoint, "xferbench/")
        print(f"# the next run had ended {took:.1f} s after the kill")


def what_a_crashed_reference_run_left_is_no_obstacle():
    with Etcd() as endpoint:
        for key, value in (("/size", "2"), ("barrier/start_barrier/0/0", "1"), ("msg+int_data/src=0/dst=1", "17")):
            etcd_call(endpoint, "put", key=b"xferbench/default/" + key.encode(), value=value.encode())
        run_of(endpoint, 2)
        assert not etcd_keys(endpoint, "xferbench/")


def a_process_killed_in_the_middle_ends_the_others_in_words_and_frees_the_name():
    with Etcd() as endpoint:
        pair = [start(endpoint, "--num_iter=100000000") for _ in range(2)]
        wait_until(lambda: not etcd_keys(endpoint, "xferbench/") and all(p.poll() is None for p in pair), 10, "the meeting")
        time.sleep(0.5)
        pair[0].kill()
        ends = finish(pair)
        assert ends[1][0] == 1 and ends[1][2].startswith("nixlbench: "), ends
        run_of(endpoint, 2)


def other_flags_at_the_other_end_are_named():
    with Etcd() as endpoint:
        ends = finish([start(endpoint), start(endpoint, "--num_iter=128")])
        assert all(rc == 1 for rc, _, _ in ends), ends
        assert all("--num_iter 64" in err and "--num_iter 128" in err for _, _, err in ends), ends
        run_of(endpoint, 2)


def ctrl_c_while_waiting_ends_at_once_and_leaves_no_key():
    with Etcd() as endpoint:
        p = start(endpoint)
        wait_until(lambda: etcd_keys(endpoint, "xferbench/default//rank/"), 10, "its rank")
        p.send_signal(signal.SIGINT)
        begin = time.monotonic()
        rc, _, err = finish([p], 10)[0]
        assert rc == 1 and "interrupted while waiting for 1 of 2 processes" in err, (rc, err)
        assert time.monotonic() - begin < 3
        assert not etcd_keys(endpoint, "xferbench/default//rank/")


def etcd_restarts_while_a_process_waits():
    etcd = Etcd()
    with etcd as endpoint:
        first = start(endpoint)
        wait_until(lambda: etcd_keys(endpoint, "xferbench/default//rank/"), 10, "its rank")
        etcd.kill()
        time.sleep(0.5)
        etcd.start()
        ends = finish([first, start(endpoint)])
        assert all(rc == 0 for rc, _, _ in ends), ends
        assert "it is tried again" in ends[0][2], ends


def etcd_that_hangs_holds_up_no_ctrl_c():
    etcd = Etcd()
    with etcd as endpoint:
        p = start(endpoint)
        wait_until(lambda: etcd_keys(endpoint, "xferbench/default//rank/"), 10, "its rank")
        etcd.process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        begin = time.monotonic()
        p.send_signal(signal.SIGINT)
        rc, _, err = finish([p], 20)[0]
        etcd.process.send_signal(signal.SIGCONT)
        assert rc == 1 and "interrupted" in err, (rc, err)
        assert time.monotonic() - begin < 4, time.monotonic() - begin


def strangers_at_the_port_hold_up_nobody():
    with Etcd() as endpoint, contextlib.ExitStack() as stack:
        first = start(endpoint)
        wait_until(lambda: etcd_keys(endpoint, "xferbench/default//rank/"), 10, "its rank")
        told = etcd_call(endpoint, "range", key=b"xferbench/default//nixl/0")["kvs"][0]["value"]
        port = int(base64.b64decode(told).split()[1])
        for i in range(120):
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            if i % 3:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n"[:3 if i % 3 == 1 else 40])
        ends = finish([first, start(endpoint)], 30)
        assert all(rc == 0 for rc, _, _ in ends), ends


def process_0_of_another_making(endpoint, told):
    """Takes the first place, with these words."""
    for key, value in (("nixl/0", told), ("size", b"1"), ("rank/0", b"active")):
        etcd_call(endpoint, "put", key=b"xferbench/default//" + key.encode(), value=value)


def addresses_that_lead_nowhere_hold_up_nobody():
    with Etcd() as endpoint, socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        nowhere = b" ".join(b"203.0.113.%d" % i for i in range(1, 15))
        process_0_of_another_making(endpoint, b"%016x %d %s 127.0.0.1" % (7, listener.getsockname()[1], nowhere))
        p = start(endpoint)
        connection, _ = listener.accept()
        with connection:
            hello = connection.recv(16, socket.MSG_WAITALL)
            assert int.from_bytes(hello[:8], "little") == 7 and len(hello) == 16, hello
            connection.sendall(hello)
            assert connection.recv(1), "it hung up"  # the first barrier: it has taken us
        assert finish([p], 20)[0][0] == 1


def what_others_write_into_etcd_is_shown_without_control_characters():
    for told, words in ((b"%016x 1 127.0.0.1\n--backend \x1b[31mred" % 7, "started with \"--backend \\x1b[31mred\""),
                        (b"%016x 70000 127.0.0.1" % 7, "an address that cannot be read")):
        with Etcd() as endpoint:
            process_0_of_another_making(endpoint, told)
            p = start(endpoint)
            err = finish([p], 40)[0][2]
            assert words in err and "\x1b" not in err, err


def what_cannot_be_is_refused_in_words():
    refused("--etcd_endpoints=ftp://127.0.0.1", words=["--etcd_endpoints", "neither http:// nor https://"])
    refused(f"--etcd_endpoints=http://127.0.0.1:{free_port()}", words=["etcd at http://127.0.0.1"])
    refused("--runtime_type=ETCD", "--benchmark_group=a/b", words=["--benchmark_group", "without a slash"])
    refused("--backend=POSIX", "--etcd_endpoints=http://127.0.0.1:1", words=["one process alone"])
    rc, _, err = bench("--etcd_endpoints=http://me:secret@127.0.0.1:1", timeout=20)
    assert rc == 1 and "secret" not in err, err


main([
    two_processes_meet_and_every_byte_is_right,
    the_same_name_serves_again_at_once_and_two_names_side_by_side,
    more_than_two_processes_and_the_other_schemes_meet_too,
    two_machines_meet_by_the_etcd_of_one_of_them,
    a_process_killed_while_it_waits_does_not_hold_up_the_next_run,
    what_a_crashed_reference_run_left_is_no_obstacle,
    a_process_killed_in_the_middle_ends_the_others_in_words_and_frees_the_name,
    other_flags_at_the_other_end_are_named,
    ctrl_c_while_waiting_ends_at_once_and_leaves_no_key,
    etcd_restarts_while_a_process_waits,
    etcd_that_hangs_holds_up_no_ctrl_c,
    strangers_at_the_port_hold_up_nobody,
    addresses_that_lead_nowhere_hold_up_nobody,
    what_others_write_into_etcd_is_shown_without_control_characters,
    what_cannot_be_is_refused_in_words,
])
