"""Calls of the routines of reductions: which routine a call takes, its arguments, its twin in C.

In: a `reduce` on views. Out: the call, with the extents of the loops and what each pointer moves
by; a header that declares the routine, or defines it in C where `TW_MAPS_IN_C` is defined. The twin
takes elements in to results in the same order, so that both give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.codegen.c.elementwise_calls import CallContext, common_loops
from tilewright.codegen.c.loop_nest import Loop, match_axes, merge_loops, view_axes, view_offset
from tilewright.codegen.c.scalar_calls import SCALAR_CALLS
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import dtype
from tilewright.common.expr import Const
from tilewright.ir.nodes import Call, Program, View
from tilewright.ir.primitives import Reduce
from tilewright.ir.scalar import c_text, parse_scalar
from tilewright.ir.visit import walk
from tilewright.targets.sw26010.calls.loops import pointer_moves, routine_header
from tilewright.targets.sw26010.elementwise.reduce import MOST_TAPS, PARTS, Lie, ReduceRoutine
from tilewright.targets.sw26010.elementwise.reduce_text import LEVELS, reduce_routine

MOST_LOOPS = 2
"""Those that gather around the innermost one, if it is unrolled or a run, or in all."""


@dataclass(frozen=True)
class ReduceLoops:
    """The loops over results and those that gather, innermost last, and how operands lie."""

    kept: tuple[Loop, ...]
    gathered: tuple[Loop, ...]
    lie: Lie

    @property
    def outside(self) -> tuple[Loop, ...]:
        """The loops that gather around the one that is unrolled or a run."""
        innermost = self.lie.along or self.lie.taps > 1
        return self.gathered[:-1] if innermost else self.gathered

    @property
    def innermost(self) -> Loop:
        """The loop that is unrolled or a run; one that runs once where there is none."""
        return self.gathered[-1] if len(self.outside) < len(self.gathered) else _once()


def _once() -> Loop:
    return Loop(Const(1), (Const(0), Const(0)))


def reduce_loops(reduction: Reduce, views: tuple[View, ...]) -> ReduceLoops | None:
    """The loops of a call; none where there are more than a routine takes."""
    y, x = views
    axes = view_axes(x)
    gathered = merge_loops(match_axes("k", ([], axes.get("k", [])), reduction.name))
    kept = common_loops((y, x), reduction, beside="k")
    to, start = kept[-1].strides if kept else (Const(0), Const(0))
    step = start.value if to == Const(1) and start in (Const(1), Const(2)) else 0
    assert isinstance(step, int)
    extent, stride = (gathered[-1].extent, gathered[-1].strides[1]) if gathered else (0, 0)
    small = isinstance(extent, Const) and extent.value < PARTS
    along = stride == Const(1) and not small and step != 1
    taps = 1
    if isinstance(extent, Const) and 1 < extent.value <= MOST_TAPS:
        taps = extent.value
    loops = bool(gathered[:-1] if along or taps > 1 else gathered)
    lie = Lie(0, loops=loops, along=True) if along else Lie(step, taps, loops)
    nest = ReduceLoops(kept, gathered, lie)
    return nest if len(kept) <= LEVELS and len(nest.outside) <= MOST_LOOPS else None


def routine_of_reduce(
    reduction: Reduce, views: tuple[View, ...], element: str
) -> ReduceRoutine | None:
    """The routine that a call takes; none where the core's instructions, its registers or the loops
    of a routine do not do.
    """
    nest = reduce_loops(reduction, views)
    if nest is None:
        return None
    return reduce_routine(reduction.function, reduction.expression, nest.lie, element)


def reduced_calls(program: Program) -> Iterable[tuple[Call, ReduceRoutine | None]]:
    """The reductions of a program, each with its routine."""
    for call in walk(program.body):
        if isinstance(call, Call) and isinstance(call.primitive, Reduce):
            views = tuple(o for o in call.operands if isinstance(o, View))
            element = dtype(program.element_type(call.operands[0])).name
            yield call, routine_of_reduce(call.primitive, views, element)


def reduce_routines(program: Program) -> tuple[ReduceRoutine, ...]:
    """The distinct routines of a program's reductions, in the order of its calls."""
    return tuple(dict.fromkeys(r for _, r in reduced_calls(program) if r is not None))


