#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Agents that must find each other through awkward networks, and what is said of the way their bytes go. Each case over the
system's UCX and over 1.22. Agents stand for machines by network and process namespaces of their own; that needs root and iproute2."""
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from bench_support import Skip, environment, main

BUILD = os.environ["NIXL_TEST_BUILD"]
PACKAGE = os.path.join(BUILD, "bindings", "python")
NEW = os.environ.get("NIXL_TEST_UCX122", "")
SIZE = 1 << 20
AGENT = """
import ctypes, os, platform, struct, sys, time
import nixl
name, forbid = sys.argv[1], sys.argv[2] == "forbid"
if forbid:  # as a container's seccomp filter does: process_vm_readv and _writev are not permitted
    first = {"x86_64": 310, "aarch64": 270}[platform.machine()]
    code = [(0x20, 0, 0, 0), (0x15, 1, 0, first), (0x15, 0, 1, first + 1), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]
    rows = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(rows)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
agent = nixl.nixl_agent(name, nixl.nixl_agent_config(enable_prog_thread=True, backends=["UCX"]))
memory = ctypes.create_string_buffer(1 << 20)
at = ctypes.addressof(memory)
agent.register_memory([(at, 1 << 20, 0, "")], "DRAM")
print("= ready", at, flush=True)
for line in sys.stdin:
    word, *args = line.split()
    answer = "done"
    try:
        if word == "blob":
            answer = agent.get_agent_metadata().hex()
        elif word == "load":
            agent.add_remote_agent(bytes.fromhex(args[0]))
        elif word == "fill":
            ctypes.memset(at, int(args[0]), 1 << 20)
        elif word == "holds":
            answer = str(memory.raw == bytes([int(args[0])]) * (1 << 20))
        else:
            handle = agent.initialize_xfer(word, agent.get_xfer_descs([(at, 1 << 20, 0)], "DRAM"),
                                           agent.get_xfer_descs([(int(args[1]), 1 << 20, 0)], "DRAM"), args[0], b"x")
            state, end = agent.transfer(handle), time.time() + 40
            while state == "PROC" and time.time() < end:
                time.sleep(0.001)
                state = agent.check_xfer_state(handle)
            answer = state + " " + handle.transport
            agent.release_xfer_handle(handle)
    except nixl.nixlError as e:
        answer = "failed: " + str(e)
    print("=", answer, flush=True)
os._exit(0)
"""


def sh(*args):
    return subprocess.run(args, capture_output=True, text=True, check=False)


