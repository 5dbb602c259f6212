#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Agents in two network namespaces of their own, joined by a cable: metadata over sockets by IPv4 and IPv6, the peer that does
not answer because the cable is down, and the one that comes later. Needs root and iproute2."""
import os
import shutil
import subprocess
import sys

from bench_support import Skip, environment, main, wait_until

BUILD = os.environ["NIXL_TEST_BUILD"]
PACKAGE = os.path.join(BUILD, "bindings", "python")
SIDES = {"l": ("10.77.0.1", "fd77::1"), "r": ("10.77.0.2", "fd77::2")}
AGENT = """
import sys, time
import nixl
name = sys.argv[1]
agent = nixl.nixl_agent(name, nixl.nixl_agent_config(enable_listen_thread=True, listen_port=7001, backends=["UCX"]))
print("ready", flush=True)
for line in sys.stdin:
    word, *args = line.split()
    if word == "fetch":
        agent.fetch_remote_metadata(args[0], args[1], 7001)
    elif word == "void":
        agent.invalidate_local_metadata(args[0], 7001)
    elif word == "knows":
        end = time.time() + float(args[2])
        while agent.check_remote_metadata(args[0]) != (args[1] == "1") and time.time() < end:
            time.sleep(0.01)
        print(int(agent.check_remote_metadata(args[0])), flush=True)
        continue
    print("done", flush=True)
"""


def sh(*args):
    return subprocess.run(args, capture_output=True, text=True, check=False)


class Cable:
    def __init__(self):
        self.names = {side: f"nixl-{os.getpid()}-{side}" for side in SIDES}

    def __enter__(self):
        if os.geteuid() != 0 or not shutil.which("ip"):
            raise Skip("needs root and iproute2")
        if not os.path.isdir(os.path.join(PACKAGE, "nixl")):
            raise Skip("the Python package was not built")
        for name in self.names.values():
            made = sh("ip", "netns", "add", name)
            if made.returncode != 0:
                raise Skip("no network namespaces here: " + made.stderr.strip())
        made = sh("ip", "link", "add", "cable", "netns", self.names["l"], "type", "veth", "peer", "name", "cable", "netns",
                  self.names["r"])
        if made.returncode != 0:
            self.__exit__()
            raise Skip("no veth here: " + made.stderr.strip())
        for side, (four, six) in SIDES.items():
            self.ip(side, "addr", "add", four + "/24", "dev", "cable")
            self.ip(side, "addr", "add", six + "/64", "dev", "cable", "nodad")
            self.ip(side, "link", "set", "lo", "up")
            self.ip(side, "link", "set", "cable", "up")
        # The kernel tells of a carrier up to a second late, and until then the interface is down for those who ask.
        wait_until(lambda: all(" state UP " in sh("ip", "-n", name, "link", "show", "cable").stdout
                               for name in self.names.values()), 10, "the cable's carrier")
        return self

    def ip(self, side, *args):
        done = sh("ip", "-n", self.names[side], *args)
        assert done.returncode == 0, (args, done.stderr)

    def agent(self, side, name):
        process = subprocess.Popen(["ip", "netns", "exec", self.names[side], sys.executable, "-c", AGENT, name],
                                   env=environment({"PYTHONPATH": PACKAGE}), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.answer(process) == "ready"
        return process

    @staticmethod
    def answer(process):
        for line in process.stdout:
            if line.strip() in ("ready", "done", "0", "1"):
                return line.strip()
        return "ended"

    def tell(self, process, line):
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return self.answer(process)

    def __exit__(self, *_):
        for name in self.names.values():
            sh("ip", "netns", "del", name)


def metadata_crosses_namespaces_by_ipv4_and_ipv6():
    with Cable() as cable:
        left, right = cable.agent("l", "left"), cable.agent("r", "right")
        try:
            for address in SIDES["r"]:
                assert cable.tell(left, f"fetch right {address}") == "done"
                assert cable.tell(left, "knows right 1 5") == "1", address
                assert cable.tell(right, f"void {SIDES['l'][0]}") == "done"
                assert cable.tell(left, "knows right 0 5") == "0", address
        finally:
            left.kill()
            right.kill()


def a_fetch_outlives_a_cable_that_is_down_for_a_while():
    with Cable() as cable:
        left, right = cable.agent("l", "left"), cable.agent("r", "right")
        try:
            cable.ip("r", "link", "set", "cable", "down")
            assert cable.tell(left, f"fetch right {SIDES['r'][0]}") == "done"
            assert cable.tell(left, "knows right 1 0.5") == "0"
            cable.ip("r", "link", "set", "cable", "up")
            assert cable.tell(left, "knows right 1 6") == "1"
        finally:
            left.kill()
            right.kill()


if __name__ == "__main__":
    main([metadata_crosses_namespaces_by_ipv4_and_ipv6, a_fetch_outlives_a_cable_that_is_down_for_a_while])
