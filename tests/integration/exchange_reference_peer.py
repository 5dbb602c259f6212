#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An agent of the reference with a listener, which does what lines on its standard input say and answers each by a line."""
import importlib
import os
import sys
import time

api = None
for name in ("nixl._api", "nixl_cu12._api", "nixl_cu13._api"):
    try:
        api = importlib.import_module(name)
        break
    except ImportError:
        pass
name, port = sys.argv[1], int(sys.argv[2])
agent = api.nixl_agent(name, api.nixl_agent_config(enable_prog_thread=True, enable_listen_thread=True, listen_port=port,
                                                   backends=["UCX"]))
import numpy  # noqa: E402

memory = numpy.zeros(4096, dtype=numpy.uint8)
registered = agent.register_memory([(memory.ctypes.data, 4096, 0, "")], "DRAM")
print("ready", memory.ctypes.data, flush=True)
for line in sys.stdin:
    word, *args = line.split()
    if word == "send":
        agent.send_local_metadata("127.0.0.1", int(args[0]))
    elif word == "fetch":
        agent.fetch_remote_metadata(args[0], "127.0.0.1", int(args[1]))
    elif word == "void":
        agent.invalidate_local_metadata("127.0.0.1", int(args[0]))
    elif word == "knows":  # name, 1 or 0: within 5 s
        end = time.time() + 5
        while agent.check_remote_metadata(args[0]) != (args[1] == "1") and time.time() < end:
            time.sleep(0.01)
        print("yes" if agent.check_remote_metadata(args[0]) == (args[1] == "1") else "no", flush=True)
        continue
    print("done", flush=True)
os._exit(0)  # the end of its interpreter is not what is tested
