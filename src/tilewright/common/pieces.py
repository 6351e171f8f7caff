"""Functions that only compiled code calls: typed and lowered here, optimized where they end up.

Numba optimizes each function together with everything that it calls, and makes machine code of the
result: the innermost of a chain of thirty functions is optimized thirty times. A piece stays as it
was lowered, and the entry point links, optimizes and translates all its pieces once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from numba import _dynfunc, types  # type: ignore[attr-defined]  # a module without declarations
from numba.core import typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.registry import CPUDispatcher

_OPTIONS: dict[str, Any] = {
    "nopython": True,
    "boundscheck": None,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    # Reference counts cost an atomic operation for every array of every call, three quarters of the
    # time of small functions. Without them a function may allocate nothing.
    "_nrt": False,
}
_make_function = cast(Callable[..., Any], _dynfunc.make_function)
_unliteral: Callable[[Any], Any] = types.unliteral


def piece_of(function: Callable[..., Any], *, inlined: bool) -> Any:
    """A Numba dispatcher of `function` for use in other functions; `inlined` at every call."""
    options = {**_OPTIONS, "forceinline": inlined}
    return _Piece(function, targetoptions=options, pipeline_class=_PieceCompiler)


class _Piece(CPUDispatcher):
    """Compiled once for all literal arguments of a type."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template([_unliteral(a) for a in args], kws)


class _PieceLibrary(JITCodeLibrary):
    """The lowered code of one piece, and the libraries of the functions it calls."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._finalized = True

    def with_all_called(self) -> list[Any]:
        """This library and all that its code needs, each once."""
        found = {self: None}
        for library in self._linking_libraries:
            called = library.with_all_called() if isinstance(library, _PieceLibrary) else [library]
            found |= dict.fromkeys(called)
        return list(found)


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _PieceLowering(typed_passes.NativeLowering):
    """Lower into a library of our own, and let other functions call the result."""

    _name = "piece_lowering"

    def run_pass(self, state: Any) -> bool:
        context, library = state.targetctx, cast(Any, _PieceLibrary)
        state.library = library(context.codegen(), state.func_id.func_qualname)
        state.type_annotation, state.flags.no_compile = None, True
        super().run_pass(state)  # type: ignore[no-untyped-call]
        state.library.finalize()
        lowered = state["cr"]
        module, name = lowered.fndesc.lookup_module(), lowered.fndesc.qualname
        # Numba knows a function by its entry point; nobody calls this one.
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
