"""Typed decorators for compiled functions, and a disk cache that follows their sources.

Numba's cache knows the source file of the cached function and the types of its arguments, by the
module that they lived in when it was written. An entry point here therefore keeps its cache in
files that carry a digest of every source that it is compiled from: any change starts a new file.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.extending import intrinsic

Record = TypeVar("Record")
Function = TypeVar("Function", bound=Callable[..., Any])


def entry_point(*modules: ModuleType) -> Callable[[Function], Function]:
    """A function called from Python: compiled on first use and cached on disk.

    `modules` are those besides its own whose functions, constants and types it is compiled from.
    """

    def compiled(function: Function) -> Function:
        own = (sys.modules[__name__], sys.modules[function.__module__])
        # The name of the cache files is made from the qualified name.
        function.__qualname__ += f"-{fingerprint(*own, *modules)}"
        return cast(Function, numba.njit(cache=True, error_model="numpy")(function))

    return compiled


_INTERNAL: dict[str, Any] = {
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    # Reference counts cost an atomic operation for every array of every call, three quarters of the
    # time of small functions. Without them a function may allocate nothing.
    "_nrt": False,
}


def piece(function: Function) -> Function:
    """A function called from compiled code only, without a wrapper for Python; it allocates
    nothing.
    """
    return cast(Function, numba.njit(**_INTERNAL)(function))


def hot_piece(function: Function) -> Function:
    """A piece on the path of every instruction: always inlined, which costs compile time."""
    return cast(Function, numba.njit(forceinline=True, **_INTERNAL)(function))


def _at(_typing: Any, record: Any, _index: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer, index = arguments
        return builder.gep(pointer, [index])

    return record(record, types.int64), generate


at: Callable[[Record, int], Record] = cast(Any, intrinsic(_at))
"""The record `index` places after `record` in their array; unchecked."""


def fingerprint(*modules: ModuleType) -> str:
    """A short name that changes with the source of the modules."""
    digest = hashlib.blake2b(digest_size=6)
    for module in modules:
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()