def emit_reduce(reduction: Reduce, views: tuple[View, ...], context: CallContext) -> None:
    """The call of the routine, or loops in C where there is none."""
    nest = reduce_loops(reduction, views)
    routine = routine_of_reduce(reduction, views, context.element_type(views[0]))
    if routine is None or nest is None:
        SCALAR_CALLS[Reduce](reduction, views, context)
        return
    kept = (_once(),) * (LEVELS - len(nest.kept)) + nest.kept
    outside = (_once(),) * (MOST_LOOPS - len(nest.outside)) + nest.outside
    outer, inner = outside
    moves = [move for operand in (0, 1) for move in pointer_moves(kept, operand)]
    moves += [outer.strides[1] - inner.extent * inner.strides[1], inner.strides[1]]
    moves.append(nest.innermost.strides[1])
    extents = [loop.extent for loop in (*kept, *outside, nest.innermost)]
    writer = context.writer
    with writer.block():
        writer.array(f"const long count[{len(extents)}]", [context.c(e) for e in extents])
        writer.array(f"const long tw_move[{len(moves)}]", [context.c(e) for e in moves])
        places = [context.pointer(view, view_offset(view)) for view in views]
        writer.call(routine.name, [*places, "count", "tw_move"])


def reduce_headers(programs: Iterable[Program]) -> dict[str, str]:
    """The headers of all routines of reductions, by file name."""
    routines = dict.fromkeys(r for program in programs for r in reduce_routines(program))
    return {f"{r.name}.h": header_of(r) for r in routines}


def header_of(routine: ReduceRoutine) -> str:
    """The header of a routine: its declaration, or its twin."""
    kind = dtype(routine.precision.name).c_name
    gathered = "the largest" if routine.function == "max" else "the sum"
    return routine_header(
        routine.name,
        f"y = {gathered} of y and {routine.expression}",
        (f"{kind} *", f"const {kind} *"),
        lambda writer: _twin(writer, routine, kind),
    )


def _twin(writer: CWriter, routine: ReduceRoutine, kind: str) -> None:
    with writer.block():
        writer.line(f"long left[{LEVELS}], d, at, outer, inner;")
        with writer.block(f"for (d = 0; d < {LEVELS + MOST_LOOPS + 1}; d++)"):
            writer.line("if (count[d] < 1)")
            with writer.deeper():
                writer.line("return;")
            writer.line(f"if (d < {LEVELS})")
            with writer.deeper():
                writer.line("left[d] = count[d];")
        with writer.block("for (;;)"):
            writer.line(f"const {kind} *from = x;")
            writer.line("double tw_sum = *y;")
            with (
                writer.block(f"for (outer = 0; outer < count[{LEVELS}]; outer++)"),
                writer.block(f"for (inner = 0; inner < count[{LEVELS + 1}]; inner++)"),
            ):
                _run(writer, routine)
                writer.line(f"from += move[{2 * LEVELS + 1}];")
                writer.line(f"if (inner + 1 == count[{LEVELS + 1}])")
                with writer.deeper():
                    writer.line(f"from += move[{2 * LEVELS}];")
            writer.line(f"*y = ({kind})tw_sum;")
            with writer.block(f"for (d = {LEVELS - 1}; d >= 0; d--)"):
                writer.lines(f"y += move[d];\nx += move[{LEVELS} + d];\nif (--left[d])")
                with writer.deeper():
                    writer.line("break;")
                writer.line("left[d] = count[d];")
            writer.line("if (d < 0)")
            with writer.deeper():
                writer.line("return;")


def _run(writer: CWriter, routine: ReduceRoutine) -> None:
    """The innermost loop: taps, or a run in partial results."""
    length, tap = f"count[{LEVELS + MOST_LOOPS}]", f"move[{2 * LEVELS + 2}]"
    if not routine.lie.along:
        with writer.block(f"for (at = 0; at < {length}; at++)"):
            writer.line(_gathers(routine, "tw_sum", _value(routine, f"from[at * {tap}]")))
        return
    start = "-0.0" if routine.function == "sum" else "-INFINITY"
    with writer.block(f"if ({length} >= {PARTS})"):
        writer.array(f"double part[{PARTS}]", [start] * PARTS)
        with writer.block(f"for (at = 0; at < {length} / {PARTS} * {PARTS}; at++)"):
            gathers = _gathers(routine, f"part[at % {PARTS}]", _value(routine, "from[at]"))
            writer.line(gathers)
        half = PARTS // 2
        while half:
            with writer.block(f"for (at = 0; at < {half}; at++)"):
                writer.line(_gathers(routine, "part[at]", f"part[at + {half}]"))
            half //= 2
        writer.line(_gathers(routine, "tw_sum", "part[0]"))
    with writer.block(f"for (at = {length} / {PARTS} * {PARTS}; at < {length}; at++)"):
        writer.line(_gathers(routine, "tw_sum", _value(routine, "from[at]")))


def _value(routine: ReduceRoutine, element: str) -> str:
    return c_text(parse_scalar(routine.expression), [f"(double){element}"])


def _gathers(routine: ReduceRoutine, total: str, value: str) -> str:
    if routine.function == "sum":
        return f"{total} += {value};"
    return f"{total} = {total} < {value} ? {value} : {total};"
