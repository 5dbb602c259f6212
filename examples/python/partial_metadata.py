#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An agent shows a peer some of its memory, then more of it: partial metadata."""
import ctypes

from nixl import nixl_agent

SIZE = 4096


def buffer_of(agent):
    memory = ctypes.create_string_buffer(SIZE)
    return memory, agent.register_memory([(ctypes.addressof(memory), SIZE, 0, "")], "DRAM")


with nixl_agent("owner") as owner, nixl_agent("guest") as guest:
    shown, shown_descs = buffer_of(owner)
    later, later_descs = buffer_of(owner)

    # Connections and the first buffer; afterwards the second one alone.
    guest.add_remote_agent(owner.get_partial_agent_metadata(shown_descs, inc_conn_info=True, backends=["UCX"]))
    assert guest.check_remote_metadata("owner", shown_descs.trim())
    assert not guest.check_remote_metadata("owner", later_descs.trim())
    print("the guest sees one buffer")
    guest.add_remote_agent(owner.get_partial_agent_metadata(later_descs))
    assert guest.check_remote_metadata("owner", later_descs.trim())
    print("and now the other too")

    mine = ctypes.create_string_buffer(b"hello", SIZE)
    guest.register_memory([(ctypes.addressof(mine), SIZE, 0, "")], "DRAM")
    local = guest.get_xfer_descs([(ctypes.addressof(mine), SIZE, 0)], "DRAM")
    with guest.initialize_xfer("WRITE", local, later_descs.trim(), "owner", b"done") as handle:
        guest.transfer(handle)
        handle.wait(timeout=10)
    while not owner.check_remote_xfer_done("guest", b"done"):
        pass
    assert later.value == b"hello" and shown.value == b""
    print("the owner's second buffer has", later.value.decode())