class Agent:
    """One agent in a process of its own; `where` is a command to start it with."""

    def __init__(self, name, ucx, where=(), env=None, forbid=False):
        # The system's UCX unless 1.22 is asked for: whoever runs this may have set either.
        extra = {"PYTHONPATH": PACKAGE, "NIXL_LOG_LEVEL": "INFO", "NIXL_UCX_PATH": NEW if ucx == "1.22" else ""}
        extra.update(env or {})
        self.name = name
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([*where, sys.executable, "-c", AGENT, name, "forbid" if forbid else "-"],
                                        env=environment(extra), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, text=True)
        answer = self.answer().split()
        assert answer[:1] == ["ready"], (answer, self.lines())
        self.memory = answer[1]

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("= "):
                return line[2:].strip()
        return "ended"

    def tell(self, line, seconds=60):
        """The answer; whoever does not answer in time is killed, which ends the waiting."""
        watch = threading.Timer(seconds, self.process.kill)
        watch.start()
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            return self.answer()
        finally:
            watch.cancel()

    def lines(self):
        self.log.flush()
        self.log.seek(0)
        return self.log.read().splitlines()

    def warnings(self):
        return [line for line in self.lines() if re.match(r"W\d{4} ", line)]

    def ways(self):
        return [line for line in self.lines() if "bytes to and from agent" in line and line.startswith("I")]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Machines:
    """Two network namespaces, joined by cables: cable("eth0", "10.1.0") gives .1 and .2 of that network to the two."""

    def __init__(self):
        self.names = {side: f"nixl-{os.getpid()}-{side}" for side in "lr"}

    def __enter__(self):
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
            raise Skip("needs root, iproute2 and unshare")
        for name in self.names.values():
            made = sh("ip", "netns", "add", name)
            if made.returncode != 0:
                raise Skip("no network namespaces here: " + made.stderr.strip())
        for side in "lr":
            self.ip(side, "link", "set", "lo", "up")
        return self

    def ip(self, side, *args):
        done = sh("ip", "-n", self.names[side], *args)
        assert done.returncode == 0, (args, done.stderr)
        return done.stdout

    def both(self, *args):
        for side in "lr":
            self.ip(side, *args)

    def cable(self, device, network, bits=24):
        made = sh("ip", "link", "add", device, "netns", self.names["l"], "type", "veth", "peer", "name", device, "netns",
                  self.names["r"])
        if made.returncode != 0:
            raise Skip("no veth here: " + made.stderr.strip())
        for number, side in enumerate("lr", 1):
            if network:
                self.ip(side, "addr", "add", f"{network}.{number}/{bits}", "dev", device)
            self.ip(side, "link", "set", device, "up")
        for side in "lr":
            self.wait(side, device, "state UP")

    def wait(self, side, device, state):
        end = time.time() + 10
        while state not in self.ip(side, "link", "show", device):
            assert time.time() < end, (device, state)
            time.sleep(0.01)

    def swallow(self, device, network):
        """The link stays up, and nothing that goes in comes out: the other end has another hardware address."""
        for number, side in enumerate("lr", 1):
            self.ip(side, "neigh", "replace", f"{network}.{3 - number}", "lladdr", "02:00:00:00:00:99", "nud", "permanent",
                    "dev", device)

    def agent(self, side, name, ucx, env=None):
        return Agent(name, ucx, ["ip", "netns", "exec", self.names[side], "unshare", "--pid", "--fork", "--kill-child"], env)

    def pair(self, ucx, env=None):
        return Pair(self.agent("l", "left", ucx, env), self.agent("r", "right", ucx, env))

    def __exit__(self, *_):
        for name in self.names.values():
            sh("ip", "netns", "del", name)


class Pair:
    def __init__(self, left, right):
        self.left, self.right = left, right

    def __enter__(self):
        assert self.left.tell("load " + self.right.tell("blob")) == "done"
        assert self.right.tell("load " + self.left.tell("blob")) == "done"
        return self

    def __exit__(self, *_):
        self.left.__exit__()
        self.right.__exit__()

    def move(self):
        """Both ways, with the bytes looked at; returns the transport."""
        answers = []
        for number, (one, other) in enumerate(((self.left, self.right), (self.right, self.left)), 1):
            one.tell(f"fill {number}")
            answers.append(one.tell(f"WRITE {other.name} {other.memory}"))
            assert answers[-1].startswith("DONE "), (answers, one.lines())
            assert other.tell(f"holds {number}") == "True"
            other.tell(f"fill {number + 2}")
            answers.append(one.tell(f"READ {other.name} {other.memory}"))
            assert answers[-1].startswith("DONE "), (answers, one.lines())
            assert one.tell(f"holds {number + 2}") == "True"
        for agent in (self.left, self.right):
            assert len(agent.ways()) == 1, agent.ways()
            assert len(agent.warnings()) <= 1, agent.warnings()
        return answers[0].split(" ", 1)[1]


def versions():
    return ["system"] + (["1.22"] if NEW else [])


def is_old(agent_or_lines):
    """Whether the system's UCX is one of before 1.21, by what it says of itself."""
    return "UCX 1.1" in agent_or_lines or "UCX 1.20" in agent_or_lines


SYSTEM_IS_OLD = None


def leaves_addresses_out(ucx):
    """UCX from 1.21 on takes no link-local addresses."""
    global SYSTEM_IS_OLD
    if ucx == "1.22":
        return True
    if SYSTEM_IS_OLD is None:
        out = sh(os.path.join(BUILD, "tools", "nixl-info", "nixl-info"), "--brief", "UCX").stdout
        SYSTEM_IS_OLD = is_old(out.split("it says", 1)[-1])
    return not SYSTEM_IS_OLD


# ---- on one machine ----

def a_default_start_on_one_host_says_the_way_once_and_warns_of_nothing():
    for ucx in versions():
        with Pair(Agent("left", ucx), Agent("right", ucx)) as pair:
            assert pair.move() == "UCX cma"
            for agent in (pair.left, pair.right):
                assert agent.warnings() == [] and "cma (the kernel's copies)" in agent.ways()[0], agent.lines()


