# SPDX-License-Identifier: Apache-2.0
"""The interface that programs use: agents, their memory, their transfers.

Names, defaults and answers are those of the reference's module of this name; what is more is marked "Beyond the
reference". Every call raises a class of nixl._bindings (below nixlError) when the library refuses or fails; the text
says what is wrong, and the attributes `status`, `index` and `backend` say it to programs.
"""
from __future__ import annotations

import contextlib
import sys
from enum import Enum
from typing import TYPE_CHECKING, Any, AsyncIterator, Dict, Iterator, List, Optional, Sequence, Tuple, Type, Union

from . import _bindings as nixlBind
from . import _ucx
from .logging import get_logger

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    import numpy.typing as npt

    Indices = Union[List[int], Sequence[int], npt.NDArray[np.integer[Any]], None]

__all__ = [
    "DEFAULT_COMM_PORT",
    "nixl_agent",
    "nixl_agent_config",
    "nixl_backend_handle",
    "nixl_prepped_dlist_handle",
    "nixl_thread_sync_t",
    "nixl_xfer_handle",
]

logger = get_logger(__name__.split(".")[-1])

DEFAULT_COMM_PORT = nixlBind.DEFAULT_COMM_PORT
nixl_backend_handle = int

_DONE = nixlBind.NIXL_SUCCESS
_PROC = nixlBind.NIXL_IN_PROG

# The parameter by which each backend takes a number of threads.
_THREADS = {"UCX": "num_threads", "OBJ": "num_threads", "LIBFABRIC": "num_threads", "GDS_MT": "thread_count",
            "UCCL": "num_cpus"}


def _milliseconds(name: str, seconds: float) -> int:
    if not 0 <= seconds <= 1e15:
        raise ValueError(f"{name} must be a number of seconds from 0 to 1e15 (got {seconds!r}); None: no such limit")
    return max(1, round(seconds * 1000))


class nixl_thread_sync_t(Enum):
    """How calls of several threads on one agent run; every mode is memory-safe."""

    NIXL_THREAD_SYNC_NONE = nixlBind.NIXL_THREAD_SYNC_NONE
    NIXL_THREAD_SYNC_STRICT = nixlBind.NIXL_THREAD_SYNC_STRICT
    NIXL_THREAD_SYNC_RW = nixlBind.NIXL_THREAD_SYNC_RW
    NIXL_THREAD_SYNC_DEFAULT = nixlBind.NIXL_THREAD_SYNC_DEFAULT


class nixl_agent_config:
    """What an agent is made with.

    enable_prog_thread: a thread of the agent makes progress (it sleeps when nothing happens).
    enable_listen_thread, listen_port: listen for metadata of peers; port 0: any.
    capture_telemetry: keep the times of each transfer.
    num_threads: threads of backends that take such a parameter; 0: their default.
    backends: the backends to create.
    sync_mode: a nixl_thread_sync_t; None: STRICT with a listen thread, else NONE.

    Beyond the reference: xfer_timeout, a deadline in seconds for every transfer, and stall_timeout, how long a
    transfer may stand still while its peer is silent (None: NIXL_XFER_TIMEOUT_MS, NIXL_STALL_TIMEOUT_MS or the
    library's defaults).
    """

    def __init__(
        self,
        enable_prog_thread: bool = True,
        enable_listen_thread: bool = False,
        listen_port: int = DEFAULT_COMM_PORT,
        capture_telemetry: bool = False,
        num_threads: int = 0,
        backends: Sequence[str] = ["UCX"],
        sync_mode: Optional[nixl_thread_sync_t] = None,
        *,
        xfer_timeout: Optional[float] = None,
        stall_timeout: Optional[float] = None,
    ) -> None:
        if sync_mode is not None and not isinstance(sync_mode, nixl_thread_sync_t):
            raise TypeError(f"sync_mode must be a nixl_thread_sync_t (got '{type(sync_mode).__name__}')")
        self.backends = backends
        self.enable_pthread = enable_prog_thread
        self.enable_listen = enable_listen_thread
        self.port = listen_port
        self.capture_telemetry = capture_telemetry
        self.num_threads = num_threads
        self.sync_mode = sync_mode
        self.xfer_timeout = xfer_timeout
        self.stall_timeout = stall_timeout

    def _native(self) -> nixlBind.nixlAgentConfig:
        sync = self.sync_mode
        if sync is None:
            sync = (nixl_thread_sync_t.NIXL_THREAD_SYNC_STRICT if self.enable_listen
                    else nixl_thread_sync_t.NIXL_THREAD_SYNC_NONE)
        native = nixlBind.nixlAgentConfig()
        native.useProgThread = self.enable_pthread
        native.useListenThread = self.enable_listen
        native.listenPort = self.port
        native.syncMode = sync.value
        native.pthrDelay = 0
        native.lthrDelay = 100000
        native.captureTelemetry = self.capture_telemetry
        if self.xfer_timeout is not None:
            native.xferTimeoutMs = _milliseconds("xfer_timeout", self.xfer_timeout)
        if self.stall_timeout is not None:
            native.stallTimeoutMs = _milliseconds("stall_timeout", self.stall_timeout)
        return native


