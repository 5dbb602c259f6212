# SPDX-License-Identifier: Apache-2.0
"""NIXL: moves bytes between the memory and storage of machines.

The usual names are here and in nixl._api:

    from nixl import nixl_agent, nixl_agent_config

See docs/python.md.
"""
import sys as _sys

from . import _api, _bindings, _utils, logging
from ._api import *  # noqa: F401,F403
from ._api import __all__ as _names
from ._bindings import *  # noqa: F401,F403
from ._utils import ba_buf, free_passthru, malloc_passthru, verify_transfer  # noqa: F401
from .logging import LOGGING_CONFIG, get_logger, set_log_level_by_env, setup_logging  # noqa: F401

nixlBind = _bindings
_pkg = _sys.modules[__name__]
__all__ = list(_names)


def _other_library() -> None:
    """Says so when the reference's own modules are installed too: they would be another NIXL in this process."""
    import os

    for name in ("nixl_cu12", "nixl_cu13"):
        if name in _sys.modules:
            continue
        for folder in _sys.path:
            if os.path.isdir(os.path.join(folder or ".", name)):
                get_logger("_api").warning(
                    "%s in %s is another NIXL: 'import nixl' gives this one, 'import %s' that one. "
                    "'pip uninstall %s' leaves one.", name, folder or ".", name, name.replace("_", "-"))
                return


def __getattr__(name: str):  # type: ignore[no-untyped-def]
    if name == "np":
        import numpy

        return numpy
    if name == "__version__":
        from importlib import metadata

        try:
            return metadata.version("nixl")
        except metadata.PackageNotFoundError:
            return _bindings.library_version()
    raise AttributeError(f"module 'nixl' has no attribute '{name}'")


_other_library()
