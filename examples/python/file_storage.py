#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory to a file and back, named by its path:  file_storage.py [FILE]"""
import os
import sys
import tempfile

import numpy as np

from nixl import nixl_agent, nixl_agent_config

PAGE, PAGES = 65536, 16

with tempfile.TemporaryDirectory() as folder, nixl_agent("files", nixl_agent_config(backends=["POSIX"])) as agent:
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(folder, "pages")
    pages = np.random.default_rng(2).integers(0, 256, (PAGES, PAGE), dtype=np.uint8)
    back = np.zeros_like(pages)
    with agent.registered([(pages.ctypes.data, pages.nbytes, 0, "")], "DRAM"), \
            agent.registered([(back.ctypes.data, back.nbytes, 0, "")], "DRAM"), \
            agent.registered([(0, pages.nbytes, 1, f"rw,create:{path}")], "FILE"):
        # This agent is its own peer: the file is the remote side.
        file = agent.prep_xfer_dlist("files", [(i * PAGE, PAGE, 1) for i in range(PAGES)], "FILE")
        for operation, memory in (("WRITE", pages), ("READ", back)):
            host = agent.prep_xfer_dlist("", agent.get_strided_descs(memory))
            with agent.make_prepped_xfer(operation, host, None, file, None) as handle:
                agent.transfer(handle)
                handle.wait(timeout=30)
                print(operation, agent.get_xfer_telemetry(handle).totalBytes, "bytes over", handle.transport)
            host.release()
        file.release()
    assert (back == pages).all() and os.path.getsize(path) == pages.nbytes
    print("the file has what the memory had")
