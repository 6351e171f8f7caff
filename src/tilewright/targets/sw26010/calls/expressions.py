"""Calls of the routines of maps and reductions: the routine of a call, its arguments, its C twin.

In: a `map`, a `reduce` or a primitive written as maps, on views. Out: the call, with the extents of
the loops and each pointer's step at the end of an iteration of each; and a header that declares the
routine, or defines it in C if `TW_MAPS_IN_C` is defined. The twin of a reduction gathers elements
in the same order, so that both give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import isinf
from typing import TypeAlias

from tilewright.codegen.c.elementwise_calls import (
    ELEMENTWISE,
    CallContext,
    Emitters,
    check_copied_axes,
    common_loops,
    emitter_of,
    finite,
    window_loops,
)
from tilewright.codegen.c.loop_nest import (
    MAXIMUM_LOOPS,
    match_axes,
    merge_loops,
    padded,
    view_axes,
    view_offset,
)
from tilewright.codegen.c.scalar_calls import SCALAR_CALLS
from tilewright.codegen.c.writer import CWriter
from tilewright.common.cache import CacheStore
from tilewright.common.dtypes import dtype
from tilewright.common.expr import Const, Expr
from tilewright.ir.loop_axes import Loop
from tilewright.ir.nodes import Call, Program, View
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import (
    Copy,
    Fill,
    Map,
    MultiplyAccumulate,
    Reduce,
    ScaleAdd,
    Windows,
)
from tilewright.ir.scalar import c_text, parse_scalar
from tilewright.ir.visit import walk
from tilewright.targets.sw26010.elementwise.lie import Lie
from tilewright.targets.sw26010.elementwise.loops import LEVELS
from tilewright.targets.sw26010.elementwise.maps import (
    MapRoutine,
    map_routine,
    written_as_maps,
)
from tilewright.targets.sw26010.elementwise.reduce import (
    MOST_TAPS,
    PARTS,
    ReduceRoutine,
    reduce_routine,
)
from tilewright.targets.sw26010.elementwise.routines import program_routines

MOST_LOOPS = 2
"""Most gathering loops of a routine: around the innermost one if that is unrolled or a run,
otherwise in total.
"""
ExpressionRoutine: TypeAlias = MapRoutine | ReduceRoutine
ROUTINES = CacheStore("routines")
"""Assembly of routines; most of its time goes into ordering instructions."""


def pointer_moves(loops: Sequence[Loop], operand: int) -> list[Expr]:
    """The step of an operand's pointer after an iteration of each loop, outermost first."""
    strides = [loop.strides[operand] for loop in loops]
    inner = [loop.extent * s for loop, s in zip(loops, strides, strict=True)]
    return [*(s - after for s, after in zip(strides, inner[1:], strict=False)), strides[-1]]


@dataclass(frozen=True)
class ReduceLoops:
    """The loops over results, the gathering loops innermost last, the layout of the operands."""

    kept: tuple[Loop, ...]
    gathered: tuple[Loop, ...]
    lie: Lie

    @property
    def outside(self) -> tuple[Loop, ...]:
        """The gathering loops around the one that is unrolled or a run."""
        innermost = self.lie.along or self.lie.taps > 1
        return self.gathered[:-1] if innermost else self.gathered

    @property
    def innermost(self) -> Loop:
        """The loop that is unrolled or a run; without one, a loop of one iteration."""
        return self.gathered[-1] if len(self.outside) < len(self.gathered) else _once()


def _once() -> Loop:
    return Loop(Const(1), (Const(0), Const(0)))


def reduce_loops(reduction: Reduce, views: tuple[View, ...]) -> ReduceLoops | None:
    """The loops of a call; None if there are more than a routine takes."""
    y, x = views
    axes = view_axes(x)
    gathered = merge_loops(match_axes("k", ([], axes.get("k", [])), reduction.name))
    kept = common_loops((y, x), reduction, beside="k")
    to, start = kept[-1].strides if kept else (Const(0), Const(0))
    step = start.value if to == Const(1) and isinstance(start, Const) else 0
    step = step if step in (1, 2) else 0
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
    """The routine of a call; None if instructions, registers or a routine's loops fall short."""
    nest = reduce_loops(reduction, views)
    if nest is None or reduction.function == "prod":
        return None
    return reduce_routine(reduction.function, reduction.expression, nest.lie, element)


