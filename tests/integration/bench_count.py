#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nixlbench's bytes and bandwidth against those that the kernel counts on an interface, and against ucx_perftest's.

Runs itself again in a network namespace of its own, so that `lo` there carries the benchmark and nothing else."""
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time

from bench_support import BENCH, Skip, environment, main

BLOCK = 1 << 20


def lo_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        ifreq = struct.pack("16sh14s", b"lo", 0, b"")
        flags = struct.unpack("16sh14s", fcntl.ioctl(s, 0x8913, ifreq))[1]
        fcntl.ioctl(s, 0x8914, struct.pack("16sh14s", b"lo", flags | 1, b""))


def lo_counters():
    """Bytes and packets received."""
    with open("/proc/net/dev", encoding="ascii") as f:
        for line in f:
            name, _, rest = line.partition(":")
            if name.strip() == "lo":
                return [int(n) for n in rest.split()[:2]]
    raise AssertionError("no interface lo")


def inner(op, iterations):
    """In the namespace: runs the benchmark and samples the counter. Prints one JSON document."""
    lo_up()
    args = [BENCH, f"--op_type={op}", f"--start_block_size={BLOCK}", f"--max_block_size={BLOCK}", f"--num_iter={iterations}",
            "--warmup_iter=0", "--progress=off", "--output=json"]
    before, packets = lo_counters()
    samples = [(time.monotonic(), before)]
    p = subprocess.Popen(args, stdout=subprocess.PIPE, text=True,
                         env=environment({"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}))
    while p.poll() is None:
        time.sleep(0.004)
        samples.append((time.monotonic(), lo_counters()[0]))
    out = p.stdout.read()
    after, packets_after = lo_counters()
    print(json.dumps({"status": p.returncode, "counted": after - before, "packets": packets_after - packets,
                      "samples": samples,
                      "document": json.loads(out) if out.strip() else None}))


def inner_perftest(iterations):
    """The same blocks by ucx_perftest, one in flight."""
    lo_up()
    args = ["ucx_perftest", "-t", "ucp_put_bw", "-s", str(BLOCK), "-n", str(iterations), "-w", "0", "-O", "1", "-p", "23456"]
    # With the segments that our backend sets for UCX.
    env = environment({"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo", "UCX_TCP_TX_SEG_SIZE": "64k"})
    before, packets = lo_counters()
    target = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    try:
        for _ in range(100):
            p = subprocess.run(args[:1] + ["127.0.0.1", "-f", "-v"] + args[1:], capture_output=True, text=True, env=env, timeout=60,
                               check=False)
            lines = p.stdout.splitlines()
            if len(lines) >= 2 and "," in lines[-1]:
                break
            time.sleep(0.05)
    finally:
        target.kill()
        target.wait()
    after, packets_after = lo_counters()
    print(json.dumps({"status": 0 if len(lines) >= 2 else 1, "counted": after - before, "packets": packets_after - packets,
                      "words": p.stdout + p.stderr, "header": lines[:1], "row": lines[-1:]}))


def measure(op, iterations):
    if shutil.which("unshare") is None:
        raise Skip("there is no unshare program")
    probe = subprocess.run(["unshare", "-n", "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        raise Skip("no network namespace can be made here: " + probe.stderr.strip())
    p = subprocess.run(["unshare", "-n", sys.executable, __file__, "inner", op, str(iterations)], capture_output=True,
                       text=True, timeout=120, check=False)
    assert p.returncode == 0, p.stderr
    answer = json.loads(p.stdout)
    assert answer["status"] == 0, p.stderr
    return answer


def check(op):
    iterations = 1008  # 1 GB: long enough to sample
    answer = measure(op, iterations)
    (r,) = answer["document"]["results"]
    assert "tcp" in r["transport"], r["transport"]
    assert r["bytes"] == BLOCK * iterations
    # Ethernet, IP and TCP with time stamps: 14 + 20 + 32 bytes a packet.
    payload = answer["counted"] - 66 * answer["packets"]
    assert abs(payload / r["bytes"] - 1) < 0.02, (r["bytes"], payload, answer["packets"])
    # The rate in the middle of the run, by the kernel's counter and this process's clock.
    first = answer["samples"][0][1]
    middle = [(t, n - first) for t, n in answer["samples"] if 0.02 * r["bytes"] < n - first < 0.98 * r["bytes"]]
    assert len(middle) > 10, len(middle)
    rate = (middle[-1][1] - middle[0][1]) / (middle[-1][0] - middle[0][0]) / 1e9
    print(f"# {op}: counted {payload / r['bytes']:.4f} of the bytes, {rate:.3f} GB/s on lo, "
          f"{r['bandwidth_gb_s']:.3f} GB/s reported")
    assert abs(rate / r["bandwidth_gb_s"] - 1) < 0.1, (rate, r["bandwidth_gb_s"])


def a_write_takes_the_bytes_that_ucx_perftest_takes():
    if shutil.which("ucx_perftest") is None:
        raise Skip("there is no ucx_perftest program (Debian: ucx-utils)")
    iterations = 496
    ours = measure("WRITE", iterations)
    theirs = measure("perftest", iterations)
    (r,) = ours["document"]["results"]
    payload = [(a["counted"] - 66 * a["packets"]) / BLOCK / iterations for a in (ours, theirs)]
    names = theirs["header"][0].split(",")
    rate = float(theirs["row"][0].split(",")[names.index("overall_bw")]) * (1 << 20) / 1e9
    print(f"# bytes on lo for each byte written: nixlbench {payload[0]:.4f}, ucx_perftest put_bw -O 1 {payload[1]:.4f}; "
          f"packets {ours['packets'] / iterations:.1f} and {theirs['packets'] / iterations:.1f} a write; "
          f"GB/s {r['bandwidth_gb_s']:.3f} and {rate:.3f}")
    assert abs(payload[0] / payload[1] - 1) < 0.02, payload


def bytes_and_bandwidth_of_write_are_those_counted_on_the_interface():
    check("WRITE")


def bytes_and_bandwidth_of_read_are_those_counted_on_the_interface():
    check("READ")


if len(sys.argv) > 1 and sys.argv[1] == "inner":
    if sys.argv[2] == "perftest":
        inner_perftest(int(sys.argv[3]))
    else:
        inner(sys.argv[2], int(sys.argv[3]))
else:
    main([
        bytes_and_bandwidth_of_write_are_those_counted_on_the_interface,
        bytes_and_bandwidth_of_read_are_those_counted_on_the_interface,
        a_write_takes_the_bytes_that_ucx_perftest_takes,
    ])
