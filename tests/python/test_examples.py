# SPDX-License-Identifier: Apache-2.0
"""Every example is run and says what it should."""
import os
import re
import socket
import subprocess
import sys

import pytest
from conftest import BUILD, SOURCE

EXAMPLES = os.path.join(SOURCE, "examples", "python")
EXPECTED = {
    "expanded_two_peers.py": ["256 blocks of 4096 bytes in 4 transfers", "and once more, without making anything anew"],
    "partial_metadata.py": ["the guest sees one buffer", "and now the other too", "the owner's second buffer has hello"],
    "query_memory.py": ["there has 10 bytes", "missing is not there"],
    "file_storage.py": [r"WRITE 1048576 bytes over POSIX .*", r"READ 1048576 bytes over POSIX .*",
                        "the file has what the memory had"],
    "remote_storage.py": ["the server has kept notes", "the server has loaded notes",
                          "the buffer again has: worth keeping"],
    "telemetry_reader.py": [r" +bytes +descriptors .*"] + [rf" +{512 << i} +1 +\d+ +\d+ +\d+  UCX .*" for i in range(8)],
}


def start(*arguments):
    env = {**os.environ, "NIXL_LOG_LEVEL": "WARN"}
    return subprocess.Popen([sys.executable, *arguments], env=env, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)


def output(process):
    out = process.communicate(timeout=60)[0]
    assert process.returncode == 0, out
    return out.splitlines()


@pytest.fixture(autouse=True)
def needs_ucx():
    if not os.path.exists(os.path.join(BUILD, "plugins", "libplugin_UCX.so")):
        pytest.skip("the UCX backend is not built here")


def test_each_example_is_known_here():
    assert sorted(os.listdir(EXAMPLES)) == sorted([*EXPECTED, "basic_two_peers.py"])


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_runs(name):
    lines = output(start(os.path.join(EXAMPLES, name)))
    assert len(lines) == len(EXPECTED[name]) and all(map(re.fullmatch, EXPECTED[name], lines)), lines


def test_the_two_processes_of_the_basic_example():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    program = os.path.join(EXAMPLES, "basic_two_peers.py")
    target, initiator = (start(program, "--mode", mode, "--port", port) for mode in ("target", "initiator"))
    assert re.fullmatch(r"read 1048576 bytes in \d+ us over UCX .*", output(initiator)[0])
    assert output(target) == ["the initiator has read the buffer"]
