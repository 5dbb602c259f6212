# SPDX-License-Identifier: Apache-2.0
"""asyncio: awaiting transfers, iterating over notifications, and what happens when either fails or is given up."""
import asyncio
import os
import time

import pytest
from conftest import Pair

import nixl._bindings as b


@pytest.fixture(params=[True, False], ids=["thread", "no-thread"])
def progress(request):
    return request.param


def test_a_transfer_is_awaited(make_pair, progress):
    pair = make_pair(enable_prog_thread=progress, params={"delay_us": "20000"})

    async def main():
        handles = [pair.write() for _ in range(10)]
        for handle in handles:
            assert pair.left.transfer(handle) == "PROC"
        assert await asyncio.gather(*(pair.left.wait(handle, timeout=5) for handle in handles)) == ["DONE"] * 10
        assert await pair.left.wait(handles[0]) == "DONE"

    asyncio.run(main())
    assert pair.target.bytes == pair.source.bytes


def test_a_failure_is_raised_by_await(make_pair, progress):
    pair = make_pair(enable_prog_thread=progress, params={"delay_us": "10000", "fail_at": "0", "fail_text": "no luck"})

    async def main():
        handle = pair.write()
        pair.left.transfer(handle)
        with pytest.raises(b.nixlBackendError, match="no luck"):
            await pair.left.wait(handle)

    asyncio.run(main())


def test_a_timeout_leaves_the_transfer_going(make_pair):
    pair = make_pair(params={"hold": "yes"})

    async def main():
        handle = pair.write()
        pair.left.transfer(handle)
        with pytest.raises(TimeoutError, match="0.05"):
            await pair.left.wait(handle, timeout=0.05)
        waiting = asyncio.ensure_future(pair.left.wait(handle))
        await asyncio.sleep(0.02)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert pair.left.check_xfer_state(handle) == "PROC"
        again = asyncio.ensure_future(pair.left.wait(handle, 5))
        await asyncio.sleep(0.02)
        handle.cancel()
        with pytest.raises(b.nixlCancelledError):
            await again

    asyncio.run(main())


def test_notifications_are_iterated_in_order(make_pair, progress):
    pair = make_pair(enable_prog_thread=progress)

    async def receive(n):
        got = []
        async for name, message in pair.right.notifications():
            got.append((name, message))
            if len(got) == n:
                return got

    async def main():
        receiver = asyncio.ensure_future(receive(200))
        for i in range(200):
            pair.left.send_notif(pair.right.name, b"%d" % i)
            if i % 10 == 0:
                await asyncio.sleep(0.001)
        return await asyncio.wait_for(receiver, 10)

    assert asyncio.run(main()) == [(pair.left.name, b"%d" % i) for i in range(200)]


def test_both_at_once_on_one_agent(make_pair, progress):
    pair = make_pair(enable_prog_thread=progress, params={"delay_us": "2000"})

    async def pings():
        async for _, message in pair.left.notifications():
            if message == b"ping9":
                return True

    async def main():
        receiver = asyncio.ensure_future(pings())
        for i in range(10):
            handle = pair.write()
            pair.left.transfer(handle)
            pair.right.send_notif(pair.left.name, b"ping%d" % i)
            assert await pair.left.wait(handle, 5) == "DONE"
        assert await asyncio.wait_for(receiver, 5)

    asyncio.run(main())


def test_waiting_costs_no_processor_time(make_pair):
    pair = make_pair(params={"hold": "yes"})

    async def main():
        handle = pair.write()
        pair.left.transfer(handle)
        before = time.process_time()
        with pytest.raises(TimeoutError):
            await pair.left.wait(handle, timeout=1)
        assert time.process_time() - before < 0.1

    asyncio.run(main())


def test_one_loop_after_another_and_nothing_is_left_open(make_pair):
    pair = make_pair()
    files = None
    for _ in range(5):
        test = pair.write()
        pair.left.transfer(test)
        assert asyncio.run(pair.left.wait(test, 5)) == "DONE"
        files = files or len(os.listdir("/proc/self/fd"))
    assert len(os.listdir("/proc/self/fd")) == files


def test_closing_the_agent_ends_who_waits():
    pair = Pair(params={"hold": "yes"})

    async def main():
        handle = pair.write()
        pair.left.transfer(handle)
        waiting = asyncio.ensure_future(pair.left.wait(handle))
        await asyncio.sleep(0.05)
        pair.left.close()
        with pytest.raises(b.nixlError):
            await asyncio.wait_for(waiting, 5)

    asyncio.run(main())
    pair.right.close()
