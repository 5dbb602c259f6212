# SPDX-License-Identifier: Apache-2.0
"""What the Python tests share: agents over the test-only backend MOCK, buffers, and a way to wait."""
import ctypes
import itertools
import os
import subprocess
import sys
import time

import hypothesis
import pytest

import nixl._api as api
import nixl._bindings as bindings

SOURCE = os.environ["NIXL_TEST_SOURCE"]
BUILD = os.environ["NIXL_TEST_BUILD"]
_numbers = itertools.count()
# No bound on the time of one example: that depends on who else is on the machine. The test as a whole has one.
hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.load_profile("here")


class Buffer:
    """Plain memory of a known address."""

    def __init__(self, size, fill=0):
        self.memory = ctypes.create_string_buffer(bytes([fill]) * size, size)
        self.addr = ctypes.addressof(self.memory)
        self.size = size

    @property
    def bytes(self):
        return self.memory.raw

    def blocks(self, size, count=None, stride=None):
        stride = stride or size
        return [(self.addr + i * stride, size, 0) for i in range(count or self.size // stride)]

    def reg(self):
        return [(self.addr, self.size, 0, "")]


def until(condition, seconds=5.0):
    """The first true value of condition(); an error after some seconds."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.0005)


def finish(agent, handle, seconds=5.0):
    """Polls as programs do, until the transfer is done."""
    until(lambda: agent.check_xfer_state(handle) != "PROC", seconds)
    return agent.check_xfer_state(handle)


def agent_named(prefix="agent", **conf):
    conf.setdefault("backends", ["MOCK"])
    params = conf.pop("params", None)
    if params is not None:
        conf["backends"] = []
    agent = api.nixl_agent(f"{prefix}-{os.getpid()}-{next(_numbers)}", api.nixl_agent_config(**conf))
    if params is not None:
        agent.create_backend("MOCK", params)
    return agent


class Pair:
    """Two agents that know each other, each with a registered buffer."""

    def __init__(self, size=1 << 16, **conf):
        self.left, self.right = agent_named("left", **conf), agent_named("right", **conf)
        self.source, self.target = Buffer(size, 0x5A), Buffer(size)
        self.left.register_memory(self.source.reg(), "DRAM")
        self.right.register_memory(self.target.reg(), "DRAM")
        self.left.add_remote_agent(self.right.get_agent_metadata())
        self.right.add_remote_agent(self.left.get_agent_metadata())

    def close(self):
        self.left.close()
        self.right.close()

    def write(self, blocks=16, notif=b"", **more):
        size = self.source.size // blocks
        left = self.left.get_xfer_descs(self.source.blocks(size), "DRAM")
        right = self.left.get_xfer_descs(self.target.blocks(size), "DRAM")
        return self.left.initialize_xfer("WRITE", left, right, self.right.name, notif, **more)


@pytest.fixture
def pair():
    made = Pair()
    yield made
    made.close()


@pytest.fixture
def make_pair():
    made = []

    def make(**conf):
        made.append(Pair(**conf))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def agent():
    made = agent_named()
    yield made
    made.close()


def run_python(code, *args, env=None, python=None, timeout=60, check=True):
    """Runs a program in a new interpreter and returns what it printed."""
    done = subprocess.run([python or sys.executable, "-c", code, *args], text=True, capture_output=True,
                          timeout=timeout, env={**os.environ, **(env or {})})
    if check:
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture
def nixl_bindings():
    return bindings
