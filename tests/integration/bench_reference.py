#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nixlbench at one end, an agent of the reference at the other, met by the ASIO runtime and by the ETCD runtime.

NIXL_TEST_REFERENCE_PYTHON names an interpreter that can import the reference's Python package; without it the tests are
skipped. NIXL_TEST_UCX122 names the folder of a libucp that the reference's can speak with. This file runs
itself under that interpreter as the other end: it says and expects what the reference's benchmark does."""
import base64
import json
import os
import socket
import struct
import subprocess
import sys
import time
import urllib.request

BLOCKS = [4096 << i for i in range(9)]
ITERATIONS, WARMUP = 64, 16
FLAGS = ["--start_block_size=4096", f"--max_block_size={1 << 20}", f"--num_iter={ITERATIONS}", f"--warmup_iter={WARMUP}",
         "--check_consistency", "--progress=off", "--output=json"]


def b64(data):
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


class EtcdLink:
    """Numbers, texts and barriers under etcd's keys, through its gateway. The pauses are the reference's, shortened."""

    LOOK_S, BEFORE_REMOVAL_S = 0.3, 0.3

    def __init__(self, endpoint, rank):
        self.endpoint = endpoint
        self.prefix = "xferbench/default/"
        self.barriers = 0
        self.rank = rank
        lock = self.call("lock/lock", name=b64(self.prefix + "/lock"))["key"]
        got = self.get("/size")
        assert int(got or 0) == rank, (got, rank)
        self.put("/size", str(rank + 1))
        self.put(f"/rank/{rank}", "active")
        self.call("lock/unlock", key=lock)

    def call(self, path, **fields):
        request = urllib.request.Request(f"{self.endpoint}/v3/{path}", json.dumps(fields).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def put(self, key, value):
        self.call("kv/put", key=b64(self.prefix + key), value=b64(value))

    def get(self, key):
        kvs = self.call("kv/range", key=b64(self.prefix + key)).get("kvs", [])
        return base64.b64decode(kvs[0].get("value", "")) if kvs else None

    def list(self, key):
        name = self.prefix + key
        return self.call("kv/range", key=b64(name), range_end=b64(name[:-1] + chr(ord(name[-1]) + 1))).get("kvs", [])

    def remove(self, key):
        self.call("kv/deleterange", key=b64(self.prefix + key))

    def wait(self, key):
        for _ in range(200):
            value = self.get(key)
            if value is not None:
                return value
            time.sleep(self.LOOK_S)
        raise TimeoutError(key)

    def acknowledged(self, key):
        assert self.wait(key + "/ack") == b"received"
        self.remove(key + "/ack")

    def send_message(self, data):
        other = 1 - self.rank
        key = f"msg+int_data/src={self.rank}/dst={other}"
        self.put(key, str(len(data)))
        self.acknowledged(key)
        key = f"msg+char_data/src={self.rank}/dst={other}"
        self.put(key + "/data", data)
        self.put(key, f"{self.rank}:{other}:{len(data)}")
        self.acknowledged(key)

    def take_message(self):
        other = 1 - self.rank
        key = f"msg+int_data/src={other}/dst={self.rank}"
        size = int(self.wait(key))
        self.put(key + "/ack", "received")
        time.sleep(self.BEFORE_REMOVAL_S)
        self.remove(key)
        key = f"msg+char_data/src={other}/dst={self.rank}"
        assert self.wait(key) == f"{other}:{self.rank}:{size}".encode()
        data = self.wait(key + "/data")
        self.put(key + "/ack", "received")
        time.sleep(self.BEFORE_REMOVAL_S)
        self.remove(key + "/data")
        self.remove(key)
        assert len(data) == size
        return data

    def barrier(self, name):
        head = f"barrier/{name}/{self.barriers}/"
        self.barriers += 1
        self.put(head + str(self.rank), "1")
        for _ in range(200):
            count = len(self.list(head))
            if count in (0, 2):
                if self.rank == 0:
                    for rank in "01":
                        self.remove(head + rank)
                return
            time.sleep(self.LOOK_S)
        raise TimeoutError(head)


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


def be_target(link, op, blocks):
    agent, _, buffer = open_agent("target", 0xAA, link)
    link.send_message(agent.get_agent_metadata())
    seen = 0
    for block in blocks:
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


def be_initiator(link, op, blocks):
    agent, bindings, buffer = open_agent("initiator", 0xBB, link)
    peer = agent.add_remote_agent(link.take_message())
    for block in blocks:
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
    where = sys.argv[2]
    is_first = sys.argv[1] == "initiator"
    joined = EtcdLink(where, 0 if is_first else 1) if "://" in where else Link(int(where), listen=is_first)
    if "://" in where:
        print("registered", flush=True)
    (be_initiator if is_first else be_target)(joined, sys.argv[3], BLOCKS[:2] if "://" in where else BLOCKS)
    import importlib.metadata
    versions = [f"{d.name} {d.version}" for d in importlib.metadata.distributions() if d.name.startswith(("nixl", "libucx"))]
    print("ended well; reference: " + ", ".join(sorted(set(versions))), flush=True)
    os._exit(0)  # the end of its interpreter is not what is tested

# pylint: disable=wrong-import-position
from bench_support import BENCH, Etcd, Skip, environment, etcd_keys, free_port, main, wait_until  # noqa: E402


def start_theirs(role, where, op, extra):
    python = os.environ.get("NIXL_TEST_REFERENCE_PYTHON")
    if not python:
        raise Skip("NIXL_TEST_REFERENCE_PYTHON names no interpreter with the reference")
    env = environment(extra)
    env.pop("NIXL_PLUGIN_DIR", None)
    env.pop("LD_LIBRARY_PATH", None)
    return subprocess.Popen([python, __file__, role, where, op], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=env)


def start_ours(op, extra, *flags):
    if os.environ.get("NIXL_TEST_UCX122"):
        extra = {**extra, "NIXL_UCX_PATH": os.environ["NIXL_TEST_UCX122"]}
    return subprocess.Popen([BENCH, *FLAGS, f"--op_type={op}", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=environment(extra))


def await_both(ours, theirs, role, op, blocks=None):
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
        assert [r["block_size"] for r in doc["results"]] == (blocks or BLOCKS)
        assert all(r["requests"] == ITERATIONS for r in doc["results"])
        last = doc["results"][-1]
        print(f"# {op} to the reference over {last['transport']}: {last['block_size']} B at {last['bandwidth_gb_s']:.2f} GB/s "
              f"(ours: NIXL {doc['nixl_version']}, {doc['backend_description']}; {their_out.strip().rpartition('; ')[2]})")


def ours_and_theirs(role, op, tls):
    extra = {"UCX_TLS": tls} if tls else {}
    port = free_port()
    theirs = start_theirs(role, str(port), op, extra)
    if role == "initiator":  # who listens is the initiator: ours must come second
        line = theirs.stdout.readline()
        assert line.strip() == "listening", theirs.stderr.read()
    await_both(start_ours(op, extra, "--runtime_type=ASIO", f"--asio_port={port}"), theirs, role, op)


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


def the_two_meet_in_etcd_in_both_roles():
    if not os.environ.get("NIXL_TEST_REFERENCE_PYTHON"):
        raise Skip("NIXL_TEST_REFERENCE_PYTHON names no interpreter with the reference")
    for role, op in (("target", "WRITE"), ("initiator", "READ")):
        with Etcd() as endpoint:
            flags = ("--runtime_type=ETCD", f"--etcd_endpoints={endpoint}", "--max_block_size=8K")
            if role == "initiator":  # the first one registers as rank 0
                theirs = start_theirs(role, endpoint, op, {})
                line = theirs.stdout.readline()
                assert line.strip() == "registered", theirs.stderr.read()
                ours = start_ours(op, {}, *flags)
            else:
                ours = start_ours(op, {}, *flags)
                wait_until(lambda: etcd_keys(endpoint, "xferbench/default//rank/"), 10, "our rank")
                theirs = start_theirs(role, endpoint, op, {})
            await_both(ours, theirs, role, op, BLOCKS[:2])
            assert not etcd_keys(endpoint, "xferbench/")


main([
    write_to_the_reference_over_tcp,
    read_from_the_reference_over_tcp,
    the_reference_writes_to_us_over_tcp,
    the_reference_reads_from_us_over_tcp,
    both_ways_over_what_ucx_chooses,
    the_two_meet_in_etcd_in_both_roles,
])
