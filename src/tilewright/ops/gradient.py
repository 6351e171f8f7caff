"""Gradients of definitions, as definitions whose results add up.

In: a definition and the number of an operand. Out: definitions over the gradient of the result and
the operands, each of which writes its own elements of the operand's gradient. The operand's index
is solved for one of its axes; a plain axis stays as it is. For a window `h = s*r + t*k + p`, the
elements of each phase of h modulo s use the taps k of that phase, `r = h' + (p' - t*k) / s`, which
reads the gradient with unit stride and multiplies no inserted zeros. Bodies are differentiated by
the table of functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, product
from math import gcd, prod

from tilewright.common.errors import ShapeError
from tilewright.ir.scalar import (
    Apply,
    Element,
    Number,
    Scalar,
    derivative,
    operand_count,
    operand_numbers,
    parse_scalar,
    renumbered,
)
from tilewright.ops.access import Access, straight
from tilewright.ops.box import Box
from tilewright.ops.definition import Definition, factors_of
from tilewright.ops.numerics import Numerics
from tilewright.ops.op import Shape

Terms = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Gradient:
    """One addend of a gradient. The operands of its definition are the gradient of the result, then
    the original operands with the numbers `operands`.
    """

    definition: Definition
    operands: tuple[int, ...]


@dataclass(frozen=True)
class _Steps:
    """Axes, and the accesses that they move: the target's, then those of the body. The first
    `factors` of the latter are factors of the body: where one of them is zero, so is the body.
    """

    extents: tuple[int, ...]
    accesses: tuple[Access, ...]
    factors: int


def gradient(op: Definition, operand: int) -> tuple[Gradient, ...]:
    """The gradient of operand number `operand`, as definitions whose results add up; empty where it
    is zero everywhere.

    Beyond a border the gradient of the result is zero, and so is its product with a derivative,
    even if that is not finite there. Supports maps, and sums with at most a constant factor as
    `finish`. Raises ShapeError for any other gather or `finish`, whose gradient depends on the
    result's values, and ProgramError for functions of bits.
    """
    last = derivative(parse_scalar(op.finish), 0)
    if op.gather not in (None, "sum") or operand_count(last):
        raise ShapeError(
            f"{op.describe()[:80]}: the gradient needs the numbers of the result",
            fix="write the gather and what finishes it as definitions of their own",
        )
    factor = derivative(op.scalar, operand)
    if factor == Number(0.0):
        return ()
    if last != Number(1.0):
        factor = Apply("*", (last, factor))
    used = sorted(operand_numbers(factor))
    moved = {number: Element(place + 1) for place, number in enumerate(used)}
    inner = renumbered(factor, [moved.get(i, Element(0)) for i in range(len(op.operands))])
    body = Element(0) if inner == Number(1.0) else Apply("*", (Element(0), inner))
    factors = 1 if factors_of(body) is None else 1 + len(used)
    accesses = [op.operands[operand], op.result, *(op.operands[i] for i in used)]
    indices = dict.fromkeys(k for access in accesses for k in access.looked_up.values())
    used += [k for k in indices if k not in used]
    accesses += [op.operands[k] for k in used[len(accesses) - 2 :]]
    numbers = {k: 1 + place for place, k in enumerate(used)}
    solved = tuple(_read_by(access, numbers) for access in accesses)
    return tuple(
        Gradient(_gradient_part(op, operand, body, used, steps), tuple(used))
        for steps in _solved(_Steps(op.extents, solved, factors))
    )


def extremes_of_few(op: Definition, most: int) -> list[Definition]:
    """A maximum (or minimum) over many elements, in stages over at most `most` elements each. The
    first definition reads the operands, every other one the previous result. Results are equal, and
    so is the first of equal elements. Body and `finish` become maps of their own.
    """
    stages: list[Definition] = []
    if op.body != "x0" or len(op.operands) > 1:
        every = straight(op.extents)
        stages.append(replace(op, result=every, gather=None, finish="x0", axes=(), tensors=()))
        op = replace(op, operands=(every,), body="x0", dtype=_types_of_results(op), tensors=())
    finish, result = op.finish, op.result
    if finish != "x0":
        op = replace(
            op, result=straight(tuple(op.extents[a] for a in op.kept), op.kept), finish="x0"
        )
    kept = dict(zip(op.kept, range(len(op.kept)), strict=True))
    while prod(op.extents[a] for a in op.gathered) > most:
        first, op = _inner_extremes(_halved(op, most), most)
        stages.append(first)
    stages.append(op)
    if finish != "x0":
        places, kind = op.result.shape, _types_of_results(op)
        stages.append(
            Definition(places, result.renamed(kept), (straight(places),), finish, None, "x0", kind)
        )
    return stages


def _halved(op: Definition, most: int) -> Definition:
    """The definition with an innermost gathered axis of more than `most` steps split in two: over
    equal windows, and within a window. Windows overlap where no count divides the axis, which a
    maximum tolerates.
    """
    axis = max(a for a in op.gathered if op.extents[a] > 1)
    extent = op.extents[axis]
    if extent <= most:
        return op
    windows = next(n for n in count(-(-extent // most)) if extent - extent // n * (n - 1) <= most)
    step = extent // windows
    length = extent - step * (windows - 1)

    def apart(access: Access) -> Access:
        terms = [
            [own for a, s in place for own in (((a, s * step), (a + 1, s)) if a == axis
                                               else ((a + (a > axis), s),))]
            for place in access.terms
        ]  # fmt: skip
        return replace(access, terms=tuple(map(tuple, terms)))

    extents = (*op.extents[:axis], windows, length, *op.extents[axis + 1 :])
    operands = tuple(map(apart, op.operands))
    return replace(op, extents=extents, result=apart(op.result), operands=operands, axes=())


def _inner_extremes(op: Definition, most: int) -> tuple[Definition, Definition]:
    """Extremes over the last gathered axes, at most `most` steps, and extremes of these results."""
    inner: list[int] = []
    for axis in reversed(op.gathered):
        if prod(op.extents[a] for a in (axis, *inner)) > most:
            break
        inner.append(axis)
    kept = tuple(a for a in range(len(op.extents)) if a not in inner)
    shape = tuple(op.extents[a] for a in kept)
    first = replace(op, result=straight(shape, kept), finish="x0", axes=(), tensors=())
    result = op.result.renamed({a: i for i, a in enumerate(kept)})
    operands, kind = (straight(shape),), _types_of_results(op)
    return first, replace(
        op, extents=shape, result=result, operands=operands, dtype=kind, axes=(), tensors=()
    )


def _types_of_results(op: Definition) -> str:
    """The element types of a definition that reads the results of `op`."""
    return str(replace(op.numerics, operands=(op.numerics.result,)))


def _gradient_part(
    op: Definition, operand: int, body: Scalar, used: Sequence[int], steps: _Steps
) -> Definition:
    """An addend of the gradient along solved steps, over the result's gradient and `used`."""
    dx, *given = steps.accesses
    kept = {a for terms in dx.terms for a, _ in terms}
    if steps.factors == 1 and any(access.fill is not None for access in given[1:]):
        body = Apply("if", (Apply("==", (Element(0), Number(0.0))), Number(0.0), body))
    gathers = bool(dx.read_from) or any(n > 1 for a, n in enumerate(steps.extents) if a not in kept)
    kinds = (op.numerics.sums, *(op.numerics.operands[k] for k in used))
    types = Numerics(kinds, op.numerics.sums, op.numerics.sums)
    axes = tuple(map(op.axis_name, range(len(op.extents))))
    names = (f"d{op.tensor_name(operand + 1)}", f"d{op.tensor_name(0)}",
             *(op.tensor_name(i + 1) for i in used))  # fmt: skip
    return Definition(
        steps.extents, replace(dx, fill=None), tuple(given), str(body),
        "sum" if gathers else None, "x0", str(types), axes, names,
    )  # fmt: skip