@dataclass(frozen=True)
class MapCall:
    """A call of the routine of a map: the result and the operands, in loops `around` the call and
    `loops` of the routine, with a stride of the result and each operand per loop.
    """

    routine: MapRoutine
    views: tuple[View, ...]
    loops: tuple[Loop, ...]
    around: tuple[Loop, ...] = ()


def map_calls(primitive: Primitive, views: tuple[View, ...], element: str) -> list[MapCall]:
    """The successive calls of maps that compute a primitive. None for integers, or if the core's
    instructions, its registers or a routine's loops do not suffice. Raises ProgramError for
    operands that do not match.
    """
    if isinstance(primitive, Map):
        return _calls_of_map(primitive, views, element)
    _check_attributes(primitive)
    routines = written_as_maps(primitive, len(views), element)
    if routines is None:
        return []
    y, *others = views
    match primitive:
        case Windows():
            return [MapCall(routines[0], views, window_loops(primitive, views))]
        case Copy():
            check_copied_axes(views)
        case ScaleAdd() if others:
            own = ((y, x) for x in others)
            loops = (common_loops(pair, primitive) for pair in own)
            pairs = zip(routines, others, loops, strict=True)
            return [MapCall(r, (y, y, x), _with_result(nest)) for r, x, nest in pairs]
        case ScaleAdd():
            return [MapCall(routines[0], (y, y), _with_result(common_loops(views, primitive)))]
        case MultiplyAccumulate():
            nest = common_loops(views, primitive)
            factors = tuple(loop for loop in nest if loop.strides[2] != Const(0))
            elements = tuple(loop for loop in nest if loop.strides[2] == Const(0))
            inside, outside = _with_result(elements), _with_result(factors)
            return [MapCall(routines[0], (y, *views), inside, outside)]
        case _:
            pass
    return [MapCall(routines[0], views, common_loops(views, primitive))]


def _calls_of_map(mapping: Map, views: tuple[View, ...], element: str) -> list[MapCall]:
    loops = common_loops(views, mapping)
    if mapping.dtype is not None or len(loops) > MAXIMUM_LOOPS:
        return []
    strides = loops[-1].strides[1:] if loops else (Const(1),) * (len(views) - 1)
    still = tuple(stride == Const(0) for stride in strides)
    routine = map_routine(mapping.expression, still, element)
    return [] if routine is None else [MapCall(routine, views, loops)]


