# SPDX-License-Identifier: Apache-2.0
"""Serialized descriptor lists, exchanged with agents of this library and of the reference.

A pickle names the class it was made of. The reference's names (nixl_cu12._bindings, nixl_cu13._bindings) mean this
library's classes here, and nothing but descriptor lists and plain data is ever constructed: the bytes come from
another machine.
"""
import io
import pickle
import re
from typing import Any

from . import _bindings

_OURS = re.compile(r"(nixl|rixl)(_cu\d+|_rocm)?\._bindings")
_LISTS = {name: getattr(_bindings, name) for name in ("nixlXferDList", "nixlRegDList", "nixl_mem_t")}
_PLAIN = {
    ("_codecs", "encode"),
    ("copyreg", "__newobj__"),
    ("copyreg", "_reconstructor"),
    ("builtins", "object"),
    ("builtins", "bytes"),
    ("builtins", "bytearray"),
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy._core.numeric", "_frombuffer"),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if _OURS.fullmatch(module) and name in _LISTS:
            return _LISTS[name]
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a descriptor list: it is not constructed")


def dumps(descs: Any) -> bytes:
    return pickle.dumps(descs)


def loads(data: bytes) -> Any:
    return _Unpickler(io.BytesIO(data)).load()
