#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nixlbench's ETCD runtime with a real etcd: processes started by hand meet, measure, and leave nothing behind; runs that
crash do not hold up the next one."""
import json
import signal
import subprocess
import time

from bench_support import BENCH, Etcd, bench, environment, etcd_keys, free_port, main, refused, wait_until
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
    import base64
    import urllib.request
    with Etcd() as endpoint:
        for key, value in (("/size", "2"), ("barrier/start_barrier/0/0", "1"), ("msg+int_data/src=0/dst=1", "17")):
            body = {"key": base64.b64encode(b"xferbench/default/" + key.encode()).decode(),
                    "value": base64.b64encode(value.encode()).decode()}
            urllib.request.urlopen(urllib.request.Request(endpoint + "/v3/kv/put", json.dumps(body).encode(), method="POST"),
                                   timeout=10).close()
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
    what_cannot_be_is_refused_in_words,
])
