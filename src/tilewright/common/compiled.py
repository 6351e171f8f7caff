"""Typed decorators for compiled functions, and a disk cache that follows their sources.

Numba's own cache lies beside the sources, depends only on the source file of the cached function,
and is a pickle that anyone with write access to the folder can plant. Entry points are kept in
`common.cache` instead, under a digest of all sources that they are compiled from. An installation
may ship some of them compiled for its processor, like extension modules.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import numba
from numba import (  # type: ignore[attr-defined]  # _dynfunc: a module without declarations
    _dynfunc,
    types,
)
from numba.core import serialize, typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.registry import CPUDispatcher
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic

from tilewright.common.cache import CacheStore, cache_folder
from tilewright.common.digest import digest, digest_of_code

# Pieces, functions called only from compiled code: typed and lowered here, optimized in callers.
#
# Numba optimizes each function together with all of its callees and translates the result to
# machine code, so the innermost of a chain of thirty functions is optimized thirty times. A piece
# is only lowered; the entry point links, optimizes and translates all its pieces once.

_OPTIONS: dict[str, Any] = {
    "nopython": True,
    "boundscheck": None,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    # Reference counts cost an atomic operation for every array of every call, three quarters of the
    # time of small functions. Without them, a function must not allocate.
    "_nrt": False,
}
_make_function = cast(Callable[..., Any], _dynfunc.make_function)
_unliteral: Callable[[Any], Any] = types.unliteral


def _piece_of(function: Callable[..., Any], *, inlined: bool) -> Any:
    """A Numba dispatcher of `function` for calls from other functions, `inlined` or not."""
    options = {**_OPTIONS, "forceinline": inlined}
    return _Piece(function, targetoptions=options, pipeline_class=_PieceCompiler)


class _Piece(CPUDispatcher):
    """A piece's dispatcher, which compiles once per type for all literal arguments."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template([_unliteral(a) for a in args], kws)


class _PieceLibrary(JITCodeLibrary):
    """The lowered code of one piece, and the libraries of its callees."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._finalized = True

    def with_all_called(self) -> list[Any]:
        """This library and the libraries of all direct and indirect callees, each once."""
        found = {self: None}
        for library in self._linking_libraries:
            called = library.with_all_called() if isinstance(library, _PieceLibrary) else [library]
            found |= dict.fromkeys(called)
        return list(found)


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _PieceLowering(typed_passes.NativeLowering):
    """Lower into a `_PieceLibrary`, and register the result for calls from other functions."""

    _name = "piece_lowering"

    def run_pass(self, state: Any) -> bool:
        context, library = state.targetctx, cast(Any, _PieceLibrary)
        state.library = library(context.codegen(), state.func_id.func_qualname)
        state.type_annotation, state.flags.no_compile = None, True
        super().run_pass(state)  # type: ignore[no-untyped-call]
        state.library.finalize()
        lowered = state["cr"]
        module, name = lowered.fndesc.lookup_module(), lowered.fndesc.qualname
        # Numba identifies a function by its entry point; this one is never called.
        entry = _make_function(module, name, "", 0, lowered.env, (state.library,))
        context.insert_user_function(entry, lowered.fndesc, state.library.with_all_called())
        state["cr"] = lowered._replace(cfunc=entry)
        return True


_PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
    _PieceLowering,
    typed_passes.NoPythonBackend,
)


class _PieceCompiler(CompilerBase):
    """The passes that a piece needs: no closures, no array expressions, no object mode."""

    def define_pipelines(self) -> list[Any]:
        passes: Any = cast(Any, PassManager)("piece")
        for each in _PASSES:
            passes.add_pass(each, each._name)
        passes.finalize()
        return [passes]


Record = TypeVar("Record")
Function = TypeVar("Function", bound=Callable[..., Any])

_KEPT = CacheStore("functions")
_pickled = cast(Callable[[Any], bytes], serialize.dumps)


def _record_by_content(record: types.Record) -> tuple[str, tuple[object, ...]]:
    """Name of a record type in mangled names: a digest of its content."""
    return "Record", (digest(record.name)[:32],)


# Numba numbers records in the order of a process. So functions cached by two processes, for
# different records, could have equal names, and the linker would use the first for both.
types.Record.mangling_args = property(_record_by_content)  # type: ignore[assignment,method-assign]


def entry_point(*modules: ModuleType) -> Callable[[Function], Function]:
    """Decorator of a function called from Python: compiled on first use and cached on disk.

    `modules` are the other modules whose functions, constants and types it is compiled from.
    """

    def compiled(function: Function) -> Function:
        own = (sys.modules[__name__], sys.modules[function.__module__])
        options: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}
        found: Any = numba.njit(**options)(function)
        found._cache = _FunctionCache(function, (*own, *modules))
        return cast(Function, found)

    return compiled


@cache
def _code_of(module: ModuleType) -> str:
    file = Path(str(module.__file__))
    return digest_of_code(file.parent, [file.name])


class _FunctionCache:
    """Cache of one function, with the interface that Numba expects (`numba.core.caching`)."""

    def __init__(self, function: Callable[..., Any], modules: tuple[ModuleType, ...]) -> None:
        name = f"{function.__module__}.{function.__qualname__}"
        self._decides = (name, *map(_code_of, modules), numba.__version__, sys.version)

    @property
    def cache_path(self) -> str:
        """Folder of the cache, for the function's `stats`."""
        return str(cache_folder())

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The function compiled for these argument types; None if it is not cached."""
        content = _KEPT.recall(self._key(signature, context.codegen()))
        if content is None:
            return None
        rtsys.initialize(context)  # all that code needs; what Numba refreshes is for compiling
        return cast(Any, CompileResult)._rebuild(context, *pickle.loads(content))

    def save_overload(self, signature: Any, result: Any) -> None:
        """Cache the compiled function, unless it contains addresses of this process."""
        if not result.library.has_dynamic_globals:
            _KEPT.remember(self._key(signature, result.codegen), _pickled(result._reduce()))

    def _key(self, signature: Any, codegen: Any) -> str:
        return digest(*self._decides, repr(signature), repr(codegen.magic_tuple()))


def piece(function: Function) -> Function:
    """Decorator of a function called only from compiled code; it must not allocate."""
    return cast(Function, _piece_of(function, inlined=False))


def hot_piece(function: Function) -> Function:
    """Decorator of a piece on the path of every instruction: always inlined, at a compile cost."""
    return cast(Function, _piece_of(function, inlined=True))


def _at(_typing: Any, record: Any, _index: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer, index = arguments
        return builder.gep(pointer, [index])

    return record(record, types.int64), generate


at: Callable[[Record, int], Record] = cast(Any, intrinsic(_at))
"""The record `index` elements after `record` in their array; unchecked."""
