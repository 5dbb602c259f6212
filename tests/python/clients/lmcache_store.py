# SPDX-License-Identifier: Apache-2.0
"""LMCache over NIXL: its two channels between processes, and its storage adapter over POSIX. Memory of the host.

LMCache itself calls nixl (NixlChannel, the transfer channel "nixl", NixlStoreL2Adapter); this only uses it as its engine does.
"""
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from importlib import metadata

os.environ.setdefault("LMCACHE_TRACK_USAGE", "false")
os.environ.setdefault("LMCACHE_LOG_LEVEL", "WARNING")

PAGE = 64 << 10
PAGES = 64


def ports(count):
    """Free ones, told apart by being held together."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return found


# ---- the channel of the storage backends, peer to peer ----

def paged_memory(fill):
    """A buffer and, as LMCache's paged allocator makes them, one memory object a page: its address is its number."""
    import torch
    from lmcache.v1.memory_management import MemoryFormat, MemoryObjMetadata, TensorMemoryObj

    buffer = torch.empty(PAGES * PAGE, dtype=torch.uint8)
    objects = []
    for number, page in enumerate(buffer.view(PAGES, PAGE)):
        page.fill_(fill(number))
        about = MemoryObjMetadata(page.shape, page.dtype, number, PAGE, 1, fmt=MemoryFormat.KV_2LTD)
        objects.append(TensorMemoryObj(page, about, None))
    return buffer, objects


def channel(buffer, port, role):
    from lmcache.v1.transfer_channel import CreateTransferChannel

    return CreateTransferChannel("nixl", False, role, buffer.data_ptr(), buffer.numel(), PAGE, 0, f"127.0.0.1:{port}",
                                 device="cpu", backends=["UCX"])


def receiver(port, pipe):
    buffer, objects = paged_memory(lambda number: 100 + number)
    served = channel(buffer, port, "receiver")
    pipe.send("ready")
    assert pipe.recv() == "written"
    rows = buffer.view(PAGES, PAGE)
    for number in range(PAGES):
        assert bool((rows[number] == (PAGES - 1 - number if number % 2 else 100 + number)).all()), number
    pipe.send("checked")
    assert pipe.recv() == "end" and served.running
    os._exit(0)  # the channel's thread waits in recv() for ever


def check_channel():
    import torch

    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    here, there = ports(2)
    other = context.Process(target=receiver, args=(there, theirs))
    other.start()
    assert mine.recv() == "ready"
    buffer, objects = paged_memory(lambda number: number)
    made = channel(buffer, here, "sender")
    made.lazy_init_peer_connection("sender", "receiver", f"127.0.0.1:{there}")
    odd = [n for n in range(PAGES) if n % 2]
    # The i-th object to the i-th of these pages of the peer: reversed, and only every other one.
    sent = made.batched_write([objects[PAGES - 1 - n] for n in odd], {"receiver_id": "receiver", "remote_indexes": odd})
    assert sent == len(odd)
    mine.send("written")
    assert mine.recv() == "checked"
    for turn in range(50):
        assert made.batched_read([objects[0], objects[5]], {"sender_id": "receiver", "remote_indexes": [2, 4]}) == 2
    assert bool((objects[0].raw_data == 102).all()) and bool((objects[5].raw_data == 104).all())
    assert bool((objects[1].raw_data == 1).all()) and torch.equal(buffer[:PAGE], objects[0].raw_data)
    mine.send("end")
    other.join(30)
    assert other.exitcode == 0, other.exitcode
    return f"NixlChannel: {len(odd)} pages written, 100 read"


# ---- the transfer channel of its multi-process mode: LMCache's own benchmark, which compares the bytes ----

def check_transfer_channel():
    url, control, listen = (f"127.0.0.1:{port}" for port in ports(3))
    tool = [sys.executable, "-m", "lmcache.tools.transfer_channel_benchmark", "--url", url, "--control-url", control,
            "--page-size", "64KB", "--object-size", "1MB", "--num-objects", "16"]
    server = subprocess.Popen([*tool, "--role", "server", "--buffer-size", "128MB", "--server-timeout", "60"],
                              stdout=subprocess.PIPE, text=True)
    try:
        for line in server.stdout:
            if "[server] ready" in line:
                break
        done = subprocess.run([*tool, "--role", "client", "--listen-url", listen, "--iters", "20", "--verify"], text=True,
                              capture_output=True, timeout=60)
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=20)
    assert done.returncode == 0 and "verify OK: 16 objects" in done.stdout, done.stdout + done.stderr
    return "transfer channel: 20 reads of 16 objects of 1 MiB, verified by LMCache's own benchmark"


# ---- storage ----

def waited(query, seconds=30):
    end = time.monotonic() + seconds
    while not (answer := query()):
        assert time.monotonic() < end
        time.sleep(0.001)
    return answer


def check_storage(direct):
    import torch
    from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
    from lmcache.v1.distributed.config import L1MemoryManagerConfig
    from lmcache.v1.distributed.error import L1Error
    from lmcache.v1.distributed.l2_adapters.nixl_store_l2_adapter import NixlStoreL2Adapter, NixlStoreL2AdapterConfig
    from lmcache.v1.distributed.memory_manager import L1MemoryManager

    count, size = 24, 4 * PAGE
    manager = L1MemoryManager(L1MemoryManagerConfig(size_in_bytes=64 << 20, use_lazy=False, init_size_in_bytes=64 << 20,
                                                    align_bytes=PAGE))
    error, objects = manager.allocate(MemoryLayoutDesc(shapes=[torch.Size([size])], dtypes=[torch.uint8]), count)
    assert error == L1Error.SUCCESS
    keys = [ObjectKey(bytes([number]) * 32, "a-model", 0) for number in range(count)]
    contents = [torch.randint(0, 256, (size,), dtype=torch.uint8) for _ in keys]
    with tempfile.TemporaryDirectory(dir=os.environ.get("NIXL_TEST_FOLDER")) as folder:
        adapter = NixlStoreL2Adapter(
            NixlStoreL2AdapterConfig("POSIX", {"file_path": folder, "use_direct_io": direct, "file_size": str(8 * PAGE)},
                                     64), manager.get_l1_memory_desc())
        for obj, content in zip(objects, contents):
            obj.tensor.copy_(content)
        task = adapter.submit_store_task(keys, objects)
        assert waited(adapter.pop_completed_store_tasks)[task] == count * size
        for obj in objects:
            obj.tensor.zero_()
        task = adapter.submit_lookup_and_lock_task([*keys, ObjectKey(b"\xff" * 32, "a-model", 0)], {})
        found = waited(lambda: adapter.query_lookup_and_lock_result(task))
        assert [found.test(i) for i in range(count + 1)] == [True] * count + [False]
        order = torch.randperm(count).tolist()
        task = adapter.submit_load_task([keys[i] for i in order], objects)
        loaded = waited(lambda: adapter.query_load_result(task))
        assert all(loaded.test(i) for i in range(count))
        assert all(torch.equal(objects[place].tensor, contents[i]) for place, i in enumerate(order))
        adapter.close()
    manager.free(objects)
    manager.close()
    return f"storage adapter over POSIX{' with O_DIRECT' if direct == 'true' else ''}: {count} objects of {size >> 10} KiB"


def main():
    print(f"lmcache {metadata.version('lmcache')}, nixl {metadata.version('nixl')}", flush=True)
    print(check_channel(), flush=True)
    print(check_transfer_channel(), flush=True)
    print(check_storage("false"), flush=True)
    print(check_storage("true"), flush=True)


if __name__ == "__main__":
    main()
