#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what transfers took:  telemetry_reader.py [COUNT]

Makes some transfers of growing size with telemetry on and prints one line for each, from get_xfer_telemetry().
"""
import ctypes
import sys

from nixl import nixl_agent, nixl_agent_config

count = int(sys.argv[1]) if len(sys.argv) > 1 else 8
size = 256 << count
conf = nixl_agent_config(backends=["UCX"], capture_telemetry=True)
with nixl_agent("measured", conf) as agent, nixl_agent("peer") as peer:
    buffers = [ctypes.create_string_buffer(size) for _ in range(2)]
    mine, theirs = map(ctypes.addressof, buffers)
    agent.register_memory([(mine, size, 0, "")], "DRAM")
    peer.register_memory([(theirs, size, 0, "")], "DRAM")
    agent.add_remote_agent(peer.get_agent_metadata())
    print(f"{'bytes':>12}{'descriptors':>13}{'post us':>9}{'all us':>9}{'MB/s':>10}  over")
    for step in range(count):
        n = 512 << step
        local, remote = (agent.get_xfer_descs([(a, n, 0)], "DRAM") for a in (mine, theirs))
        with agent.initialize_xfer("WRITE", local, remote, "peer") as handle:
            agent.transfer(handle)
            handle.wait(timeout=10)
            t = agent.get_xfer_telemetry(handle)
            print(f"{t.totalBytes:>12}{t.descCount:>13}{t.postDuration:>9}{t.xferDuration:>9}"
                  f"{t.totalBytes / t.xferDuration:>10.0f}  {handle.transport}")
