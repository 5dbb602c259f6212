# SPDX-License-Identifier: Apache-2.0
"""The parts of vLLM and SGLang that talk to nixl and need no accelerator:  engine_descriptors.py vllm|sglang

Their own code checks the version, makes the agent (vLLM), makes strided rows of a cache's blocks, and prepares them (SGLang);
the rest is written here as theirs does it. Chosen blocks are moved between two agents and compared. The whole worker of
vLLM wants a model, SGLang's manager an accelerator's runtime.
"""
import os
import sys
import time
import types
from importlib import metadata

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import numpy as np
import torch

LAYERS, BLOCKS, BLOCK = 4, 64, 4096


def vllm():
    from vllm.distributed.kv_transfer.kv_connector.v1.nixl.base_worker import NixlBaseConnectorWorker as Worker
    from vllm.distributed.nixl_utils import NixlWrapper, check_nixl_version, nixl_agent_config

    check_nixl_version("1.5.0")
    make = lambda name: NixlWrapper(name, nixl_agent_config(num_threads=4, capture_telemetry=True))
    rows = lambda caches: np.concatenate([Worker._block_strided_descs(c.data_ptr(), BLOCK, BLOCK, BLOCKS, 1, 0)
                                          for c in caches])
    return make, rows, lambda agent, owner, data: agent.prep_xfer_dlist(owner, data, mem_type="DRAM")


def sglang():
    from sglang.srt.disaggregation.nixl.conn import NixlKVManager as Manager

    from nixl._api import nixl_agent, nixl_agent_config, nixl_thread_sync_t

    def make(name):
        agent = nixl_agent(name, nixl_agent_config(backends=[], num_threads=8,
                                                   sync_mode=nixl_thread_sync_t.NIXL_THREAD_SYNC_STRICT))
        agent.create_backend("UCX", {"num_threads": "8"})
        return agent

    def prepare(agent, owner, data):
        manager = types.SimpleNamespace(agent=agent, _use_strided_descs=True)
        handle = Manager._prep_xfer_dlist(manager, owner, data, "DRAM")
        assert manager._use_strided_descs, "it fell back to a descriptor a block"
        return handle

    return make, lambda caches: Manager._pack_stride_descs([(c.data_ptr(), BLOCK, 0, BLOCK, BLOCKS) for c in caches]), prepare


def main(name):
    make, rows, prepare = {"vllm": vllm, "sglang": sglang}[name]()
    mine, theirs = make("decode"), make("prefill")
    target = [torch.zeros(BLOCKS, BLOCK, dtype=torch.uint8) for _ in range(LAYERS)]
    source = [torch.randint(0, 256, (BLOCKS, BLOCK), dtype=torch.uint8) for _ in range(LAYERS)]
    for agent, caches in ((mine, target), (theirs, source)):
        descs = agent.get_reg_descs([(c.data_ptr(), c.numel(), 0, "") for c in caches], "DRAM")
        agent.register_memory(descs, backends=["UCX"])
    mine.add_remote_agent(theirs.get_agent_metadata())
    theirs.add_remote_agent(mine.get_agent_metadata())
    local, remote = prepare(mine, "NIXL_INIT_AGENT", rows(target)), prepare(mine, "prefill", rows(source))
    blocks = np.array([3, 4, 5, 17, 60, 61], dtype=np.int32)
    indices = (np.arange(LAYERS)[:, None] * BLOCKS + blocks[None, :]).ravel()
    handle = mine.make_prepped_xfer("READ", local, indices, remote, indices, notif_msg=b"request:1")
    mine.transfer(handle)
    end = time.monotonic() + 20
    while mine.check_xfer_state(handle) != "DONE":
        assert time.monotonic() < end
    times = mine.get_xfer_telemetry(handle)
    assert times.totalBytes == len(indices) * BLOCK and times.xferDuration / 1e6 > 0
    mine.release_xfer_handle(handle)
    for layer in range(LAYERS):
        moved = np.zeros(BLOCKS, bool)
        moved[blocks] = True
        assert torch.equal(target[layer][moved], source[layer][moved]) and not bool(target[layer][~moved].any())
    heard = {}
    while not heard and time.monotonic() < end:
        heard = theirs.get_new_notifs()
    assert heard == {"decode": [b"request:1"]}, heard
    for agent in (mine, theirs):
        agent.agent.close()
    print(f"{name} {metadata.version(name)}: {len(indices)} blocks by its own strided rows, every byte equal", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
