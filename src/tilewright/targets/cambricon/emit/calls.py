"""Calls of primitives as instructions on spans of the scratchpads.

In: a call whose extents have one value each, and the addresses of buffers. Out: statements, in
loops if an operand is not one span.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr
from tilewright.ir.nodes import Call, Operand, Program, View
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import Copy, Fill
from tilewright.passes.infer_dma import SLOT_ELEMENTS
from tilewright.targets.cambricon.emit.assembly import ProgramText
from tilewright.targets.cambricon.primitives import (
    OuterProduct,
    RoundedMap,
    RoundedProduct,
    RoundedReduce,
    RoundedStep,
    SaturatingAdd,
    StepByStep,
    Turned,
)
from tilewright.targets.cambricon.vector_steps import Step

UNROLLED_TURNS = 2
"""Turns up to which a loop innermost or around an instruction is unrolled."""


@dataclass(frozen=True)
class _Axis:
    """Extent of an operand's dimension, and the stride of its indices in elements."""

    extent: int
    stride: int


@dataclass(frozen=True)
class _Span:
    """An operand: its start, and its dimensions of extent above 1 by letter, outermost first."""

    start: Expr
    axes: tuple[tuple[str, _Axis], ...]

    def of(self, letter: str) -> tuple[_Axis, ...]:
        """The dimensions of one letter, joined where contiguous."""
        found: list[_Axis] = []
        for own, a in self.axes:
            if own != letter:
                continue
            if found and found[-1].stride == a.extent * a.stride:
                found[-1] = _Axis(found[-1].extent * a.extent, a.stride)
            else:
                found.append(a)
        return tuple(found)