def _read_by(access: Access, numbers: Mapping[int, int]) -> Access:
    """The access with the operands that hold its indices renumbered."""
    read_from = tuple(None if k is None else numbers[k] for k in access.read_from)
    return replace(access, read_from=read_from)


def scattered(
    extents: Shape, result: Access, operands: Sequence[Access], body: str = "x0 * x1",
    dtype: str = "f64",
) -> tuple[Definition, ...]:  # fmt: skip
    """Sums in which several steps write the same element, as in a transposed convolution:
    `y[2*r+u] += x[r] * w[u]`. Each definition writes elements of its own and reads the operands
    with unit stride; the results add up.
    """
    factors = len(operands) if factors_of(parse_scalar(body)) is not None else 0
    parts = _solved(_Steps(extents, (result, *operands), factors))
    return tuple(
        Definition(p.extents, p.accesses[0], p.accesses[1:], body, "sum", dtype=dtype)
        for p in parts
    )


def _solved(steps: _Steps) -> Iterator[_Steps]:
    """Equivalent steps under which the first access stays inside and axes never collide."""
    target = steps.accesses[0]
    for d, terms in enumerate(target.terms):
        if d in target.looked_up:
            continue
        span = target.span(d, Box.whole(steps.extents))
        inside = span[0] >= 0 and span[1] <= target.shape[d]
        if inside and _is_apart(terms, steps.extents):
            continue
        for phase in _phases(steps, d):
            yield from _solved(phase)
        return
    yield steps