def _with_result(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """The loops of an update, whose first operand is its result."""
    return tuple(Loop(loop.extent, (loop.strides[0], *loop.strides)) for loop in loops)


def _check_attributes(primitive: Primitive) -> None:
    match primitive:
        case Fill(value) if not isinf(value):
            finite(primitive, "value", value)
        case ScaleAdd(alpha, beta):
            finite(primitive, "alpha", alpha)
            finite(primitive, "beta", beta)
        case _:
            pass


def expression_routines(programs: Iterable[Program]) -> tuple[ExpressionRoutine, ...]:
    """The distinct routines that the programs call, in the order of the calls, reductions last."""
    maps: dict[ExpressionRoutine, None] = {}
    reductions: dict[ExpressionRoutine, None] = {}
    for program in programs:
        for call in walk(program.body):
            if not isinstance(call, Call):
                continue
            views = tuple(o for o in call.operands if isinstance(o, View))
            if len(views) < len(call.operands):
                continue
            element = dtype(program.element_type(call.operands[0])).name
            if isinstance(call.primitive, Reduce):
                reduced = routine_of_reduce(call.primitive, views, element)
                reductions |= {} if reduced is None else {reduced: None}
            else:
                found = map_calls(call.primitive, views, element)
                maps |= {one.routine: None for one in found}
    return (*maps, *reductions)


def routine_texts(programs: Iterable[Program]) -> dict[str, str]:
    """The assembly of each routine that the programs call, by file name, expressions last."""
    given = list(programs)
    plain = (r for program in given for r in program_routines(program))
    every = (*plain, *expression_routines(given))
    return {f"{r.name}.S": ROUTINES.text(r, r.text) for r in every}


def emit_map(primitive: Primitive, views: tuple[View, ...], context: CallContext) -> None:
    """Emit the calls of routines, or C loops if there are none."""
    calls = map_calls(primitive, views, context.element_type(views[0]))
    if not calls:
        emitter_of(primitive, {**SCALAR_CALLS, **ELEMENTWISE}, "sw26010")(primitive, views, context)
    for call in calls:
        with context.writer.block():
            _write_map(call, primitive.name, context)


def _write_map(call: MapCall, name: str, context: CallContext) -> None:
    loops = padded(call.loops, len(call.views), name)
    kind, writer = dtype(context.element_type(call.views[0])).c_name, context.writer
    places = [context.pointer(view, view_offset(view)) for view in call.views]
    counters = [f"tw_at{i}" for i in range(len(call.around))]
    if counters:
        writer.line(f"long {', '.join(counters)};")
    with ExitStack() as around:
        for at, loop in zip(counters, call.around, strict=True):
            head = f"for ({at} = 0; {at} < {context.c(loop.extent)}; {at}++)"
            around.enter_context(writer.block(head))
            strides = map(context.c, loop.strides)
            places = [_moved(*one, at) for one in zip(places, strides, strict=True)]
        to, *sources = places
        writer.array("const long count[TW_LOOPS]", [context.c(loop.extent) for loop in loops])
        moves = [context.c(e) for i in range(len(places)) for e in pointer_moves(loops, i)]
        writer.array(f"const long tw_move[{len(places)} * TW_LOOPS]", moves)
        if sources:
            writer.array(f"const {kind} *const tw_from[{len(sources)}]", sources)
        writer.call(call.routine.name, [to, "tw_from" if sources else "0", "count", "tw_move"])


def _moved(place: str, stride: str, at: str) -> str:
    if stride == "0":
        return place
    return f"{place} + {at} * {stride if stride.isalnum() else f'({stride})'}"


MAP_EMITTERS: Emitters = dict.fromkeys(
    (Map, Fill, Copy, Windows, ScaleAdd, MultiplyAccumulate), emit_map
)
"""The emitters of primitives written as maps."""


def emit_reduce(reduction: Reduce, views: tuple[View, ...], context: CallContext) -> None:
    """Emit the call of the routine, or C loops if there is none."""
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


def expression_headers(programs: Iterable[Program]) -> dict[str, str]:
    """The headers of all routines of expressions that the programs call, by file name."""
    return {f"{r.name}.h": header_of(r) for r in expression_routines(programs)}


def header_of(routine: ExpressionRoutine) -> str:
    """The header of a routine: its declaration, or its twin in C."""
    name, kind = routine.name, dtype(routine.precision.name).c_name
    match routine:
        case MapRoutine():
            what, source = f"{routine.expression}, along loops", f"const {kind} *const *"
        case ReduceRoutine():
            gathered = "the largest" if routine.function == "max" else "the sum"
            what, source = f"{gathered} of y and {routine.expression}", f"const {kind} *"
    writer, guard, types = CWriter(), name.upper(), [f"{kind} *", source, *["const long *"] * 2]
    writer.comment(f"{name}.h: y = {what}. Generated.")
    writer.lines(f"#ifndef {guard}\n#define {guard}")
    writer.lines("#ifdef TW_MAPS_IN_C\n#include <math.h>")
    pairs = zip(types, ("y", "x", "count", "move"), strict=True)
    writer.head(f"static void {name}", [f"{own}{of}" for own, of in pairs])
    with writer.block():
        if isinstance(routine, MapRoutine):
            _map_twin(writer, routine, kind)
        else:
            _reduce_twin(writer, routine, kind)
    writer.line("#else")
    writer.call(f"extern void {name}", types)
    writer.lines("#endif\n#endif")
    return writer.text()


def _map_twin(writer: CWriter, routine: MapRoutine, kind: str) -> None:
    sources = [f"x{i}" for i in range(len(routine.still))]
    pointers, last = {name: LEVELS * i for i, name in enumerate(["y", *sources])}, LEVELS - 1
    value = c_text(parse_scalar(routine.expression), [f"(double)*{x}" for x in sources])
    writer.line(f"long left[{LEVELS}], d, at;")
    for i, x in enumerate(sources):
        writer.line(f"const {kind} *{x} = x[{i}];")
    moves = [f"{pointer} += move[{first} + d];" for pointer, first in pointers.items()]
    with (
        _odometer(writer, LEVELS, last - 1, moves),
        writer.block(f"for (at = 0; at < count[{last}]; at++)"),
    ):
        writer.line(f"*y = ({kind}){value};")
        for pointer, first in pointers.items():
            writer.line(f"{pointer} += move[{first + last}];")


@contextmanager
def _odometer(
    writer: CWriter, extents: int, innermost: int, moves: Sequence[str]
) -> Iterator[None]:
    """Write loops 0 to `innermost` around the statements written inside, advancing the pointers;
    nothing runs if an extent is below 1.
    """
    with writer.block(f"for (d = 0; d < {extents}; d++)"):
        writer.guarded("count[d] < 1", "return;")
        if extents > LEVELS:
            writer.guarded(f"d < {LEVELS}", "left[d] = count[d];")
        else:
            writer.line("left[d] = count[d];")
    with writer.block("for (;;)"):
        yield
        with writer.block(f"for (d = {innermost}; d >= 0; d--)"):
            writer.lines("\n".join(moves))
            writer.guarded("--left[d]", "break;")
            writer.line("left[d] = count[d];")
        writer.guarded("d < 0", "return;")


def _reduce_twin(writer: CWriter, routine: ReduceRoutine, kind: str) -> None:
    writer.line(f"long left[{LEVELS}], d, at, outer, inner;")
    moves = ["y += move[d];", f"x += move[{LEVELS} + d];"]
    with _odometer(writer, LEVELS + MOST_LOOPS + 1, LEVELS - 1, moves):
        writer.line(f"const {kind} *from = x;")
        writer.line("double tw_sum = *y;")
        with (
            writer.block(f"for (outer = 0; outer < count[{LEVELS}]; outer++)"),
            writer.block(f"for (inner = 0; inner < count[{LEVELS + 1}]; inner++)"),
        ):
            _run(writer, routine)
            writer.line(f"from += move[{2 * LEVELS + 1}];")
            ends = f"inner + 1 == count[{LEVELS + 1}]"
            writer.guarded(ends, f"from += move[{2 * LEVELS}];")
        writer.line(f"*y = ({kind})tw_sum;")


def _run(writer: CWriter, routine: ReduceRoutine) -> None:
    """The innermost loop: taps, or a run in partial results."""
    length, tap = f"count[{LEVELS + MOST_LOOPS}]", f"move[{2 * LEVELS + 2}]"

    def loop(first: str, end: str, total: str, element: str) -> None:
        value = c_text(parse_scalar(routine.expression), [f"(double){element}"])
        with writer.block(f"for (at = {first}; at < {end}; at++)"):
            writer.line(_gathers(routine, total, value))

    if not routine.lie.along:
        loop("0", length, "tw_sum", f"from[at * {tap}]")
        return
    start, eights = "-0.0" if routine.function == "sum" else "-INFINITY", f"{length} / {PARTS}"
    with writer.block(f"if ({length} >= {PARTS})"):
        writer.array(f"double part[{PARTS}]", [start] * PARTS)
        loop("0", f"{eights} * {PARTS}", f"part[at % {PARTS}]", "from[at]")
        half = PARTS // 2
        while half:
            with writer.block(f"for (at = 0; at < {half}; at++)"):
                writer.line(_gathers(routine, "part[at]", f"part[at + {half}]"))
            half //= 2
        writer.line(_gathers(routine, "tw_sum", "part[0]"))
    loop(f"{eights} * {PARTS}", length, "tw_sum", "from[at]")


def _gathers(routine: ReduceRoutine, total: str, value: str) -> str:
    if routine.function == "sum":
        return f"{total} += {value};"
    return f"{total} = {total} < {value} ? {value} : {total};"
