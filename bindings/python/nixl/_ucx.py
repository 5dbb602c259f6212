# SPDX-License-Identifier: Apache-2.0
"""Which UCX an agent made from Python uses when the program says nothing (option ucx_path, NIXL_UCX_PATH).

A wheel brings a UCX of its own, with names that no other UCX in the process has. It has no RDMA transports, so on a
machine that has RDMA devices a UCX of the system that can use them is preferred.
"""
import glob
import os
from typing import Optional

_SYSTEM = ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/lib64", "/opt/ucx/lib",
           "/opt/hpcx/ucx/lib")


def _bundled() -> Optional[str]:
    here = os.path.dirname(os.path.abspath(__file__))
    found = glob.glob(os.path.join(here, "ucx", "libucp-nixl.so.*"))
    return found[0] if found else None


def _system_with_rdma() -> Optional[str]:
    if not glob.glob("/sys/class/infiniband/*"):
        return None
    for pattern in _SYSTEM:
        for module in glob.glob(os.path.join(pattern, "ucx", "libuct_ib*.so*")):
            library = os.path.join(os.path.dirname(os.path.dirname(module)), "libucp.so.0")
            if os.path.exists(library):
                return library
    return None


def path() -> Optional[str]:
    """The libucp to open, or None: let the library search."""
    if os.environ.get("NIXL_UCX_PATH"):
        return None
    bundled = _bundled()
    if bundled is None:
        return None
    return _system_with_rdma() or bundled
