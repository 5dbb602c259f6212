# SPDX-License-Identifier: Apache-2.0
"""Dynamo's nixl_connect between two processes: each side in turn offers memory and reads or writes the other's.

Dynamo itself calls nixl (dynamo.nixl_connect.Connector); this only uses it as its workers do. CPU tensors and arrays.
"""
import asyncio
import multiprocessing
from importlib import metadata

import dynamo.nixl_connect as connect
import numpy as np
import torch

ROUNDS = 20


def content(seed, count=1 << 18):
    return torch.arange(count, dtype=torch.int32).mul_(2 * seed + 1)


async def passive(pipe):
    """Offers tensors to read and to write; tells the peer by Dynamo's own metadata, as JSON."""
    connector = connect.Connector()
    for seed in range(ROUNDS):
        tensors = [content(seed), content(seed + 1, 333).to(torch.bfloat16)]
        with await connector.create_readable([connect.Descriptor(t) for t in tensors]) as readable:
            pipe.send(readable.metadata().model_dump_json())
            await asyncio.wait_for(readable.wait_for_completion(), 30)
        target = np.zeros(1 << 18, np.int32)
        with await connector.create_writable(connect.Descriptor((target, "cpu"))) as writable:
            pipe.send(writable.metadata(hex_encode=seed % 2 == 1).model_dump_json())
            await asyncio.wait_for(writable.wait_for_completion(), 30)
            assert writable.status == connect.OperationStatus.COMPLETE
        assert np.array_equal(target, content(seed + 7).numpy()), seed
    # Several operations of one agent at a time, ended in another order than begun.
    targets = [torch.zeros(1000) for _ in range(4)]
    writables = [await connector.create_writable(connect.Descriptor(t)) for t in targets]
    pipe.send([w.metadata().model_dump_json() for w in writables])
    for writable in reversed(writables):
        await asyncio.wait_for(writable.wait_for_completion(), 30)
    assert all(bool((t == k + 1).all()) for k, t in enumerate(targets))
    pipe.send("end")


async def active(pipe):
    connector = connect.Connector()
    for seed in range(ROUNDS):
        got = [torch.zeros(1 << 18, dtype=torch.int32), torch.zeros(333, dtype=torch.bfloat16)]
        offered = connect.RdmaMetadata.model_validate_json(pipe.recv())
        with await connector.begin_read(offered, [connect.Descriptor(t) for t in got]) as read:
            await asyncio.wait_for(read.wait_for_completion(), 30)
        assert torch.equal(got[0], content(seed)) and torch.equal(got[1], content(seed + 1, 333).to(torch.bfloat16))
        offered = connect.RdmaMetadata.model_validate_json(pipe.recv())
        with await connector.begin_write(connect.Descriptor(content(seed + 7)), offered) as write:
            await asyncio.wait_for(write.wait_for_completion(), 30)
    offers = [connect.RdmaMetadata.model_validate_json(text) for text in pipe.recv()]
    sources = [torch.full((1000,), float(k + 1)) for k in range(len(offers))]
    writes = [await connector.begin_write(connect.Descriptor(s), o) for s, o in zip(sources, offers)]
    for write in writes:
        await asyncio.wait_for(write.wait_for_completion(), 30)
    assert pipe.recv() == "end"


def run(side, pipe):
    asyncio.run(side(pipe))


def main():
    context = multiprocessing.get_context("spawn")
    ends = context.Pipe()
    other = context.Process(target=run, args=(passive, ends[0]))
    other.start()
    ends[0].close()
    try:
        run(active, ends[1])
    finally:
        other.join(60)
        if other.exitcode is None:
            other.kill()
    assert other.exitcode == 0, other.exitcode
    print(f"ai-dynamo {metadata.version('ai-dynamo')}, nixl {metadata.version('nixl')}: {ROUNDS} readables, {ROUNDS} "
          "writables, 4 at a time, every element equal", flush=True)


if __name__ == "__main__":
    main()