def tcp_within_a_host_is_warned_of_with_the_setting_that_caused_it():
    for ucx in versions():
        with Pair(Agent("left", ucx, env={"UCX_TLS": "tcp,self"}), Agent("right", ucx)) as pair:
            assert pair.move() == "UCX tcp"
            (ours,), (theirs,) = pair.left.warnings(), pair.right.warnings()
            assert "right" in ours and "UCX_TLS=tcp,self leaves cma out" in ours, ours
            assert "left" in theirs and "the other agent" in theirs and "UCX_TLS" in theirs, theirs


def copies_that_are_switched_off_are_warned_of_where_ucx_has_none():
    with Pair(Agent("left", "system", env={"NIXL_UCX_CMA": "n"}), Agent("right", "system")) as pair:
        way = pair.move()
        assert [bool(agent.warnings()) for agent in (pair.left, pair.right)] == [way == "UCX tcp"] * 2
        assert way != "UCX tcp" or "NIXL_UCX_CMA" in pair.left.warnings()[0], pair.left.warnings()


def a_filter_of_system_calls_is_named():
    for ucx in versions():
        with Pair(Agent("left", ucx, forbid=True), Agent("right", ucx)) as pair:
            assert pair.move() == "UCX tcp"
            (ours,) = pair.left.warnings()
            assert "seccomp" in ours and "SYS_PTRACE" in ours, ours


