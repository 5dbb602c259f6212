# SPDX-License-Identifier: Apache-2.0
"""asyncio: one watcher for each agent and event loop, woken by the agent's completion descriptor.

The watcher arms the descriptor, and when it becomes readable looks at the handles that are waited for and takes
notifications if somebody asked for them. It listens only while somebody waits. The agent's Python object keeps its
watchers, so that an agent which the program drops ends, and each watcher keeps a descriptor of its own, so that it
never listens to a number which the agent's end gave back.
"""
import asyncio
import collections
import os
from typing import TYPE_CHECKING, Any, AsyncIterator, Deque, Dict, List, Optional, Tuple

from . import _bindings

if TYPE_CHECKING:
    from ._api import nixl_agent, nixl_xfer_handle

_PROC = _bindings.NIXL_IN_PROG


class _Watcher:
    def __init__(self, native: "_bindings.nixlAgent", loop: asyncio.AbstractEventLoop) -> None:
        self.native = native
        self.loop = loop
        self.fd = os.dup(native.eventFd())
        self.handles: Dict["asyncio.Future[str]", int] = {}
        self.readers: Dict["asyncio.Future[None]", None] = {}
        self.queue: Deque[Tuple[str, bytes]] = collections.deque()
        self.active = False
        self.scheduled = False

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)

    # Someone begins or ends to wait.

    def begin(self) -> None:
        if not self.active:
            self.active = True
            self.loop.add_reader(self.fd, self.step)
        self.soon()

    def soon(self) -> None:
        if not self.scheduled:
            self.scheduled = True
            self.loop.call_soon(self.step)

    def end(self) -> None:
        if self.active and not self.handles and not self.readers:
            self.active = False
            self.loop.remove_reader(self.fd)

    # The descriptor is readable, or somebody has begun to wait.

    def step(self) -> None:
        self.scheduled = False
        if not self.active:
            return
        try:
            self.native.progress()
            self.look()
            if self.active and self.native.arm():
                self.soon()  # something happened before it was armed
        except Exception as error:
            waiting: List["asyncio.Future[Any]"] = [*self.handles, *self.readers]
            for future in waiting:
                if not future.done():
                    future.set_exception(error)
            self.handles.clear()
            self.readers.clear()
            self.end()

    def look(self) -> None:
        for future, handle in list(self.handles.items()):
            if future.done():
                del self.handles[future]
                continue
            try:
                state = self.native.getXferStatus(handle)
            except Exception as error:
                del self.handles[future]
                future.set_exception(error)
                continue
            if state is not _PROC:
                del self.handles[future]
                future.set_result("DONE")
        if self.readers:
            for name, messages in self.native.getNotifs().items():
                self.queue.extend((name, message) for message in messages)
            if self.queue:
                for reader in list(self.readers):
                    if not reader.done():
                        reader.set_result(None)
                self.readers.clear()
        self.end()


def _watcher(agent: "nixl_agent") -> _Watcher:
    loop = asyncio.get_running_loop()
    watchers: List[_Watcher] = agent.__dict__.setdefault("_watchers", [])
    for watcher in list(watchers):
        if watcher.native is agent.agent and watcher.loop is loop:
            return watcher
        if watcher.loop.is_closed() or watcher.native.closed:
            watchers.remove(watcher)
    watcher = _Watcher(agent.agent, loop)
    watchers.append(watcher)
    return watcher


async def wait(agent: "nixl_agent", handle: "nixl_xfer_handle", timeout: Optional[float]) -> str:
    watcher = _watcher(agent)
    if watcher.native.getXferStatus(handle._handle) is not _PROC:
        return "DONE"
    future: "asyncio.Future[str]" = watcher.loop.create_future()
    watcher.handles[future] = handle._handle
    watcher.begin()
    try:
        return await asyncio.wait_for(future, timeout)
    except asyncio.TimeoutError:
        raise TimeoutError(f"the transfer did not end within {timeout} s") from None
    finally:
        watcher.handles.pop(future, None)
        watcher.end()


async def notifications(agent: "nixl_agent") -> AsyncIterator[Tuple[str, bytes]]:
    watcher = _watcher(agent)
    while True:
        while watcher.queue:
            yield watcher.queue.popleft()
        future: "asyncio.Future[None]" = watcher.loop.create_future()
        watcher.readers[future] = None
        watcher.begin()
        try:
            await future
        finally:
            watcher.readers.pop(future, None)
            watcher.end()


def forget(agent: "nixl_agent") -> None:
    """The agent has ended: who waits for it gets the exception of a closed agent."""
    for watcher in agent.__dict__.pop("_watchers", []):
        if watcher.active and not watcher.loop.is_closed():
            watcher.loop.call_soon_threadsafe(watcher.step)
