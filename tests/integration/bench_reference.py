#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nixlbench at one end, an agent of the reference at the other, met by the ASIO runtime.

NIXL_TEST_REFERENCE_PYTHON names an interpreter that can import the reference's Python package; without it the tests are
skipped. NIXL_TEST_UCX122 names the folder of a libucp that the reference's can speak with. This file runs
itself under that interpreter as the other end: it says and expects what the reference's benchmark does."""
import os
import socket
import struct
import subprocess
import sys
import time

BLOCKS = [4096 << i for i in range(9)]
ITERATIONS, WARMUP = 64, 16
FLAGS = ["--start_block_size=4096", f"--max_block_size={1 << 20}", f"--num_iter={ITERATIONS}", f"--warmup_iter={WARMUP}",
         "--check_consistency", "--runtime_type=ASIO", "--progress=off", "--output=json"]


class Link:
    """Frames of 32 bits (type << 24 | length) and bytes; those not asked for yet wait."""

    def __init__(self, port, listen):
        if listen:
            with socket.create_server(("127.0.0.1", port)) as s:
                print("listening", flush=True)
                self.sock, _ = s.accept()
        else:
            for _ in range(500):
                try:
                    self.sock = socket.create_connection(("127.0.0.1", port))
                    break
                except ConnectionRefusedError:
                    time.sleep(0.02)
        self.waiting = []
        self.barriers = 0

    def send(self, kind, data):
        self.sock.sendall(struct.pack("<I", len(data) | ord(kind) << 24) + data)

    def exactly(self, n):
        data = b""
        while len(data) < n:
            piece = self.sock.recv(n - len(data))
            if not piece:
                raise EOFError("the other end closed")
            data += piece
        return data

    def take(self, kind):
        while True:
            for i, (k, data) in enumerate(self.waiting):
                if k == kind:
                    del self.waiting[i]
                    return data
            (head,) = struct.unpack("<I", self.exactly(4))
            self.waiting.append((chr(head >> 24), self.exactly(head & 0xFFFFFF)))

    def send_message(self, data):
        self.send("i", struct.pack("<i", len(data)))
        self.send("s", data)

    def take_message(self):
        (n,) = struct.unpack("<i", self.take("i"))
        data = self.take("s")
        assert n == len(data)
        return data

    def barrier(self, name):
        self.barriers += 1
        full = f"{name}/{self.barriers}".encode()
        self.send("b", full)
        got = self.take("b")
        assert got == full, (got, full)


def reference():
    try:
        from nixl_cu12 import _api, _bindings
    except ImportError:
        from nixl import _api, _bindings
    return _api, _bindings


def open_agent(name, fill, link):
    import numpy as np
    api, bindings = reference()
    link.barrier("start_barrier")
    agent = api.nixl_agent(name, api.nixl_agent_config(backends=["UCX"]))
    buffer = np.full(max(BLOCKS), fill, dtype=np.uint8)
    agent.register_memory([(buffer.ctypes.data, buffer.nbytes, 0, "")], "DRAM")
    return agent, bindings, buffer


def be_target(port, op):
    link = Link(port, listen=False)
    agent, _, buffer = open_agent("target", 0xAA, link)
    link.send_message(agent.get_agent_metadata())
    seen = 0
    for block in BLOCKS:
        buffer[:] = 0xAA
        descs = agent.get_xfer_descs([(buffer.ctypes.data, block, 0)], "DRAM")
        link.send_message(descs.__getstate__())
        link.barrier("sync")
        for count in (WARMUP, ITERATIONS):
            seen += count
            got = 0
            while got < count:
                for sender, messages in agent.get_new_notifs().items():
                    assert sender == "initiator" and set(messages) == {b"0xBEEF"}, (sender, messages)
                    got += len(messages)
            assert got == count, (got, count)
            link.barrier("sync")
        if op == "WRITE":
            assert (buffer[:block] == 0xBB).all() and (buffer[block:] == 0xAA).all()
    link.barrier("sync")