def is_written_once(access: Access, extents: Sequence[int]) -> bool:
    """True if all indices lie inside and no two steps of its axes share an element."""
    return access.is_inside(extents) and all(_is_apart(terms, extents) for terms in access.terms)


def _is_apart(terms: Sequence[tuple[int, int]], extents: Sequence[int]) -> bool:
    reach = 1
    for axis, step in sorted(terms, key=lambda term: term[1]):
        if extents[axis] == 1:
            continue
        if step < reach:
            return False
        reach += step * (extents[axis] - 1)
    return True


def _phases(steps: _Steps, d: int) -> Iterator[_Steps]:
    """Equivalent steps with the index in dimension `d` of the first access solved.

    With a single axis, the steps inside the tensor are kept. With several, the index itself
    replaces an axis that a factor, zero beyond its border, bounds. If no axis is bounded, the
    shortest is unrolled.
    """
    steps = _forwards(steps, d)
    target = steps.accesses[0]
    moving = [(a, s) for a, s in target.terms[d] if steps.extents[a] > 1]
    if len(moving) < 2:
        yield from _inside(steps, d, moving)
        return
    bounded = [(a, s) for a, s in moving if _is_bounded(steps, a)]
    if bounded:
        yield from _by_residues(steps, d, max(bounded, key=lambda term: term[1]))
        return
    axis = min(moving, key=lambda term: steps.extents[term[0]])[0]
    for step in range(steps.extents[axis]):
        yield _with(steps, {axis: ((), step)}, {axis: 1})


