#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two processes: the initiator reads the target's buffer, and tells it.

    basic_two_peers.py --mode target    --port 5555
    basic_two_peers.py --mode initiator --port 5555 [--ip 127.0.0.1]

Metadata and the target's descriptors travel over a plain socket here; any way will do.
"""
import argparse
import ctypes
import socket
import time

from nixl import nixl_agent, nixl_agent_config

SIZE = 1 << 20


def send(sock, data):
    sock.sendall(len(data).to_bytes(8, "little") + data)


def receive(sock):
    def exactly(n):
        data = b""
        while len(data) < n:
            piece = sock.recv(n - len(data))
            if not piece:
                raise ConnectionError("the other side is gone")
            data += piece
        return data

    return exactly(int.from_bytes(exactly(8), "little"))


def connect(address, seconds=20.0):
    end = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(address)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


parser = argparse.ArgumentParser()
parser.add_argument("--mode", choices=["target", "initiator"], required=True)
parser.add_argument("--ip", default="127.0.0.1")
parser.add_argument("--port", type=int, default=5555)
args = parser.parse_args()

with nixl_agent(args.mode, nixl_agent_config(backends=["UCX"])) as agent:
    fill = b"t" if args.mode == "target" else b"i"
    buffer = ctypes.create_string_buffer(fill * SIZE, SIZE)
    address = ctypes.addressof(buffer)
    agent.register_memory([(address, SIZE, 0, "")], "DRAM")
    mine = agent.get_xfer_descs([(address, SIZE, 0)], "DRAM")

    if args.mode == "target":
        with socket.create_server((args.ip, args.port)) as server, server.accept()[0] as sock:
            send(sock, agent.get_agent_metadata())
            send(sock, agent.get_serialized_descs(mine))
            end = time.monotonic() + 20
            while not agent.check_remote_xfer_done("initiator", b"read"):
                if time.monotonic() > end:
                    raise TimeoutError("nobody has read the buffer")
                time.sleep(0.001)
            print("the initiator has read the buffer")
            send(sock, b"bye")
    else:
        with connect((args.ip, args.port)) as sock:
            peer = agent.add_remote_agent(receive(sock)).decode()
            theirs = agent.deserialize_descs(receive(sock))
            with agent.initialize_xfer("READ", mine, theirs, peer, b"read") as handle:
                agent.transfer(handle)
                while agent.check_xfer_state(handle) != "DONE":
                    pass
                assert buffer.raw == b"t" * SIZE
                times = agent.get_xfer_telemetry(handle)
                print(f"read {times.totalBytes} bytes in {times.xferDuration} us over {handle.transport}")
            assert receive(sock) == b"bye"
            agent.remove_remote_agent(peer)