class nixl_prepped_dlist_handle:
    """A prepared descriptor list. It is released with the object; `with` and release() do it at a time of one's own."""

    __slots__ = ("_handle", "_agent", "_released")

    def __init__(self, agent: nixlBind.nixlAgent, value: int) -> None:
        self._agent = agent
        self._handle = value
        self._released = False

    def __repr__(self) -> str:
        return f"nixl_prepped_dlist_handle({self._handle:#x}, released={self._released})"

    def __len__(self) -> int:
        """Beyond the reference: how many descriptors it has, strided ones counted singly."""
        return self._agent.dlistCount(self._handle)

    def __bool__(self) -> bool:
        return True

    def release(self) -> None:
        """Releases it, once; requests made from it live on."""
        if not self._released:
            self._released = True
            self._agent.releasedDlistH(self._handle)

    def __del__(self) -> None:
        try:
            self.release()
        except Exception:
            pass

    def __enter__(self) -> nixl_prepped_dlist_handle:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.release()


class nixl_xfer_handle:
    """A transfer request. It is released with the object; `with` and release() do it at a time of one's own.

    When a request has been released, nothing reads or writes this process's memory for it.
    """

    __slots__ = ("_handle", "_agent", "_released")

    def __init__(self, agent: nixlBind.nixlAgent, value: int) -> None:
        self._agent = agent
        self._handle = value
        self._released = False

    def __repr__(self) -> str:
        return f"nixl_xfer_handle({self._handle:#x}, released={self._released})"

    def release(self) -> None:
        """Releases it, once. In flight it is cancelled first; nixlRepostActiveError: it has not ended yet, call again."""
        if not self._released:
            self._agent.releaseXferReq(self._handle)
            self._released = True

    def cancel(self) -> bool:
        """Beyond the reference: asks the transfer to end. True: it has ended (or was not in flight); False: it will."""
        return self._agent.cancelXferReq(self._handle) is not _PROC

    def wait(self, timeout: Optional[float] = None) -> str:
        """Beyond the reference: waits until the transfer ends, at most `timeout` seconds. "DONE", or "PROC" when the
        time is over. The GIL is free meanwhile."""
        return "PROC" if self._agent.waitXferReq(self._handle, timeout) is _PROC else "DONE"

    @property
    def error(self) -> str:
        """Beyond the reference: why it failed, in words; "" when it did not."""
        return self._agent.xferError(self._handle)

    @property
    def transport(self) -> str:
        """Beyond the reference: what carries its bytes, as "UCX cma" or "POSIX io_uring"."""
        return self._agent.xferTransport(self._handle)

    def __del__(self) -> None:
        try:
            if not self._released:
                self._released = True
                self._agent.forgetXferReq(self._handle)
        except Exception:
            pass

    def __enter__(self) -> nixl_xfer_handle:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.__del__()


