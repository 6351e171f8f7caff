"""Loops over the elements of tensors that lie in memory in different forms.

In: the form that is written and all forms that take part. Out: loops in the order of the written
memory, with blocks of any of them as loops of their own, so that every address is affine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.codegen.c.writer import CWriter
from tilewright.common.errors import ProgramError
from tilewright.network.form import Form, Shape, chain
from tilewright.targets.host.emit_threads import MEET, THREAD, loop_head

_TURNS = 4
"""Iterations for each thread from which on a loop is long enough to be divided."""


@dataclass(frozen=True)
class LoopLevel:
    """A loop: `count` times, each `step` indices along `axis`; `rest` indices of the axis where
    blocks outside it may end before the axis does (0: they never do).
    """

    axis: int
    step: int
    count: int
    name: str
    rest: int = 0
    outside: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Address:
    """Elements from the start of memory: a constant, and one coefficient per loop."""

    start: int
    strides: tuple[int, ...]

    def text(self, levels: Sequence[LoopLevel]) -> str:
        """The C expression."""
        terms = [
            level.name if stride == 1 else f"{level.name} * {stride}L"
            for level, stride in zip(levels, self.strides, strict=True)
            if stride
        ]
        return " + ".join(([str(self.start)] if self.start else []) + terms) or "0"


def levels_for(y: Form, others: Sequence[Form]) -> tuple[LoopLevel, ...]:
    """The loops over the elements of y; raises ProgramError where some address is not affine."""
    levels: list[LoopLevel] = []
    for place, dim in enumerate(y.dims):
        extent = y.shape[dim.axis]
        steps = chain((y, *others), dim.axis)
        if steps is None:
            raise ProgramError(f"blocks along axis {dim.axis} do not divide each other")
        own = [d.step for d in y.dims[:place] if d.axis == dim.axis]
        outer = min(own, default=0)
        if extent == 1:
            continue
        inside = [s for s in steps if s >= dim.step and (not outer or s < outer)]
        for s in inside:
            wider = [t for t in steps if t > s]
            above = min(wider, default=0)
            count = above // s if above else -(-extent // s)
            partial = bool(above) and extent % above != 0
            outside = tuple((v.name, v.step) for v in levels if v.axis == dim.axis)
            name = f"i{len(levels)}"
            rest = extent if partial else 0
            levels.append(LoopLevel(dim.axis, s, count, name, rest, outside if partial else ()))
    return tuple(levels)


def address(form: Form, shape: Shape, levels: Sequence[LoopLevel]) -> Address:
    """Where an element of a tensor of `form` is that is broadcast to `shape`."""
    start, strides = 0, [0] * len(levels)
    for place, (dim, stride) in enumerate(zip(form.dims, form.strides, strict=True)):
        own = form.along(dim.axis)
        if len(own) == 1:
            start += form.before[dim.axis] * stride
        if form.shape[dim.axis] == 1 and shape[dim.axis] > 1:
            continue
        outer = min((d.step for d in form.dims[:place] if d.axis == dim.axis), default=0)
        for number, level in enumerate(levels):
            if level.axis == dim.axis and level.step >= dim.step:
                if outer and level.step >= outer:
                    continue
                strides[number] += level.step // dim.step * stride
    return Address(start, tuple(strides))


def collapsed(
    levels: Sequence[LoopLevel], addresses: Sequence[Address]
) -> tuple[tuple[LoopLevel, ...], tuple[Address, ...]]:
    """The same with loops joined that run on where an inner one ends, for all addresses."""
    kept = list(range(len(levels)))
    joined = list(levels)
    for outer in reversed(range(len(levels) - 1)):
        after = kept[kept.index(outer) + 1]
        plain = not (joined[outer].rest or joined[after].rest or _bounds_use(joined[outer], levels))
        count = joined[after].count
        if plain and all(a.strides[outer] == a.strides[after] * count for a in addresses):
            level = joined[after]
            joined[after] = LoopLevel(
                level.axis, level.step, count * joined[outer].count, level.name
            )
            kept.remove(outer)
    shorter = tuple(Address(a.start, tuple(a.strides[k] for k in kept)) for a in addresses)
    return tuple(joined[k] for k in kept), shorter


def _bounds_use(level: LoopLevel, levels: Sequence[LoopLevel]) -> bool:
    """Whether the bound of another loop names this one."""
    return any(level.name in dict(other.outside) for other in levels)


def shared_level(levels: Sequence[LoopLevel], threads: int) -> LoopLevel | None:
    """The loop that threads divide: the first with work enough for all, else the longest; None
    where all are one iteration.
    """
    able = [level for level in levels if not level.rest]
    wide = (level for level in able if level.count >= _TURNS * threads)
    return next(wide, max(able, key=lambda level: level.count, default=None))


def head(level: LoopLevel, *, divided: bool = False) -> str:
    """The C text that begins a loop."""
    if level.rest:
        bound = str(level.count)
        gone = " - ".join(f"{name} * {step}L" for name, step in level.outside)
        left = f"({level.rest} - {gone} + {level.step - 1}) / {level.step}"
        bound = f"{left} < {level.count} ? {left} : {level.count}"
        return f"for (long {level.name} = 0, n = {bound}; {level.name} < n; {level.name}++)"
    return loop_head(level.name, level.count, divided=divided)


def write_zeros(form: Form, memory: str, writer: CWriter, *, divided: bool = False) -> None:
    """Zeros in all places that hold no element, and, where it is simpler, everywhere; `divided`
    among threads.
    """
    if not form.has_zeros:
        return
    if any(len(form.along(d.axis)) > 1 for d in form.dims if form.shape[d.axis] % d.step) or any(
        len(form.along(d.axis)) > 1 and _tail(form, d.axis) for d in form.dims
    ):
        with writer.block(f"if ({THREAD} == 0)") if divided else writer.flat():
            writer.line(f"memset({memory}, 0, {form.elements} * sizeof *{memory});")
        if divided:
            writer.line(MEET)
        return
    outside = 1
    for dim, inner in zip(form.dims, form.strides, strict=True):
        before = form.before[dim.axis] if len(form.along(dim.axis)) == 1 else 0
        after = dim.extent - before - form.shape[dim.axis]
        if len(form.along(dim.axis)) == 1 and (before or after):
            with writer.block(loop_head("p", outside, divided=divided)):
                for first, count in ((0, before), (dim.extent - after, after)):
                    if count:
                        at = f"{memory} + p * {dim.extent * inner}L + {first * inner}"
                        writer.line(f"memset({at}, 0, {count * inner} * sizeof *{memory});")
        outside *= dim.extent


def _tail(form: Form, axis: int) -> bool:
    """Whether the last block of an axis is not full."""
    extent = 1
    for d in form.along(axis):
        extent *= d.extent
    return extent != form.shape[axis]
