#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two agents of one process: prepared lists, many transfers of chosen blocks in flight, reposts, and notifications that
are told apart by a prefix."""
import numpy as np

from nixl import nixl_agent

BLOCK, COUNT = 4096, 256

with nixl_agent("initiator") as initiator, nixl_agent("target") as target:
    source, sink = np.random.default_rng(1).integers(0, 256, (2, COUNT, BLOCK), dtype=np.uint8)
    initiator.register_memory(initiator.get_reg_descs([source]))
    target.register_memory(target.get_reg_descs([sink]))
    initiator.add_remote_agent(target.get_agent_metadata())

    # One block a row of each array: a strided list says so in a few bytes.
    local = initiator.prep_xfer_dlist("NIXL_INIT_AGENT", initiator.get_strided_descs(source))
    remote = initiator.prep_xfer_dlist("target", initiator.get_strided_descs(sink))

    # Four transfers side by side, of every fourth block each.
    handles = []
    for part in range(4):
        chosen = np.arange(part, COUNT, 4)
        handles.append(initiator.make_prepped_xfer("WRITE", local, chosen, remote, chosen, b"part-%d" % part))
    for handle in handles:
        initiator.transfer(handle)
    for handle in handles:
        while initiator.check_xfer_state(handle) != "DONE":
            pass
    for part in range(4):
        while not target.check_remote_xfer_done("initiator", b"part-%d" % part):
            pass
    assert (source == sink).all()
    print(f"{COUNT} blocks of {BLOCK} bytes in {len(handles)} transfers")

    # The same requests again: new bytes, another notification.
    source[:] = 7
    for handle in handles:
        initiator.transfer(handle, b"again")
    for handle in handles:
        handle.wait(timeout=10)
    for _ in handles:
        while not target.check_remote_xfer_done("initiator", b"again"):
            pass
    assert (sink == 7).all()
    print("and once more, without making anything anew")

    for handle in handles:
        initiator.release_xfer_handle(handle)
    initiator.release_dlist_handle(local)
    initiator.release_dlist_handle(remote)
    initiator.remove_remote_agent("target")
