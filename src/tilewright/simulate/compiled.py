"""Typed decorators for compiled functions, and a fingerprint that keeps their disk cache honest.

Numba's cache looks at one source file only. An entry point that closes over `fingerprint(...)` of
all the modules it calls is compiled anew when any of them changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.extending import intrinsic

Record = TypeVar("Record")
Function = TypeVar("Function", bound=Callable[..., Any])


def entry_point(function: Function) -> Function:
    """A function called from Python: compiled on first use and cached on disk."""
    return cast(Function, numba.njit(cache=True, error_model="numpy")(function))


_INTERNAL: dict[str, Any] = {
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def piece(function: Function) -> Function:
    """A function called from compiled code only: no wrapper for Python is built."""
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


def fingerprint(*modules: ModuleType) -> int:
    """A number that changes with the source of the modules."""
    digest = hashlib.blake2b(digest_size=6)
    for module in modules:
        digest.update(Path(str(module.__file__)).read_bytes())
    return int.from_bytes(digest.digest(), "big")
