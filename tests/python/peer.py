# SPDX-License-Identifier: Apache-2.0
"""One side of two processes over UCX:  peer.py initiator|target FOLDER NAME OTHER

The sides exchange metadata and serialized lists by files. Only what the reference has too is used, so that it can be
either side. NIXL_PEER_PARAMS are parameters of this side's backend ("num_workers=4 num_threads=2"), NIXL_PEER_BLOCKS the number of blocks;
with it they lie scattered, so that none adjoin.
"""
import ctypes
import os
import sys
import time

import nixl._api as api

role, folder, name, other = sys.argv[1:]
size, blocks = 1 << 20, int(os.environ.get("NIXL_PEER_BLOCKS", 16))
step = 1 if blocks == 16 else 4391
params = dict(word.split("=") for word in os.environ.get("NIXL_PEER_PARAMS", "").split())
agent = api.nixl_agent(name, api.nixl_agent_config(backends=[]) if params else None)
if params:
    agent.create_backend("UCX", params)
memory = ctypes.create_string_buffer((b"I" if role == "initiator" else b"T") * size, size)
address = ctypes.addressof(memory)


def put(file, data):
    with open(f"{folder}/{file}.part", "wb") as out:
        out.write(data)
    os.rename(f"{folder}/{file}.part", f"{folder}/{file}")


def get(file):
    end = time.monotonic() + 20
    while not os.path.exists(f"{folder}/{file}"):
        if time.monotonic() > end:
            sys.exit(f"{file} did not come")
        time.sleep(0.01)
    with open(f"{folder}/{file}", "rb") as data:
        return data.read()


def run(handle):
    state = agent.transfer(handle)
    end = time.monotonic() + 20
    while state == "PROC":
        if time.monotonic() > end:
            sys.exit("the transfer did not end")
        state = agent.check_xfer_state(handle)
    return state


agent.register_memory([(address, size, 0, "")], "DRAM")
mine = agent.get_xfer_descs([(address + i * step % blocks * (size // blocks), size // blocks, 0) for i in range(blocks)], "DRAM")
put(name + ".metadata", agent.get_agent_metadata())
put(name + ".list", agent.get_serialized_descs(mine))
put(name + ".reg", agent.get_serialized_descs(agent.get_reg_descs([(address, size, 0, b"m\0x")], "DRAM")))
assert agent.add_remote_agent(get(other + ".metadata")) == other.encode()
theirs, reg = agent.deserialize_descs(get(other + ".list")), agent.deserialize_descs(get(other + ".reg"))
assert theirs.descCount() == blocks and theirs[1][0] == theirs[0][0] + step % blocks * (size // blocks) and reg[0][1:] == (size, 0, b"m\0x")
if role == "initiator":
    first = agent.initialize_xfer("READ", mine, theirs, other, b"read\0done")
    print("read", run(first), memory.raw == b"T" * size)
    ctypes.memset(address, ord("W"), size)
    local, remote = agent.prep_xfer_dlist("NIXL_INIT_AGENT", mine), agent.prep_xfer_dlist(other, theirs)
    second = agent.make_prepped_xfer("WRITE", local, list(range(blocks)), remote, list(range(blocks)), b"written")
    print("write", run(second))
    agent.send_notif(other, b"bye")
    end = time.monotonic() + 20
    while not agent.check_remote_xfer_done(other, b"ok"):
        if time.monotonic() > end:
            sys.exit("no answer came")
    for handle in (first, second):
        agent.release_xfer_handle(handle)
    for handle in (local, remote):
        agent.release_dlist_handle(handle)
else:
    got, end = [], time.monotonic() + 20
    while b"bye" not in got:
        got += agent.get_new_notifs().get(other, [])
        if time.monotonic() > end:
            sys.exit(f"only {got} came")
    print(got, memory.raw == b"W" * size)
    agent.send_notif(other, b"ok")
    time.sleep(0.5)
agent.remove_remote_agent(other)
print("end", flush=True)
os._exit(0)