def another_user_is_named():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root and setpriv")
    nobody = ["setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]
    if sh(*nobody, sys.executable, "-c", f"import sys; sys.path.insert(0, {PACKAGE!r}); import nixl").returncode != 0:
        raise Skip("another user cannot read the build")
    with Pair(Agent("left", "system", where=nobody, env={"HOME": "/"}), Agent("right", "system")) as pair:
        pair.move()
        (ours,) = pair.left.warnings()
        assert "as user 65534" in ours and "as user 0" in ours, ours


# ---- between machines ----

def process_namespaces_of_their_own_are_named():
    with Machines() as machines:
        machines.cable("eth0", "10.1.0")
        for ucx in versions():
            with machines.pair(ucx) as pair:
                assert pair.move() == "UCX tcp"
                (ours,) = pair.left.warnings()
                assert "process namespaces" in ours and "--pid=" in ours, ours
                assert "tcp (eth0, 10.1.0.1)" in pair.left.ways()[0], pair.left.ways()


def of_two_interfaces_one_has_no_link():
    with Machines() as machines:
        machines.cable("eth0", "10.1.0")
        machines.cable("eth1", "10.2.0")
        for side, device in (("r", "eth0"), ("l", "eth1")):
            machines.ip(side, "link", "set", device, "down")
            machines.wait("lr".replace(side, ""), device, "NO-CARRIER")
            for ucx in versions():
                with machines.pair(ucx) as pair:
                    assert pair.move() == "UCX tcp"
            machines.ip(side, "link", "set", device, "up")
            for end in "lr":
                machines.wait(end, device, "state UP")


def an_interface_that_swallows_everything_fails_in_time_and_the_words_name_the_setting():
    with Machines() as machines:
        machines.cable("eth0", "10.1.0")
        machines.cable("eth1", "10.2.0")
        machines.swallow("eth0", "10.1.0")
        for ucx in versions():
            with machines.pair(ucx, {"UCX_NET_DEVICES": "eth1"}) as pair:
                assert pair.move() == "UCX tcp"
            if not leaves_addresses_out(ucx):
                continue  # an old UCX waits in connect() for the system's two minutes: README.md of the backend
            with machines.pair(ucx) as pair:
                start = time.monotonic()
                answer = pair.left.tell(f"WRITE right {pair.right.memory}", 30)
                took = time.monotonic() - start
                assert answer.startswith("failed: ") and took < 20, (answer, took)
                for words in ("10.1.0.2", "timed out", "UCX_NET_DEVICES", "eth0 (10.1.0.1)", "eth1 (10.2.0.1)"):
                    assert words in answer, (words, answer)


def link_local_addresses_alone_serve_or_are_said_to_be_the_reason():
    with Machines() as machines:
        machines.cable("eth0", "169.254.7", 16)
        for ucx in versions():
            with machines.pair(ucx) as pair:
                if not leaves_addresses_out(ucx):
                    assert pair.move() == "UCX tcp"
                    assert all("link-local" not in line for line in pair.left.warnings()), pair.left.warnings()
                    continue
                answer = pair.left.tell(f"WRITE right {pair.right.memory}")
                assert answer.startswith("failed: ") and "link-local" in answer and "169.254.0.0/16" in answer, answer


def a_link_local_address_gives_way_to_one_that_can_be_routed():
    with Machines() as machines:
        machines.cable("a0", "169.254.7", 16)
        machines.cable("eth0", "10.1.0")
        for ucx in versions():
            with machines.pair(ucx) as pair:
                assert pair.move() == "UCX tcp"
                assert "(eth0, 10.1.0.1)" in pair.left.ways()[0], pair.left.ways()
                assert all("link-local" not in line for line in pair.left.warnings()), pair.left.warnings()
            if not leaves_addresses_out(ucx):
                with machines.pair(ucx, {"UCX_NET_DEVICES": "a0"}) as pair:
                    assert pair.move() == "UCX tcp"
                    (ours,) = pair.left.warnings()
                    assert "link-local" in ours and "UCX_NET_DEVICES=eth0,lo" in ours, ours


def a_bridge_that_both_have_with_one_address_is_left_out():
    with Machines() as machines:
        machines.both("link", "add", "docker0", "type", "bridge")
        machines.both("addr", "add", "172.17.0.1/16", "dev", "docker0")
        machines.both("link", "set", "docker0", "up")
        machines.both("link", "add", "inside", "type", "veth", "peer", "name", "container")
        machines.both("link", "set", "inside", "master", "docker0")
        machines.both("link", "set", "inside", "up")
        machines.both("link", "set", "container", "up")
        machines.cable("zeth0", "10.1.0")
        for ucx in versions():
            with machines.pair(ucx) as pair:
                assert pair.move() == "UCX tcp"
                assert "(zeth0, 10.1.0.1)" in pair.left.ways()[0], pair.left.ways()
        # Whoever insists on it is told what is wrong.
        with machines.pair("system", {"UCX_NET_DEVICES": "docker0", "UCX_TCP_BRIDGE_ENABLE": "y"}) as pair:
            answer = pair.left.tell(f"WRITE right {pair.right.memory}", 30)
            assert answer.startswith("failed: ") and "UCX_NET_DEVICES" in answer and "zeth0 (10.1.0.1)" in answer, answer


def a_bridge_that_carries_the_host_s_only_address_is_used():
    with Machines() as machines:
        machines.cable("eth0", "")
        for number, side in enumerate("lr", 1):
            machines.ip(side, "link", "add", "link", "eth0", "name", "eth0.5", "type", "macvlan", "mode", "passthru")
            machines.ip(side, "link", "add", "br0", "type", "bridge")
            machines.ip(side, "link", "set", "eth0.5", "master", "br0")
            machines.ip(side, "addr", "add", f"10.1.0.{number}/24", "dev", "br0")
            machines.ip(side, "link", "set", "eth0.5", "up")
            machines.ip(side, "link", "set", "br0", "up")
        for side in "lr":
            machines.wait(side, "br0", "state UP")
        for ucx in versions():
            with machines.pair(ucx) as pair:
                assert pair.move() == "UCX tcp"
                assert "(br0, 10.1.0.1)" in pair.left.ways()[0], pair.left.ways()


if __name__ == "__main__":
    if not os.path.isdir(os.path.join(PACKAGE, "nixl")):
        print("1..0 # SKIP the Python package was not built")
        sys.exit(0)
    main([
        a_default_start_on_one_host_says_the_way_once_and_warns_of_nothing,
        tcp_within_a_host_is_warned_of_with_the_setting_that_caused_it,
        copies_that_are_switched_off_are_warned_of_where_ucx_has_none,
        a_filter_of_system_calls_is_named,
        another_user_is_named,
        process_namespaces_of_their_own_are_named,
        of_two_interfaces_one_has_no_link,
        an_interface_that_swallows_everything_fails_in_time_and_the_words_name_the_setting,
        link_local_addresses_alone_serve_or_are_said_to_be_the_reason,
        a_link_local_address_gives_way_to_one_that_can_be_routed,
        a_bridge_that_both_have_with_one_address_is_left_out,
        a_bridge_that_carries_the_host_s_only_address_is_used,
    ])
