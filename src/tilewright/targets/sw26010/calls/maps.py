"""Calls of the routines of maps: which routine a call takes, its arguments, and its twin in C.

In: a `map` on views. Out: the call, with the extents of the loops and what each pointer moves by at
the end of an iteration of each; a header that declares the routine, or defines it in C where
`TW_MAPS_IN_C` is defined.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.codegen.c.elementwise_calls import CallContext, common_loops
from tilewright.codegen.c.loop_nest import MAXIMUM_LOOPS, padded, view_offset
from tilewright.codegen.c.scalar_calls import SCALAR_CALLS
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import dtype
from tilewright.common.expr import Const
from tilewright.ir.nodes import Call, Program, View
from tilewright.ir.primitives import Map
from tilewright.ir.scalar import c_text
from tilewright.ir.visit import walk
from tilewright.targets.sw26010.calls.loops import pointer_moves, routine_header
from tilewright.targets.sw26010.calls.reductions import reduce_headers
from tilewright.targets.sw26010.elementwise.maps import MapRoutine, map_routine


def routine_of_map(mapping: Map, views: tuple[View, ...], element: str) -> MapRoutine | None:
    """The routine that a call takes; none for integers, and where the core's instructions, its
    registers or the loops of a routine do not do.
    """
    if mapping.dtype is not None:
        return None
    loops = common_loops(views, mapping)
    if len(loops) > MAXIMUM_LOOPS:
        return None
    strides = loops[-1].strides[1:] if loops else (Const(1),) * (len(views) - 1)
    return map_routine(mapping.expression, tuple(s == Const(0) for s in strides), element)


def map_routines(program: Program) -> tuple[MapRoutine, ...]:
    """The distinct routines of a program's maps, in the order of its calls."""
    return tuple(dict.fromkeys(r for _, r in mapped_calls(program) if r is not None))


def mapped_calls(program: Program) -> Iterable[tuple[Call, MapRoutine | None]]:
    """The maps of a program, each with its routine."""
    for call in walk(program.body):
        if isinstance(call, Call) and isinstance(call.primitive, Map):
            views = tuple(o for o in call.operands if isinstance(o, View))
            element = dtype(program.element_type(call.operands[0])).name
            yield call, routine_of_map(call.primitive, views, element)


def emit_map(mapping: Map, views: tuple[View, ...], context: CallContext) -> None:
    """The call of the routine, or loops in C where there is none."""
    routine = routine_of_map(mapping, views, context.element_type(views[0]))
    if routine is None:
        SCALAR_CALLS[Map](mapping, views, context)
        return
    loops = padded(common_loops(views, mapping), len(views), mapping.name)
    kind, writer = dtype(context.element_type(views[0])).c_name, context.writer
    to, *sources = (context.pointer(view, view_offset(view)) for view in views)
    with writer.block():
        writer.array("const long count[TW_LOOPS]", [context.c(loop.extent) for loop in loops])
        moves = [context.c(e) for i in range(len(views)) for e in pointer_moves(loops, i)]
        writer.array(f"const long tw_move[{len(views)} * TW_LOOPS]", moves)
        if sources:
            writer.array(f"const {kind} *const tw_from[{len(sources)}]", sources)
        writer.call(routine.name, [to, "tw_from" if sources else "0", "count", "tw_move"])


def map_headers(programs: Iterable[Program]) -> dict[str, str]:
    """The headers of all routines of expressions, maps and reductions, by file name."""
    given = list(programs)
    routines = dict.fromkeys(r for program in given for r in map_routines(program))
    return {f"{r.name}.h": _header(r) for r in routines} | reduce_headers(given)


def _header(routine: MapRoutine) -> str:
    kind = dtype(routine.precision.name).c_name
    return routine_header(
        routine.name,
        f"y = {routine.expression}, along loops",
        (f"{kind} *", f"const {kind} *const *"),
        lambda writer: _twin(writer, routine, kind),
    )


def _twin(writer: CWriter, routine: MapRoutine, kind: str) -> None:
    sources = range(len(routine.still))
    pointers = ["y", *(f"x{i}" for i in sources)]
    last = MAXIMUM_LOOPS - 1
    with writer.block():
        writer.line(f"long left[{MAXIMUM_LOOPS}], d, at;")
        for i in sources:
            writer.line(f"const {kind} *x{i} = x[{i}];")
        with writer.block(f"for (d = 0; d < {MAXIMUM_LOOPS}; d++)"):
            writer.line("if (count[d] < 1)")
            with writer.deeper():
                writer.line("return;")
            writer.line("left[d] = count[d];")
        with writer.block("for (;;)"):
            with writer.block(f"for (at = 0; at < count[{last}]; at++)"):
                value = _value(routine)
                writer.line(f"*y = ({kind}){value};")
                for i, pointer in enumerate(pointers):
                    writer.line(f"{pointer} += move[{MAXIMUM_LOOPS * i + last}];")
            with writer.block(f"for (d = {last - 1}; d >= 0; d--)"):
                for i, pointer in enumerate(pointers):
                    writer.line(f"{pointer} += move[{MAXIMUM_LOOPS * i} + d];")
                writer.line("if (--left[d])")
                with writer.deeper():
                    writer.line("break;")
                writer.line("left[d] = count[d];")
            writer.line("if (d < 0)")
            with writer.deeper():
                writer.line("return;")


def _value(routine: MapRoutine) -> str:
    """The expression in C over what the pointers lead to."""
    scalar = Map(routine.expression).scalar
    return c_text(scalar, [f"(double)*x{i}" for i in range(len(routine.still))])
