#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nixl-info --peer: who listens there, what it offers, which way bytes would go; and clear words, in time, for who does not."""
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

from bench_support import INFO, environment, free_port, main, run

PACKAGE = os.path.join(os.environ["NIXL_TEST_BUILD"], "bindings", "python")
AGENT = """
import ctypes, sys
import nixl
agent = nixl.nixl_agent("decode", nixl.nixl_agent_config(enable_prog_thread=True, enable_listen_thread=True,
                                                         listen_port=int(sys.argv[1]), backends=["UCX"]))
memory = ctypes.create_string_buffer(3 << 20)
at = ctypes.addressof(memory)
agent.register_memory([(at, 1 << 20, 0, ""), (at + (2 << 20), 1 << 20, 0, "")], "DRAM")
print("= ready", flush=True)
sys.stdin.read()
"""


class Agent:
    def __init__(self, **env):
        self.port = free_port()
        self.env = environment({"PYTHONPATH": PACKAGE, **env})

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", AGENT, str(self.port)], env=self.env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert any(line == "= ready\n" for line in self.process.stdout)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def the_agent_at_an_address_is_shown_with_its_transport():
    with Agent() as agent:
        for host in ("127.0.0.1", "localhost", "[::1]"):
            rc, out, err = run(INFO, "--peer", f"{host}:{agent.port}")
            assert rc == 0 and err == "", (out, err)
        lines = dict(line.split(None, 1) for line in out.splitlines())
        assert lines["agent"] == "decode" and "generation" in lines["incarnation"], out
        assert lines["backend"].startswith("UCX (UCX 1."), out
        assert lines["regions"] == "2 of DRAM by UCX, 2097152 bytes", out
        assert lines["transport"] == "UCX cma" and "warning" not in lines, out


def json_has_the_same_and_the_warning_of_a_slow_way():
    with Agent() as agent:
        rc, out, err = run(INFO, "--json", f"--peer=127.0.0.1:{agent.port}", env={"UCX_TLS": "tcp,self"})
        assert rc == 0 and err == "", (out, err)
        doc = json.loads(out)
        assert doc["agent"] == "decode" and doc["reached"] is True and doc["transport"] == "UCX tcp", doc
        assert doc["backends"][0]["name"] == "UCX" and doc["backends"][0]["version"].startswith("UCX 1."), doc
        assert doc["regions"] == [{"backend": "UCX", "mem": "DRAM", "count": 2, "bytes": 2097152}], doc
        assert len(doc["warnings"]) == 1 and "UCX_TLS=tcp,self leaves cma out" in doc["warnings"][0], doc
        # The agent has gone on living.
        rc, out, err = run(INFO, "--peer", f"127.0.0.1:{agent.port}", env={"UCX_TLS": "tcp,self"})
        assert rc == 0 and "\nwarning " in out and "UCX_TLS" in out, (out, err)


def another_ucx_is_shown_and_refused_in_words():
    other = os.environ.get("NIXL_TEST_UCX122", "")
    with Agent(NIXL_UCX_PATH="") as agent:
        rc, out, err = run(INFO, "--peer", f"127.0.0.1:{agent.port}", env={"NIXL_UCX_PATH": other})
        assert out.startswith("agent       decode\n"), out
        assert rc == 0 or (rc == 1 and "cannot speak with each other" in err and "transport" not in out), (out, err)


def nobody_there_and_nobody_who_answers_are_told_in_time():
    rc, out, err = run(INFO, "--peer", f"127.0.0.1:{free_port()}")
    assert rc == 1 and out == "" and "127.0.0.1:" in err and "refused" in err, err
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        start = time.monotonic()
        rc, out, err = run(INFO, "--peer", f"127.0.0.1:{silent.getsockname()[1]}", timeout=30)
        assert rc == 1 and out == "" and "no answer" in err and time.monotonic() - start < 20, err
    rc, out, err = run(INFO, "--peer", "no.such.host.invalid:1")
    assert rc == 1 and "no.such.host.invalid" in err, err
    rc, out, err = run(INFO, "--peer")
    assert rc == 1 and "--peer needs" in err, err


def a_key_is_asked_for_and_taken():
    with tempfile.TemporaryDirectory() as folder:
        names = [os.path.join(folder, name) for name in ("key", "other")]
        for name in names:
            with open(name, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(os.path.basename(name) * 20 + "\n")
        with Agent(NIXL_AUTH_KEY_FILE=names[0]) as agent:
            there = f"127.0.0.1:{agent.port}"
            rc, out, err = run(INFO, "--peer", there, env={"NIXL_AUTH_KEY_FILE": names[0]})
            assert rc == 0 and "\ntransport   UCX" in out, (out, err)
            for env in ({}, {"NIXL_AUTH_KEY_FILE": names[1]}):
                rc, out, err = run(INFO, "--peer", there, env=env)
                assert rc == 1 and out == "" and "NIXL_AUTH_KEY_FILE" in err, (out, err)


if not os.path.isdir(os.path.join(PACKAGE, "nixl")):
    print("1..0 # SKIP the Python package was not built")
    sys.exit(0)
main([
    the_agent_at_an_address_is_shown_with_its_transport,
    json_has_the_same_and_the_warning_of_a_slow_way,
    another_ucx_is_shown_and_refused_in_words,
    nobody_there_and_nobody_who_answers_are_told_in_time,
    a_key_is_asked_for_and_taken,
])