@dataclass(frozen=True)
class Context:
    """The output, and the program it belongs to."""

    program: Program
    out: ProgramText

    def number(self, e: Expr) -> int:
        """The value of an extent. Raises ProgramError if it varies."""
        found = self.out.constant(e)
        if found is None:
            raise ProgramError(f"{e} has several values where one instruction takes it")
        return found

    def work(self, name: str) -> Expr:
        """The address of a buffer of temporaries."""
        buffer = self.program.buffer(name)
        return Const((buffer.offset_bytes or 0) // dtype(buffer.dtype).size_bytes)

    def span(self, operand: Operand) -> _Span:
        """An operand of a call. Raises ProgramError for one in main memory."""
        if not isinstance(operand, View):
            raise ProgramError("instructions work on scratchpads, found a tensor in main memory")
        buffer = self.program.buffer(operand.buffer)
        size = dtype(buffer.dtype).size_bytes
        start = Const((buffer.offset_bytes or 0) // size) + operand.slot * buffer.elements
        axes: list[tuple[str, _Axis]] = []
        stride = 1
        dims = zip(operand.shape, operand.ranges, operand.roles, strict=True)
        for extent, r, role in reversed(list(dims)):
            start = start + r.start * stride
            count = self.number(r.extent)
            if count != 1:
                axes.append((role, _Axis(count, stride * self.number(r.step))))
            stride *= self.number(extent)
        return _Span(start, tuple(reversed(axes)))


def write_call(call: Call, context: Context) -> None:
    """Write the statements of a call. Raises ProgramError for an unsupported primitive."""
    emit = _EMITTERS.get(type(call.primitive))
    if emit is None:
        known = ", ".join(kind.name for kind in _EMITTERS)
        raise ProgramError(
            f"no instructions for primitive {call.primitive.name!r}",
            fix=f"some for {known}",
        )
    emit(call.primitive, [context.span(o) for o in call.operands], context)


def repeated(
    context: Context,
    axes: Sequence[tuple[int, Sequence[int]]],
    starts: Sequence[Expr],
    write: Callable[[Sequence[Expr]], None],
) -> None:
    """Write statements for each index of `axes`, (extent, strides of the operands), outermost
    first; `write` receives the start of each operand.
    """
    if not axes:
        with context.out.statement():
            write(starts)
        return
    (extent, strides), *inner = axes
    if extent <= UNROLLED_TURNS:
        for index in range(extent):
            moved = [s + index * stride for s, stride in zip(starts, strides, strict=True)]
            repeated(context, inner, moved, write)
        return
    with context.out.turns(extent, starts, strides) as places:
        repeated(context, inner, places, write)


def _product(primitive: RoundedProduct, spans: Sequence[_Span], context: Context) -> None:
    """One `mmv` or `vmm` per index across the vectors."""
    c, a, b = spans
    along, across = primitive.along, primitive.across
    matrix, vector = (a, b) if primitive.loaded == 1 else (b, a)
    size, terms = _extent(matrix.of(along)), _extent(matrix.of("k"))
    rows, columns = matrix.of(along), matrix.of("k")
    by_rows = not columns or columns[-1].stride == 1
    inner, outer = (terms, rows) if by_rows else (size, columns)
    for axes, expected, what in (
        (outer, inner, "rows of the matrix"),
        (columns if by_rows else rows, 1, "elements of a row"),
        (vector.of("k"), 1, "terms"),
        (c.of(along), 1, "results"),
    ):
        if len(axes) > 1 or (axes and axes[0].stride != expected):
            raise ProgramError(f"{primitive.name}: the {what} are no run of elements")
    around = _paired(c.of(across), vector.of(across))

    def write(starts: Sequence[Expr]) -> None:
        out, source, weights = (context.out.register(s) for s in starts)
        sizes = [context.out.register(Const(n)) for n in (size, terms)]
        context.out.write("mmv" if by_rows else "vmm", out, sizes[0], weights, source, sizes[1])

    turns = [(n, (x, y, 0)) for n, (x, y) in around]
    repeated(context, turns, (c.start, vector.start, matrix.start), write)


def _outer_product(primitive: OuterProduct, spans: Sequence[_Span], context: Context) -> None:
    """One `op`."""
    c, a, b = spans
    rows, columns = _extent(c.of("m")), _extent(c.of("n"))
    runs = ((c.of("m"), columns), (c.of("n"), 1), (a.of("m"), 1), (b.of("n"), 1))
    if any(len(axes) > 1 or (axes and axes[0].stride != step) for axes, step in runs):
        raise ProgramError(f"{primitive.name}: an operand is no run of elements")
    with context.out.statement():
        places = [context.out.register(s.start) for s in spans]
        sizes = [context.out.register(Const(n)) for n in (rows, columns)]
        context.out.write("op", places[0], places[1], sizes[0], places[2], sizes[1])


def _turned(primitive: Turned, spans: Sequence[_Span], context: Context) -> None:
    """One `mmv` per index along m, with a unit vector whose one moves from turn to turn."""
    y, x = spans
    out, size, rows = context.out, _extent(x.of("m")), _extent(x.of("n"))
    unit = context.work(primitive.work)
    with out.statement():
        place, count = out.register(unit), out.register(Const(2 * size))
        out.write("vsv", place, count, place, place)
        last, one = out.register(unit + size), out.register(Const(1))
        out.write("vas", last, one, last, f"#{primitive.one}")
    for axes, expected in ((x.of("m"), 1), (x.of("n"), size), (y.of("n"), 1)):
        if len(axes) > 1 or (axes and axes[0].stride != expected):
            raise ProgramError(f"{primitive.name}: a row is no run of elements")

    def write(starts: Sequence[Expr]) -> None:
        target, matrix, vector = (out.register(s) for s in starts)
        counts = [out.register(Const(n)) for n in (rows, size)]
        out.write("mmv", target, counts[0], matrix, vector, counts[1])

    letters = dict.fromkeys(letter for letter, _ in y.axes if letter not in "mn")
    around = [(n, (a, b, 0)) for name in letters for n, (a, b) in _paired(y.of(name), x.of(name))]
    turns = [(a.extent, (a.stride, 0, -1)) for a in y.of("m")]
    repeated(context, [*around, *turns], (y.start, x.start, unit + size), write)


def _extent(axes: Sequence[_Axis]) -> int:
    found = 1
    for a in axes:
        found *= a.extent
    return found


def _paired(*operands: Sequence[_Axis]) -> list[tuple[int, tuple[int, ...]]]:
    """(extent, strides) of the same index in several operands, whose dimensions may be split
    differently. Raises ProgramError where no common split exists.
    """
    found: list[tuple[int, tuple[int, ...]]] = []
    rest = [list(axes) for axes in operands]
    while any(rest):
        if not all(rest):
            raise ProgramError("operands of a call have different extents")
        count = min(axes[-1].extent for axes in rest)
        found.insert(0, (count, tuple(axes[-1].stride for axes in rest)))
        for axes in rest:
            last = axes.pop()
            if last.extent % count:
                raise ProgramError("operands of a call are cut in different ways")
            if last.extent > count:
                axes.append(_Axis(last.extent // count, last.stride * count))
    return found


def _runs(spans: Sequence[_Span]) -> tuple[int, list[tuple[int, tuple[int, ...]]]]:
    """Elements of the run that is contiguous in all operands, and the indices around it. An operand
    without a letter of the first is repeated along it.
    """
    letters = dict.fromkeys(letter for letter, _ in spans[0].axes)
    axes: list[tuple[int, tuple[int, ...]]] = []
    for letter in letters:
        whole = spans[0].of(letter)
        axes += _paired(*(s.of(letter) or tuple(_Axis(a.extent, 0) for a in whole) for s in spans))
    merged: list[tuple[int, tuple[int, ...]]] = []
    for extent, strides in axes:
        if merged and merged[-1][1] == tuple(extent * s for s in strides):
            merged[-1] = (merged[-1][0] * extent, strides)
        else:
            merged.append((extent, strides))
    if merged and all(s == 1 for s in merged[-1][1]):
        return merged[-1][0], merged[:-1]
    return 1, merged


def _elementwise(mnemonic: str, order: Sequence[int]) -> Callable[..., None]:
    """One instruction per run, with operands in this order after the size."""

    def emit(_: Primitive, spans: Sequence[_Span], context: Context) -> None:
        size, around = _runs(spans)

        def write(starts: Sequence[Expr]) -> None:
            places = [context.out.register(s) for s in starts]
            count = context.out.register(Const(size))
            context.out.write(mnemonic, places[0], count, *(places[i] for i in order))

        repeated(context, around, [s.start for s in spans], write)

    return emit


def _fill(primitive: Fill, spans: Sequence[_Span], context: Context) -> None:
    """Subtract the span from itself, then add the value."""
    _elementwise("vsv", (0, 0))(primitive, spans, context)
    if primitive.value:
        size, around = _runs(spans)

        def write(starts: Sequence[Expr]) -> None:
            place, count = context.out.register(starts[0]), context.out.register(Const(size))
            context.out.write("vas", place, count, place, f"#{int(primitive.value)}")

        repeated(context, around, [spans[0].start], write)


def _rounded_map(primitive: RoundedMap, spans: Sequence[_Span], context: Context) -> None:
    """The steps for each run."""
    size, around = _runs(spans)
    _in_steps(primitive, spans, around, size, context)


def _rounded_reduce(primitive: RoundedReduce, spans: Sequence[_Span], context: Context) -> None:
    """The steps for each run, one gathered index after the other."""
    y, x = spans
    kept = _Span(x.start, tuple((letter, a) for letter, a in x.axes if letter != "k"))
    size, around = _runs((y, kept))
    gathered = [(a.extent, (0, 0, a.stride)) for a in x.of("k")]
    inner = [(extent, (strides[0], *strides)) for extent, strides in around]
    _in_steps(primitive, (y, y, x), [*gathered, *inner], size, context)


def _in_steps(
    primitive: StepByStep,
    spans: Sequence[_Span],
    around: Sequence[tuple[int, tuple[int, ...]]],
    size: int,
    context: Context,
) -> None:
    """Emit the constants once, and the other steps for each index of `around`."""
    out, unit = context.out, -(-size // SLOT_ELEMENTS) * SLOT_ELEMENTS
    work = context.work(primitive.work) if primitive.work else Const(0)
    steps = primitive.steps(len(spans) - 1)

    def written(starts: Sequence[Expr], own: Sequence[Step]) -> None:
        temporaries = (work + i * unit for i in range(steps.temporaries))
        used = {p for step in own for p in (step.out, *step.sources)}
        every = enumerate((*starts, *temporaries))
        places = {i: out.register(e) for i, e in every if i in used}
        count = out.register(Const(size))
        for step in own:
            sources = [places[s] for s in step.sources]
            if step.immediate is not None:
                sources.append(f"#{step.immediate}")
            out.write(step.mnemonic, places[step.out], count, *sources)

    starts = [s.start for s in spans]
    if steps.constants:
        with out.statement():
            written(starts, steps.constants)
    repeated(context, around, starts, lambda places: written(places, steps.steps))


_EMITTERS: Mapping[type[Primitive], Callable[[Any, Sequence[_Span], Context], None]] = {
    RoundedProduct: _product,
    OuterProduct: _outer_product,
    Turned: _turned,
    RoundedMap: _rounded_map,
    RoundedStep: _rounded_map,
    RoundedReduce: _rounded_reduce,
    SaturatingAdd: _elementwise("vav", (0, 1)),
    Copy: _elementwise("vmove", (1,)),
    Fill: _fill,
}