class nixl_agent:
    """An agent: registers memory, tells peers where it is, moves bytes between its memory and theirs.

    agent_name must be unique among agents that talk to each other. nixl_conf None: a default nixl_agent_config(),
    which creates the backend UCX. instantiate_all: create every backend there is, those that fail are told and left
    out.

    Attributes: agent (the native object), name, backends {name: number}, notifs (what update_notifs() gathers),
    plugin_list, backend_mems, backend_options.
    """

    def __init__(self, agent_name: str, nixl_conf: Optional[nixl_agent_config] = None,
                 instantiate_all: bool = False) -> None:
        conf = nixl_conf if nixl_conf is not None else nixl_agent_config()
        self.agent = nixlBind.nixlAgent(agent_name, conf._native())
        self.name = agent_name
        self.notifs: Dict[str, List[bytes]] = {}
        self.backends: Dict[str, int] = {}
        self.backend_mems: Dict[str, List[str]] = {}
        self.backend_options: Dict[str, Dict[str, str]] = {}
        self.plugin_list = self.agent.getAvailPlugins()
        self.plugin_b_options: Dict[str, Dict[str, str]] = {}
        self.plugin_mem_types: Dict[str, List[str]] = {}
        self._leaked_xfer_handles: List[int] = []
        self.nixl_mems = {
            "DRAM": nixlBind.DRAM_SEG,
            "VRAM": nixlBind.VRAM_SEG,
            "FILE": nixlBind.FILE_SEG,
            "BLOCK": nixlBind.BLK_SEG,
            "OBJ": nixlBind.OBJ_SEG,
            "cpu": nixlBind.DRAM_SEG,
            "cuda": nixlBind.VRAM_SEG,
        }
        self.nixl_ops = {"WRITE": nixlBind.NIXL_WRITE, "READ": nixlBind.NIXL_READ}
        if not self.plugin_list:
            raise RuntimeError("No plugins available for NIXL, cannot start transfers!")
        for backend in self.plugin_list if instantiate_all else conf.backends:
            if backend not in self.plugin_list:
                logger.warning("Skipping backend registration %s due to the missing plugin.", backend)
                continue
            params: Dict[str, str] = {}
            threads = _THREADS.get(backend)
            if conf.num_threads > 0 and threads is not None and threads in self.get_plugin_params(backend):
                params[threads] = str(conf.num_threads)
            try:
                self.create_backend(backend, params)
            except nixlBind.nixlError as error:
                if not instantiate_all:
                    raise
                logger.warning("Backend %s is left out: %s", backend, error)
        logger.info("Initialized NIXL agent: %s", agent_name)

    # ---- the end ----

    def close(self) -> None:
        """Beyond the reference: ends the agent now. What is in flight is cancelled, memory deregistered, backends
        closed; later calls raise nixlNotFoundError, releases of its handles do nothing."""
        self.agent.close()
        aio = sys.modules.get(__package__ + "._aio")
        if aio is not None:
            aio.forget(self)

    def __enter__(self) -> nixl_agent:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    # ---- plugins and backends ----

    def _backend_numbers(self, names: Sequence[str]) -> List[int]:
        return [self.backends[name] for name in names]

    def get_plugin_list(self) -> List[str]:
        """The names of the backends that can be created."""
        return self.plugin_list

    def _load_plugin_params(self, plugin: str) -> None:
        self.plugin_b_options[plugin], self.plugin_mem_types[plugin] = self.agent.getPluginParams(plugin)

    def get_plugin_mem_types(self, backend: str) -> List[str]:
        """The memory kinds a plugin takes, as ["DRAM_SEG", ...]; [] and a warning when there is no such plugin."""
        if backend not in self.plugin_list:
            logger.warning("Plugin %s is not available to get its supported mem types.", backend)
            return []
        if backend not in self.plugin_mem_types:
            self._load_plugin_params(backend)
        return self.plugin_mem_types[backend]

    def get_plugin_params(self, backend: str) -> Dict[str, str]:
        """A plugin's parameters and their defaults; {} and a warning when there is no such plugin."""
        if backend not in self.plugin_list:
            logger.warning("Plugin %s is not available to get its parameters.", backend)
            return {}
        if backend not in self.plugin_b_options:
            self._load_plugin_params(backend)
        return self.plugin_b_options[backend]

    def get_backend_mem_types(self, backend: str) -> List[str]:
        """The memory kinds a created backend takes; [] and a warning when it was not created."""
        if backend not in self.backends:
            logger.warning("Backend %s not instantiated to get its supported mem types.", backend)
            return []
        return self.backend_mems[backend]

    def get_backend_params(self, backend: str) -> Dict[str, str]:
        """The parameters a created backend runs with; {} and a warning when it was not created."""
        if backend not in self.backends:
            logger.warning("Backend %s not instantiated to get its parameters.", backend)
            return {}
        return self.backend_options[backend]

    def create_backend(self, backend: str, initParams: Dict[str, str] = {}) -> None:
        """Creates a backend. Parameters that its plugin does not have are left out with a warning."""
        params = dict(initParams)
        if backend == "UCX" and "ucx_path" not in params:
            path = _ucx.path()
            if path is not None and "ucx_path" in self.get_plugin_params(backend):
                params["ucx_path"] = path
        number = self.agent.createBackend(backend, params)
        self.backends[backend] = number
        self.backend_options[backend], self.backend_mems[backend] = self.agent.getBackendParams(number)
        logger.info("Backend %s was instantiated", backend)

    # ---- descriptors ----

    def get_xfer_descs(self, descs: Any, mem_type: Optional[str] = None) -> nixlBind.nixlXferDList:
        """A list of descriptors (addr, len, dev) for transfers.

        descs: a nixlXferDList (returned as it is), a list of 3-tuples or an N x 3 array of int64 or uint64, both with
        mem_type; a contiguous tensor or a list of them, which have a memory kind of their own. 5-tuples and N x 5
        arrays are strided rows (addr, len, dev, stride, count). A wrong form is logged and answered by None.
        """
        made = nixlBind._to_xfer_list(descs, mem_type)
        return self._refused(made) if isinstance(made, str) else made

    def get_reg_descs(self, descs: Any, mem_type: Optional[str] = None) -> nixlBind.nixlRegDList:
        """A list of descriptors (addr, len, dev, metadata) for registration: as get_xfer_descs(), of 4-tuples."""
        made = nixlBind._to_reg_list(descs, mem_type)
        return self._refused(made) if isinstance(made, str) else made

    def get_remote_descs(self, descs: Any, mem_type: Optional[str] = None) -> nixlBind.nixlRemoteDList:
        """A list of descriptors (addr, len, dev, agent) of several agents, for memory views: of 4-tuples."""
        made = nixlBind._to_remote_list(descs, mem_type)
        return self._refused(made) if isinstance(made, str) else made

    def _refused(self, why: Any) -> Any:
        logger.error("%s", why)
        return None

    def get_strided_descs(self, descs: Any, dim: int = 0, mem_type: Optional[str] = None) -> nixlBind.nixlXferDList:
        """Beyond the reference: a list that stays small whatever it stands for.

        descs: a tensor or array, of which each index along `dim` is one block (what lies behind that dimension must
        be contiguous; dimensions in front of it are walked in order); or rows (addr, len, dev, stride, count) with
        mem_type. Equal to the plain list wherever it is used.
        """
        if isinstance(descs, (list, tuple)):
            if mem_type is None:
                raise TypeError("rows need a mem_type")
            return nixlBind.nixlXferDList(self.nixl_mems[mem_type], strided=descs)
        return nixlBind._cut(descs, dim)

    def get_serialized_descs(self, descs: Any) -> bytes:
        """A list as bytes, for another agent's deserialize_descs()."""
        from . import _pickle

        return _pickle.dumps(descs)

    def deserialize_descs(self, serialized_descs: bytes) -> Any:
        """The list that get_serialized_descs() of an agent of this library or of the reference made bytes of."""
        from . import _pickle

        return _pickle.loads(serialized_descs)

    # ---- memory ----

    def register_memory(self, reg_list: Any, mem_type: Optional[str] = None,
                        backends: Sequence[str] = []) -> nixlBind.nixlRegDList:
        """Registers memory, with `backends` or with every backend that takes its kind. Returns the list to
        deregister_memory() it by. Memory may be registered more than once; each registration counts."""
        descs = self.get_reg_descs(reg_list, mem_type)
        self.agent.registerMem(descs, self._backend_numbers(backends))
        return descs

    def deregister_memory(self, dereg_list: Any, backends: Sequence[str] = []) -> None:
        """Drops registrations: all of the list or, with nixlNotFoundError, none."""
        self.agent.deregisterMem(dereg_list, self._backend_numbers(backends))

    @contextlib.contextmanager
    def registered(self, reg_list: Any, mem_type: Optional[str] = None,
                   backends: Sequence[str] = []) -> Iterator[nixlBind.nixlRegDList]:
        """Beyond the reference: registers memory for the time of a `with` block."""
        descs = self.register_memory(reg_list, mem_type, backends)
        try:
            yield descs
        finally:
            if not self.agent.closed:
                self.deregister_memory(descs, backends)

    def query_memory(self, reg_list: Any, backend: str,
                     mem_type: Optional[str] = None) -> List[Optional[Dict[str, str]]]:
        """Asks a storage backend for files or objects: for each {"size": ...} and more, None when it is not there."""
        if backend not in self.backends:
            raise ValueError(f"Backend '{backend}' not found. Available backends: {list(self.backends)}")
        return self.agent.queryMem(self.get_reg_descs(reg_list, mem_type), self.backends[backend])

    def prep_mem_view(self, dlist: Union[nixlBind.nixlXferDList, nixlBind.nixlRemoteDList], *,
                      backends: Optional[Sequence[str]] = None) -> int:
        """The vendor's own handle for registered blocks (a transfer list) or blocks of peers (a remote list)."""
        return self.agent.prepMemView(dlist, self._backend_numbers(backends or []))

    def release_mem_view(self, mvh: int) -> None:
        """Releases a memory view."""
        self.agent.releaseMemView(mvh)

    # ---- transfers ----

    def prep_xfer_dlist(self, agent_name: str, xfer_list: Any, mem_type: Optional[str] = None,
                        backends: Sequence[str] = []) -> nixl_prepped_dlist_handle:
        """Prepares a list for many transfers.

        agent_name: "NIXL_INIT_AGENT" or "" for this agent's memory as the local side; its own name for its memory as
        the remote side; else a peer. xfer_list: what get_xfer_descs() takes; arrays are read in place.
        """
        if agent_name == "NIXL_INIT_AGENT":
            agent_name = ""
        number = self.agent.prepXferDlist(agent_name, xfer_list, self._backend_numbers(backends) if backends else None,
                                          mem_type)
        return nixl_prepped_dlist_handle(self.agent, number)

    def make_prepped_xfer(
        self,
        operation: str,
        local_xfer_side: nixl_prepped_dlist_handle,
        local_indices: Indices,
        remote_xfer_side: nixl_prepped_dlist_handle,
        remote_indices: Indices,
        notif_msg: Union[bytes, str] = b"",
        backends: Sequence[str] = [],
        skip_desc_merge: bool = False,
        *,
        timeout: Optional[float] = None,
    ) -> nixl_xfer_handle:
        """Makes a transfer of chosen descriptors of two prepared lists: the i-th local with the i-th remote index.

        operation: "READ" (remote into local) or "WRITE". Indices: any integers, as a list or an array; beyond the
        reference None means all, in order. notif_msg: what the peer is told when the bytes are there. timeout, beyond
        the reference: the transfer's deadline in seconds, after which it ends as cancelled.
        """
        number = self.agent.makeXferReq(self.nixl_ops[operation], local_xfer_side._handle, local_indices,
                                        remote_xfer_side._handle, remote_indices, notif_msg,
                                        self._backend_numbers(backends) if backends else None, skip_desc_merge, timeout)
        return nixl_xfer_handle(self.agent, number)

    def initialize_xfer(self, operation: str, local_descs: nixlBind.nixlXferDList,
                        remote_descs: nixlBind.nixlXferDList, remote_agent: str, notif_msg: Union[bytes, str] = b"",
                        backends: Sequence[str] = [], *, timeout: Optional[float] = None) -> nixl_xfer_handle:
        """Makes a transfer of two lists, block by block. remote_agent: a peer, or this agent's own name."""
        number = self.agent.createXferReq(self.nixl_ops[operation], local_descs, remote_descs, remote_agent, notif_msg,
                                          self._backend_numbers(backends) if backends else None, timeout)
        return nixl_xfer_handle(self.agent, number)

    def transfer(self, handle: nixl_xfer_handle, notif_msg: Union[bytes, str] = b"") -> str:
        """Starts a transfer, again if it has ended: "DONE" or "PROC". notif_msg replaces the request's."""
        status = self.agent.postXferReq(handle._handle, notif_msg)
        return "DONE" if status is _DONE else "PROC" if status is _PROC else "ERR"

    def check_xfer_state(self, handle: nixl_xfer_handle) -> str:
        """The state of a transfer: "DONE" (all bytes are in place), "PROC"; a failure is raised."""
        status = self.agent.getXferStatus(handle._handle)
        return "DONE" if status is _DONE else "PROC" if status is _PROC else "ERR"

    async def wait(self, handle: nixl_xfer_handle, timeout: Optional[float] = None) -> str:
        """Beyond the reference, for asyncio: waits until a started transfer ends and answers "DONE"; its failure is
        raised, and TimeoutError after `timeout` seconds (the transfer goes on: handle.cancel() ends it)."""
        from . import _aio

        return await _aio.wait(self, handle, timeout)

    def get_xfer_telemetry(self, handle: nixl_xfer_handle) -> nixlBind.nixlXferTelemetry:
        """The times of a transfer that is done, in microseconds. While telemetry is off they are those that this
        process saw; a finished transfer never fails here."""
        return self.agent.xferTimes(handle._handle)

    def estimate_xfer_cost(self, req_handle: nixl_xfer_handle) -> Tuple[int, int, str]:
        """What the transfer would take: microseconds, the error to expect, and how it was found."""
        duration, margin, method = self.agent.estimateXferCost(req_handle._handle)
        return duration, margin, {0: "ANALYTICAL_BACKEND", 1: "MEASURED", 2: "DECLARED"}.get(method, "UNKNOWN")

    def query_xfer_backend(self, handle: nixl_xfer_handle) -> str:
        """The name of the backend that serves a transfer."""
        number = self.agent.queryXferBackend(handle._handle)
        return next(name for name, other in self.backends.items() if other == number)

    def release_xfer_handle(self, handle: nixl_xfer_handle) -> None:
        """Releases a transfer, in flight too: then it is cancelled first. Once released, nothing happens."""
        handle.release()

    def release_dlist_handle(self, handle: nixl_prepped_dlist_handle) -> None:
        """Releases a prepared list. Once released, nothing happens."""
        handle.release()

    # ---- notifications ----

    def get_new_notifs(self, backends: Sequence[str] = []) -> Dict[str, List[bytes]]:
        """Takes the notifications that have arrived: {agent: [message, ...]}, in the order of each one's sending."""
        return self.agent.getNotifs(None, self._backend_numbers(backends) if backends else None)

    def update_notifs(self, backends: Sequence[str] = []) -> Dict[str, List[bytes]]:
        """Takes the notifications that have arrived into self.notifs, and returns that."""
        for name, messages in self.get_new_notifs(backends).items():
            self.notifs.setdefault(name, []).extend(messages)
        return self.notifs

    async def notifications(self) -> AsyncIterator[Tuple[str, bytes]]:
        """Beyond the reference, for asyncio: `async for name, message in agent.notifications()`."""
        from . import _aio

        async for item in _aio.notifications(self):
            yield item

    def check_remote_xfer_done(self, remote_agent_name: str, lookup_tag: bytes, backends: Sequence[str] = [],
                               tag_is_prefix: bool = True) -> bool:
        """Whether a notification of that agent begins with the tag (or, with tag_is_prefix False, contains it). It is
        removed from self.notifs."""
        messages = self.update_notifs(backends).get(remote_agent_name, [])
        for at, message in enumerate(messages):
            if message.startswith(lookup_tag) if tag_is_prefix else lookup_tag in message:
                del messages[at]
                return True
        return False

    def send_notif(self, remote_agent_name: str, notif_msg: Union[bytes, str], backend: Optional[str] = None) -> None:
        """Sends a notification apart from any transfer; the agent's own name is allowed."""
        self.agent.genNotif(remote_agent_name, notif_msg, [self.backends[backend]] if backend else None)

    # ---- metadata and peers ----

    def get_agent_metadata(self) -> bytes:
        """All that peers need to reach this agent's registered memory."""
        return self.agent.getLocalMD()

    def get_partial_agent_metadata(self, descs: nixlBind.nixlRegDList, inc_conn_info: bool = False,
                                   backends: Sequence[str] = []) -> bytes:
        """The same for some registered memory; inc_conn_info: with the connections."""
        return self.agent.getLocalPartialMD(descs, inc_conn_info, self._backend_numbers(backends))

    def add_remote_agent(self, metadata: Union[bytes, str]) -> bytes:
        """Learns a peer from its metadata, again too (what it says is added). Returns the peer's name as bytes."""
        return self.agent.loadRemoteMD(metadata)

    def remove_remote_agent(self, agent: Union[str, bytes]) -> None:
        """Forgets a peer; transfers in flight to it fail. Nothing is raised when it is not known."""
        self.agent.invalidateRemoteMD(agent)

    def make_connection(self, remote_agent: str, backends: Sequence[str] = []) -> None:
        """Connects to a peer ahead of the first transfer."""
        self.agent.makeConnection(remote_agent, self._backend_numbers(backends))

    def send_local_metadata(self, ip_addr: str = "", port: int = DEFAULT_COMM_PORT) -> None:
        """Sends this agent's metadata to a listener, or to the store that the environment names."""
        self.agent.sendLocalMD(ip_addr, port)

    def send_partial_agent_metadata(self, descs: nixlBind.nixlRegDList, inc_conn_info: bool = False,
                                    backends: Sequence[str] = [], ip_addr: str = "", port: int = DEFAULT_COMM_PORT,
                                    label: str = "") -> None:
        """Sends metadata of some registered memory; a store needs a label."""
        self.agent.sendLocalPartialMD(descs, inc_conn_info, self._backend_numbers(backends), ip_addr, port, label)

    def fetch_remote_metadata(self, remote_agent: str, ip_addr: str = "", port: int = DEFAULT_COMM_PORT,
                              label: str = "") -> None:
        """Asks for a peer's metadata; check_remote_metadata() tells when it is there."""
        self.agent.fetchRemoteMD(remote_agent, ip_addr, port, label)

    def invalidate_local_metadata(self, ip_addr: str = "", port: int = DEFAULT_COMM_PORT) -> None:
        """Tells a peer or the store that this agent's metadata is void."""
        self.agent.invalidateLocalMD(ip_addr, port)

    def check_remote_metadata(self, agent: str, descs: Optional[nixlBind.nixlXferDList] = None) -> bool:
        """Whether a peer is known, and with it these descriptors."""
        return self.agent.checkRemoteMD(agent, descs) == _DONE