def _inside(steps: _Steps, d: int, moving: Sequence[tuple[int, int]]) -> Iterator[_Steps]:
    """The steps with the only moving axis clipped to indices inside the tensor."""
    target = steps.accesses[0]
    offset = target.offsets[d]
    if not moving:
        if 0 <= offset < target.shape[d]:
            yield steps
        return
    ((axis, stride),) = moving
    first = max(0, -(offset // stride))
    count = min(steps.extents[axis], (target.shape[d] - 1 - offset) // stride + 1) - first
    if count > 0:
        yield _with(steps, {axis: (((axis, 1),), first)}, {axis: count})


def _is_bounded(steps: _Steps, axis: int) -> bool:
    """True if a factor's dimension is exactly this axis, with zeros beyond its border."""
    return any(
        ((axis, 1),) == terms and not offset and extent == steps.extents[axis]
        for access in steps.accesses[1 : 1 + steps.factors]
        if not access.fill
        for terms, offset, extent in zip(access.terms, access.offsets, access.shape, strict=True)
    )


def _by_residues(steps: _Steps, d: int, solved: tuple[int, int]) -> Iterator[_Steps]:
    """Steps for each phase of the index modulo the stride of the solved axis, and each residue
    class of the other axes that yields it: h = stride * h' + phase,
    k = c + period * (count - 1 - k').
    """
    (axis, stride), target = solved, steps.accesses[0]
    others = [(a, s) for a, s in target.terms[d] if a != axis]
    periods = [stride // gcd(stride, s) for _, s in others]
    for phase, *firsts in product(range(min(stride, target.shape[d])), *map(range, periods)):
        taken = list(zip(others, firsts, periods, strict=True))
        base = phase - target.offsets[d] - sum(s * c for (_, s), c, _ in taken)
        counts = {a: len(range(c, steps.extents[a], period)) for (a, _), c, period in taken}
        if base % stride or not all(counts.values()):
            continue
        base //= stride
        inner: dict[int, tuple[Terms, int]] = {}
        slopes: list[tuple[int, int]] = []
        for (a, s), c, period in taken:
            inner[a] = (((a, -period),), c + period * (counts[a] - 1))
            slopes.append((a, s * period // stride))
            base -= s * period * (counts[a] - 1) // stride
        inner[axis] = (((axis, 1), *slopes), base)
        counts[axis] = -(-(target.shape[d] - phase) // stride)
        found = _with(steps, inner, counts)
        dx = found.accesses[0]
        terms = (*dx.terms[:d], ((axis, stride),), *dx.terms[d + 1 :])
        offsets = (*dx.offsets[:d], phase, *dx.offsets[d + 1 :])
        dx = replace(dx, terms=terms, offsets=offsets)
        yield replace(found, accesses=(dx, *found.accesses[1:]))


def _with(
    steps: _Steps, inner: Mapping[int, tuple[Terms, int]], extents: Mapping[int, int]
) -> _Steps:
    """The steps with some axes substituted; operands read zeros where they leave their tensor."""
    every = tuple(extents.get(a, n) for a, n in enumerate(steps.extents))
    dx, *given = (_substituted(access, inner) for access in steps.accesses)
    return replace(steps, extents=every, accesses=(dx, *(_filled(x, every) for x in given)))


def _forwards(steps: _Steps, d: int) -> _Steps:
    """`steps` with the axes in dimension `d` of the first access reversed to run forwards."""
    turned = {a for a, s in steps.accesses[0].terms[d] if s < 0}
    if not turned:
        return steps
    own = tuple(access.turned(steps.extents, turned) for access in steps.accesses)
    return replace(steps, accesses=own)


def _substituted(access: Access, inner: Mapping[int, tuple[Terms, int]]) -> Access:
    """The access with an affine form substituted for some axes."""
    places, offsets = [], []
    for terms, offset in zip(access.terms, access.offsets, strict=True):
        total: dict[int, int] = {}
        for axis, step in terms:
            new, constant = inner.get(axis, (((axis, 1),), 0))
            offset += step * constant
            for a, s in new:
                total[a] = total.get(a, 0) + step * s
        places.append(tuple((a, s) for a, s in total.items() if s))
        offsets.append(offset)
    return replace(access, terms=tuple(places), offsets=tuple(offsets))


def _filled(access: Access, extents: Shape) -> Access:
    """The access with a fill of zeros if it reaches beyond the border and has none."""
    inside = access.fill is not None or access.is_inside(extents)
    return access if inside else replace(access, fill=0.0)
