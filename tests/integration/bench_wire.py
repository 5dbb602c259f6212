#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nixlbench's bandwidth beside the bytes that the interface counts meanwhile and beside ucx_perftest, where the wire is the limit.

Two network namespaces, joined by veth with tbf in front, stand for two machines with a slow cable: slow enough that the processor is
never the limit, so all three must say the same. As a test: one rate, 2 % apart at most, up to three attempts. By hand
(bench_wire.py RATE...; NIXL_TEST_BUILD names the build): a table. Needs root, iproute2 and ucx_perftest."""
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

from bench_support import BENCH, Skip, environment, free_port, main

NEW = os.environ.get("NIXL_TEST_UCX122", "")
HEADERS = 14 + 20 + 20 + 12  # Ethernet, IPv4, TCP with timestamps: what a packet has besides its bytes
BLOCK = 256 << 10
DEPTH = 4
SECONDS = 2.5
SECONDS_PERFTEST = 5  # its clock also runs for what its warm-up left in the socket
RATE = 200  # Mbit/s
MTU = 9000
APART = 0.02
WHOLE = 0.985  # of the wire: below that ucx_perftest was kept from it by other work
ATTEMPTS = 3
TIMEOUT = 60


def sh(*args):
    return subprocess.run(args, capture_output=True, text=True, check=False, timeout=TIMEOUT)


def tc(*args):
    """Whether the kernel has it, is part of the answer."""
    done = sh("tc", *args)
    if done.returncode != 0:
        raise Skip("no tbf here: " + done.stderr.strip())


class Wire:
    """Namespaces "l" and "r", 10.9.0.1 and .2, with `mbit` million bits a second each way. No packet is bigger than the wire's, so
    that the interface's counters see every header."""

    def __init__(self, mbit):
        self.mbit = mbit
        self.names = {side: f"nixl-{os.getpid()}-{side}" for side in "lr"}

    def __enter__(self):
        for tool in ("ip", "tc", "ucx_perftest"):
            if not shutil.which(tool):
                raise Skip(f"{tool} is not there (Debian: {'ucx-utils' if tool == 'ucx_perftest' else 'iproute2'})")
        if os.geteuid() != 0:
            raise Skip("network namespaces need root")
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def build(self):
        for name in self.names.values():
            made = sh("ip", "netns", "add", name)
            if made.returncode != 0:
                raise Skip("no network namespaces here: " + made.stderr.strip())
        made = sh("ip", "link", "add", "eth0", "netns", self.names["l"], "type", "veth", "peer", "name", "eth0", "netns",
                  self.names["r"])
        if made.returncode != 0:
            raise Skip("no veth here: " + made.stderr.strip())
        for number, side in enumerate("lr", 1):
            name = self.names[side]
            for args in (("link", "set", "lo", "up"), ("addr", "add", f"10.9.0.{number}/24", "dev", "eth0"),
                         ("link", "set", "eth0", "mtu", str(MTU), "gso_max_segs", "1"), ("link", "set", "eth0", "up")):
                done = sh("ip", "-n", name, *args)
                if done.returncode != 0:
                    raise Skip(f"ip {' '.join(args)}: {done.stderr.strip()}")
            tc("-n", name, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", f"{self.mbit}mbit", "burst", "256kb", "limit", "4mb")
        end = time.monotonic() + 20
        while not all("state UP" in sh("ip", "-n", name, "link", "show", "eth0").stdout for name in self.names.values()):
            assert time.monotonic() < end, "the wire does not come up"
            time.sleep(0.01)

    def __exit__(self, *_):
        for name in self.names.values():
            sh("ip", "netns", "del", name)

    def within(self, side, *command):
        return ["ip", "netns", "exec", self.names[side], *command]

    def start(self, side, command, env=None, **kwargs):
        return subprocess.Popen(self.within(side, *command), env=environment(env), stdout=subprocess.PIPE, text=True,
                                preexec_fn=come_first, **kwargs)


def come_first():
    """What is measured goes before other work on the machine."""
    os.setsid()
    try:
        os.nice(-20)
        with open("/proc/self/autogroup", "w", encoding="ascii") as f:
            f.write("-20")
    except OSError:
        pass  # a kernel without, or a container that may not


class Counter:
    """What leaves "l": times and bytes without headers, some 200 times a second, read by a process that lives there."""

    CODE = """
import sys, threading, time
read = lambda name: int(open("/sys/class/net/eth0/statistics/" + name).read())
threading.Thread(target=lambda: (sys.stdin.read(), stop.append(1)), daemon=True).start()
stop = []
while True:
    ends = bool(stop)
    print(time.monotonic(), read("tx_bytes") - %d * read("tx_packets"), flush=True)
    if ends:
        break
    time.sleep(0.005)
""" % HEADERS

    def __init__(self, wire):
        # A mount of sysfs shows the namespace in which it was mounted: `ip netns exec` mounts it anew.
        self.process = wire.start("l", [sys.executable, "-c", self.CODE], stdin=subprocess.PIPE)
        self.samples = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            when, count = line.split()
            self.samples.append((float(when), int(count)))

    def __enter__(self):
        end = time.monotonic() + 20
        while not self.samples and time.monotonic() < end:
            time.sleep(0.01)
        assert self.samples, "the interface's counters cannot be read"
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join()

    def total(self):
        return self.samples[-1][1] - self.samples[0][1]

    def rate(self, before, count):
        """`count` bytes over the time they took, after `before` bytes and what little else is said meanwhile."""
        first, slack = self.samples[0][1], 0.002 * (before + count)
        start = [when for when, at in self.samples if at - first <= before + slack][-1]
        end = [when for when, at in self.samples if at - first >= before + count - slack][0]
        return count / (end - start)


def finish(processes):
    """Their outputs; nobody is left behind."""
    try:
        outputs = [p.communicate(timeout=TIMEOUT) for p in processes]
    finally:
        for p in processes:
            if p.poll() is None:
                p.kill()
                p.communicate()
    assert not any(p.returncode for p in processes), [(p.returncode, err[-600:]) for p, (_, err) in zip(processes, outputs)]
    return [out for out, _ in outputs]


def iterations(wire, seconds):
    return int(seconds * wire.mbit * 1e6 / 8 / BLOCK)


def run_nixlbench(wire, ucx):
    """Its bandwidth, the interface's rate, and the interface's bytes over its own."""
    count, warmup, port = iterations(wire, SECONDS), 16, free_port()
    command = [BENCH, "--backend=UCX", "--runtime_type=ASIO", "--asio_address=10.9.0.1", f"--asio_port={port}", "--op_type=WRITE",
               f"--start_block_size={BLOCK}", f"--max_block_size={BLOCK}", "--start_batch_size=1", "--max_batch_size=1",
               f"--num_iter={count}", f"--warmup_iter={warmup}", "--large_blk_iter_ftr=1", "--num_threads=1", f"--pipeline_depth={DEPTH}",
               "--progress=off", "--output=json"]
    env = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0", "NIXL_UCX_PATH": ucx}
    with Counter(wire) as counter:
        left = wire.start("l", command, env, stderr=subprocess.PIPE)
        right = wire.start("r", command, env, stderr=subprocess.PIPE)
        document = json.loads(finish([left, right])[0])
    result = document["results"][0]
    assert result["bytes"] == count * BLOCK, result
    return {"own": result["bandwidth_gb_s"] * 1e9, "interface": counter.rate(warmup * BLOCK, count * BLOCK),
            "counted": counter.total() / ((count + warmup) * BLOCK)}


def run_perftest(wire):
    """Its bandwidth, in bytes a second. What waits in the socket when it ends is some 0.1 % of all."""
    port = str(free_port())
    command = ["ucx_perftest", "-p", port, "-t", "ucp_put_bw", "-s", str(BLOCK), "-n", str(iterations(wire, SECONDS_PERFTEST)), "-w", "4"]
    env = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0", "UCX_TCP_SNDBUF": f"{max(256, wire.mbit * 5 // 4)}k", "UCX_WARN_UNUSED_ENV_VARS": "n"}
    target = wire.start("r", command, env, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 20
        while f":{port} " not in sh(*wire.within("r", "ss", "-Hltn")).stdout:
            assert target.poll() is None and time.monotonic() < end, "ucx_perftest does not listen"
            time.sleep(0.02)
        client = wire.start("l", [*command[:1], "10.9.0.2", *command[1:], "-f", "-v"], env, stderr=subprocess.PIPE)
        out = finish([client])[0]
    finally:
        target.kill()
        target.communicate()
    head, row = (line.split(",") for line in out.strip().splitlines()[-2:])
    return float(row[head.index("overall_bw")]) * 2**20


def measure(wire):
    """One round: ucx_perftest, then nixlbench over each UCX that is there."""
    perftest = run_perftest(wire)
    ours = {name: run_nixlbench(wire, path) for name, path in (("system's", ""), ("1.22", NEW)) if name != "1.22" or path}
    return perftest, ours


def apart(mbit, perftest, ours):
    """What is further apart than it may be, in words; and whether ucx_perftest had the wire for itself, so that it can be compared."""
    is_whole = perftest >= WHOLE * mbit * 1e6 / 8 * (MTU - HEADERS + 14) / (MTU + 14)
    found = []
    for name, figures in ours.items():
        pairs = [("interface's rate", figures["own"], figures["interface"]), ("interface's bytes", 1, figures["counted"])]
        if is_whole:
            pairs.append(("ucx_perftest", figures["own"], perftest))
        found += [f"over the {name} UCX nixlbench and the {what}: {one:.6g} and {other:.6g}" for what, one, other in pairs
                  if abs(one / other - 1) > APART]
    return found, is_whole


def show(mbit, perftest, ours):
    """MB/s side by side."""
    for name, f in ours.items():
        print(f"# {mbit} Mbit/s, {name} UCX: nixlbench {f['own'] / 1e6:.2f}, interface {f['interface'] / 1e6:.2f} (bytes "
              f"{f['counted']:.4f}), ucx_perftest {perftest / 1e6:.2f} MB/s", flush=True)


def bandwidth_is_that_of_the_interface_and_of_ucx_perftest_where_the_wire_is_the_limit():
    found, is_whole = [], False
    with Wire(RATE) as wire:
        for _ in range(ATTEMPTS):
            perftest, ours = measure(wire)
            show(RATE, perftest, ours)
            found, is_whole = apart(RATE, perftest, ours)
            if not found and is_whole:
                return
    assert not found, "; ".join(found)
    raise Skip(f"the machine is too busy for a comparison: ucx_perftest itself got {perftest / 1e6:.1f} MB/s of {RATE} Mbit/s")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # the namespaces go, too
    if len(sys.argv) > 1:
        for rate in map(int, sys.argv[1:]):
            with Wire(rate) as w:
                for _ in range(3):
                    show(rate, *measure(w))
    else:
        main([bandwidth_is_that_of_the_interface_and_of_ucx_perftest_where_the_wire_is_the_limit])
