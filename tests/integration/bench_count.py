#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nixlbench's bytes and bandwidth against those that the kernel counts on an interface.

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


def bytes_and_bandwidth_of_write_are_those_counted_on_the_interface():
    check("WRITE")


def bytes_and_bandwidth_of_read_are_those_counted_on_the_interface():
    check("READ")


if len(sys.argv) > 1 and sys.argv[1] == "inner":
    inner(sys.argv[2], int(sys.argv[3]))
else:
    main([
        bytes_and_bandwidth_of_write_are_those_counted_on_the_interface,
        bytes_and_bandwidth_of_read_are_those_counted_on_the_interface,
    ])
