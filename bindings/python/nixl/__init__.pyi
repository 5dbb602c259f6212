# SPDX-License-Identifier: Apache-2.0
from . import _api as _api
from . import _bindings as _bindings
from . import _bindings as nixlBind
from . import _utils as _utils
from . import logging as logging
from ._api import DEFAULT_COMM_PORT as DEFAULT_COMM_PORT
from ._api import nixl_agent as nixl_agent
from ._api import nixl_agent_config as nixl_agent_config
from ._api import nixl_backend_handle as nixl_backend_handle
from ._api import nixl_prepped_dlist_handle as nixl_prepped_dlist_handle
from ._api import nixl_xfer_handle as nixl_xfer_handle
from ._bindings import *
from ._utils import ba_buf as ba_buf
from ._utils import free_passthru as free_passthru
from ._utils import malloc_passthru as malloc_passthru
from ._utils import verify_transfer as verify_transfer
from .logging import LOGGING_CONFIG as LOGGING_CONFIG
from .logging import get_logger as get_logger
from .logging import set_log_level_by_env as set_log_level_by_env
from .logging import setup_logging as setup_logging

__all__ = [
    "DEFAULT_COMM_PORT",
    "nixl_agent",
    "nixl_agent_config",
    "nixl_backend_handle",
    "nixl_prepped_dlist_handle",
    "nixl_thread_sync_t",
    "nixl_xfer_handle",
]

__version__: str
