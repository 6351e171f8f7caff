"""Typed decorators for compiled functions, and a disk cache that follows their sources.

Numba's own cache lies beside the sources, knows the source file of the cached function alone, and
is a pickle that whoever can write the folder can plant. An entry point here is kept in the cache of
everything else, under a digest of every source that it is compiled from.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.core import serialize
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic

from tilewright.common import pieces
from tilewright.common.cache import Cache, cache_folder
from tilewright.common.digest import digest, digest_of_file
from tilewright.common.pieces import piece_of

Record = TypeVar("Record")
Function = TypeVar("Function", bound=Callable[..., Any])

_KEPT = Cache("functions")
_pickled = cast(Callable[[Any], bytes], serialize.dumps)


def _record_by_content(record: types.Record) -> tuple[str, tuple[object, ...]]:
    """Name of a record type in function names: a digest of its content."""
    return "Record", (digest(record.name)[:32],)


# Numba numbers records as they come up in a process. Functions that two processes kept, each for
# its own record, can then have one name, and the linker takes the first for both.
types.Record.mangling_args = property(_record_by_content)  # type: ignore[assignment,method-assign]


def entry_point(*modules: ModuleType) -> Callable[[Function], Function]:
    """A function called from Python: compiled on first use and cached on disk.

    `modules` are those besides its own whose functions, constants and types it is compiled from.
    """

    def compiled(function: Function) -> Function:
        own = (sys.modules[__name__], pieces, sys.modules[function.__module__])
        options: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}
        found: Any = numba.njit(**options)(function)
        found._cache = _FunctionCache(function, (*own, *modules))
        return cast(Function, found)

    return compiled


class _FunctionCache:
    """Cache of one function, with the interface that Numba expects (`numba.core.caching`)."""

    def __init__(self, function: Callable[..., Any], modules: tuple[ModuleType, ...]) -> None:
        name = f"{function.__module__}.{function.__qualname__}"
        sources = (digest_of_file(Path(str(module.__file__))) for module in modules)
        self._decides = (name, *sources, numba.__version__, sys.version)

    @property
    def cache_path(self) -> str:
        """Folder of the cache, for `stats` of the function."""
        return str(cache_folder())

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The function compiled for these types of arguments; None where it is not there."""
        content = _KEPT.recall(self._key(signature, context.codegen()))
        if content is None:
            return None
        rtsys.initialize(context)  # all that code needs; what Numba refreshes is for compiling
        return cast(Any, CompileResult)._rebuild(context, *pickle.loads(content))

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep the compiled function, unless it holds addresses of this process."""
        if not result.library.has_dynamic_globals:
            _KEPT.remember(self._key(signature, result.codegen), _pickled(result._reduce()))

    def _key(self, signature: Any, codegen: Any) -> str:
        return digest(*self._decides, repr(signature), repr(codegen.magic_tuple()))


def piece(function: Function) -> Function:
    """A function called from compiled code only, without a wrapper for Python; it allocates
    nothing.
    """
    return cast(Function, piece_of(function, inlined=False))


def hot_piece(function: Function) -> Function:
    """A piece on the path of every instruction: always inlined, which costs compile time."""
    return cast(Function, piece_of(function, inlined=True))


def _at(_typing: Any, record: Any, _index: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer, index = arguments
        return builder.gep(pointer, [index])

    return record(record, types.int64), generate


at: Callable[[Record, int], Record] = cast(Any, intrinsic(_at))
"""The record `index` places after `record` in their array; unchecked."""
