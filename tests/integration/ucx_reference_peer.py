#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An agent of the reference that does what lines on its standard input say and answers each by a line that begins with "= "."""
import ctypes
import importlib
import importlib.metadata
import os
import re
import sys
import tempfile
import time

# What UCX says of its protocols (UCX_PROTO_INFO) goes to a file, answers to where standard output was.
answers = os.fdopen(os.dup(1), "w")
said = tempfile.TemporaryFile("w+")
os.dup2(said.fileno(), 1)

api = None
for package in ("nixl", "nixl_cu12", "nixl_cu13"):
    try:
        api = importlib.import_module(package + "._api")
        break
    except ImportError:
        pass
agent = api.nixl_agent("theirs", api.nixl_agent_config(enable_prog_thread=True, backends=["UCX"]))
SIZE = 1 << 20
blocks = [ctypes.create_string_buffer(SIZE) for _ in range(2)]
at = [ctypes.addressof(block) for block in blocks]
registered = [agent.register_memory([(at[0], SIZE, 0, "")], "DRAM")]


def transfer(operation, peer, local, remote, length, notif):
    handle = agent.initialize_xfer(operation, agent.get_xfer_descs([(local, length, 0)], "DRAM"),
                                   agent.get_xfer_descs([(remote, length, 0)], "DRAM"), peer, notif)
    state, end = agent.transfer(handle), time.time() + 20
    while state == "PROC" and time.time() < end:
        time.sleep(0.0005)
        state = agent.check_xfer_state(handle)
    agent.release_xfer_handle(handle)
    return state


def versions():
    """The package's version, and that of the UCX in this process; then what has carried bytes."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        path = re.search(r"\S*/libucp[-.]\S*", maps.read()).group(0)
    text = ctypes.CDLL(path).ucp_get_version_string
    text.restype = ctypes.c_char_p
    said.flush()
    said.seek(0)
    ways = sorted(set(re.findall(r"\b(tcp|cma|posix|sysv|self|knem|xpmem)/", said.read())))
    return f"nixl {importlib.metadata.version('nixl')}, UCX {text().decode()}, {'+'.join(ways) or 'transport not told'}"


def do(word, args):
    if word == "md":
        return agent.get_agent_metadata().hex()
    if word == "more":  # registers the second block; its metadata alone, or everything again
        registered.append(agent.register_memory([(at[1], SIZE, 0, "")], "DRAM"))
        if args[0] == "all":
            return agent.get_agent_metadata().hex()
        return agent.get_partial_agent_metadata(registered[1], False, ["UCX"]).hex()
    if word == "load":
        loaded = agent.add_remote_agent(bytes.fromhex(args[0]))
        return loaded.decode() if isinstance(loaded, bytes) else loaded
    if word == "fill":
        ctypes.memset(at[int(args[0])], int(args[1]), SIZE)
        return "done"
    if word == "holds":
        return "yes" if blocks[int(args[0])].raw == bytes([int(args[1])]) * SIZE else "no"
    if word in ("WRITE", "READ"):
        return transfer(word, "ours", at[0], int(args[0]), int(args[1]), args[2].encode())
    if word == "notify":
        agent.send_notif("ours", args[0].encode())
        return "done"
    if word == "notifs":  # until as many have come
        came, end = [], time.time() + 10
        while len(came) < int(args[0]) and time.time() < end:
            came += [message.decode() for message in agent.get_new_notifs().get("ours", [])]
            time.sleep(0.001)
        return " ".join(came)
    return versions()


print("= ready", at[0], at[1], file=answers, flush=True)
for line in sys.stdin:
    word, *args = line.split()
    try:
        answer = do(word, args)
    except Exception as e:  # whatever it is, the other side has to know
        answer = f"failed: {e!r}"
    print("=", answer, file=answers, flush=True)
os._exit(0)  # the end of its interpreter is not what is tested
