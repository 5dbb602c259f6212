#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent of README.md, written with the Python binding: ours, or the reference's where only that can be imported."""
import ctypes
import os
import sys
import time

try:
    from nixl._api import nixl_agent, nixl_agent_config
except ImportError:
    from nixl_cu12._api import nixl_agent, nixl_agent_config

BYTES, AGENTS = 4096, 16
folder, own, names = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
index = names.index(own)
others = [(i, name) for i, name in enumerate(names) if i != index]


def put(suffix, data):
    with open(f"{folder}/{own}.new", "wb") as file:
        file.write(data)
    os.rename(f"{folder}/{own}.new", f"{folder}/{own}.{suffix}")


def get(name, suffix):
    for _ in range(3000):
        if os.path.exists(f"{folder}/{name}.{suffix}"):
            with open(f"{folder}/{name}.{suffix}", "rb") as file:
                return file.read()
        time.sleep(0.01)
    sys.exit(f"{name}.{suffix} does not come")


inbox = ctypes.create_string_buffer(AGENTS * BYTES)
source = ctypes.create_string_buffer(bytes([65 + index]) * BYTES, BYTES)
back = ctypes.create_string_buffer(BYTES)
agent = nixl_agent(own, nixl_agent_config(backends=["UCX"]))
memory = agent.register_memory(
    [(ctypes.addressof(block), ctypes.sizeof(block), 0, "") for block in (inbox, source, back)], "DRAM")


def transfer(operation, local, remote, peer, notif):
    here = agent.get_xfer_descs([(local, BYTES, 0)], "DRAM")
    there = agent.get_xfer_descs([(remote, BYTES, 0)], "DRAM")
    handle = agent.initialize_xfer(operation, here, there, peer, notif)
    state = agent.transfer(handle)
    for _ in range(200000):
        if state != "PROC":
            break
        time.sleep(0.0001)
        state = agent.check_xfer_state(handle)
    if state != "DONE":
        sys.exit(f"{operation} with {peer}: {state}")
    agent.release_xfer_handle(handle)


put("md", agent.get_agent_metadata())
put("at", f"{ctypes.addressof(inbox)} {ctypes.addressof(source)}".encode())
for place, name in others:
    loaded = agent.add_remote_agent(get(name, "md"))
    assert (loaded.decode() if isinstance(loaded, bytes) else loaded) == name
    their_inbox, their_source = map(int, get(name, "at").split())
    transfer("READ", ctypes.addressof(back), their_source, name, b"")
    if back.raw != bytes([65 + place]) * BYTES:
        sys.exit(f"read of {name}: other bytes")
    transfer("WRITE", ctypes.addressof(source), their_inbox + index * BYTES, name, own.encode())

came = {}
for _ in range(3000):
    for name, messages in agent.get_new_notifs().items():
        came.setdefault(name, []).extend(message for message in messages if message)
    if all(came.get(name) for _, name in others):
        break
    time.sleep(0.01)
for place, name in others:
    if came.get(name) != [name.encode()]:
        sys.exit(f"{name} sent {came.get(name)}")
    if inbox.raw[place * BYTES:(place + 1) * BYTES] != bytes([65 + place]) * BYTES:
        sys.exit(f"inbox of {name}: other bytes")
put("done", b"")
for name in names:
    get(name, "done")
agent.deregister_memory(memory)
sys.stdout.flush()
# The reference's interpreter sometimes crashes while it tears its threads down; everything has been looked at by now.
os._exit(0)