def be_initiator(port, op):
    link = Link(port, listen=True)
    agent, bindings, buffer = open_agent("initiator", 0xBB, link)
    peer = agent.add_remote_agent(link.take_message())
    for block in BLOCKS:
        buffer[:] = 0xBB
        remote = bindings.nixlXferDList.__new__(bindings.nixlXferDList)
        remote.__setstate__(link.take_message())
        local = agent.get_xfer_descs([(buffer.ctypes.data, block, 0)], "DRAM")
        handle = agent.initialize_xfer(op, local, remote, peer, b"0xBEEF")
        link.barrier("sync")
        for count in (WARMUP, ITERATIONS):
            for _ in range(count):
                state = agent.transfer(handle, b"0xBEEF")
                while state == "PROC":
                    state = agent.check_xfer_state(handle)
                assert state == "DONE", state
            link.barrier("sync")
        if op == "READ":
            assert (buffer[:block] == 0xAA).all() and (buffer[block:] == 0xBB).all()
        agent.release_xfer_handle(handle)
    link.barrier("sync")


if len(sys.argv) > 1:
    {"target": be_target, "initiator": be_initiator}[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
    import importlib.metadata
    versions = [f"{d.name} {d.version}" for d in importlib.metadata.distributions() if d.name.startswith(("nixl", "libucx"))]
    print("ended well; reference: " + ", ".join(sorted(set(versions))), flush=True)
    os._exit(0)  # the end of its interpreter is not what is tested

# pylint: disable=wrong-import-position
import json  # noqa: E402

from bench_support import BENCH, Skip, environment, main  # noqa: E402


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ours_and_theirs(role, op, tls):
    python = os.environ.get("NIXL_TEST_REFERENCE_PYTHON")
    if not python:
        raise Skip("NIXL_TEST_REFERENCE_PYTHON names no interpreter with the reference")
    port = free_port()
    extra = {"UCX_TLS": tls} if tls else {}
    ours_extra = dict(extra)
    if os.environ.get("NIXL_TEST_UCX122"):
        ours_extra["NIXL_UCX_PATH"] = os.environ["NIXL_TEST_UCX122"]
    theirs_env = environment(extra)
    theirs_env.pop("NIXL_PLUGIN_DIR", None)
    theirs_env.pop("LD_LIBRARY_PATH", None)
    theirs = subprocess.Popen([python, __file__, role, str(port), op], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env=theirs_env)
    if role == "initiator":  # who listens is the initiator: ours must come second
        line = theirs.stdout.readline()
        assert line.strip() == "listening", theirs.stderr.read()
    ours = subprocess.Popen([BENCH, *FLAGS, f"--op_type={op}", f"--asio_port={port}"], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=environment(ours_extra))
    out, err = "", ""
    try:
        out, err = ours.communicate(timeout=90)
        their_out, their_err = theirs.communicate(timeout=30)
    finally:
        ours.kill()
        theirs.kill()
    words = f"ours: {ours.returncode} {err[-800:]}\ntheirs: {theirs.returncode} {their_out[-300:]} {their_err[-1500:]}"
    assert ours.returncode == 0 and theirs.returncode == 0 and "ended well" in their_out, words
    if role == "target":
        doc = json.loads(out)
        assert [r["block_size"] for r in doc["results"]] == BLOCKS
        assert all(r["requests"] == ITERATIONS for r in doc["results"])
        last = doc["results"][-1]
        print(f"# {op} to the reference over {last['transport']}: {last['block_size']} B at {last['bandwidth_gb_s']:.2f} GB/s "
              f"(ours: NIXL {doc['nixl_version']}, {doc['backend_description']}; {their_out.strip().rpartition('; ')[2]})")


def write_to_the_reference_over_tcp():
    ours_and_theirs("target", "WRITE", "tcp")


def read_from_the_reference_over_tcp():
    ours_and_theirs("target", "READ", "tcp")


def the_reference_writes_to_us_over_tcp():
    ours_and_theirs("initiator", "WRITE", "tcp")


def the_reference_reads_from_us_over_tcp():
    ours_and_theirs("initiator", "READ", "tcp")


def both_ways_over_what_ucx_chooses():
    for role in ("target", "initiator"):
        for op in ("WRITE", "READ"):
            ours_and_theirs(role, op, None)


main([
    write_to_the_reference_over_tcp,
    read_from_the_reference_over_tcp,
    the_reference_writes_to_us_over_tcp,
    the_reference_reads_from_us_over_tcp,
    both_ways_over_what_ucx_chooses,
])
