# SPDX-License-Identifier: Apache-2.0
"""The reference's name for the package nixl: `import nixl_cu12._api` gives nixl._api, and pickles that name
nixl_cu12._bindings are read. Where the reference is installed, its package of this name is found instead."""
import sys as _sys

import nixl as _nixl
from nixl import *  # noqa: F401,F403
from nixl import _api, _bindings, _utils, logging  # noqa: F401

__path__ = []  # submodules are those below, already imported
__all__ = list(_nixl.__all__)
nixlBind = _bindings
for _name in ("_api", "_bindings", "_utils", "logging"):
    _sys.modules[f"{__name__}.{_name}"] = _sys.modules[f"nixl.{_name}"]
