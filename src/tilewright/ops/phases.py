"""Scattered sums, as in a transposed convolution: `y[2*r+u] += x[r] * w[u]`.

In: accesses as of a definition, with a result that several steps share places of. Out: definitions
that each write every so many places of the result, found by solving the place for one axis: where
r takes every second place, even places take the even taps and odd places the odd ones, and no zero
is multiplied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tilewright.common.errors import ShapeError
from tilewright.ops.access import Access, Term
from tilewright.ops.definition import Definition
from tilewright.ops.op import Shape


@dataclass(frozen=True)
class _Parts:
    """Extents and the accesses of result and operands, solved so far."""

    extents: Shape
    result: Access
    operands: tuple[Access, ...]


def phases(
    extents: Shape,
    result: Access,
    operands: Sequence[Access],
    body: str = "x0 * x1",
    dtype: str = "f64",
) -> tuple[Definition, ...]:
    """The definitions whose results add up to the sums; each element is written by one of them, or
    by none and is zero. Raises ShapeError for a place of more than two axes, or one of whose axes
    no operand has in a dimension of its own.
    """
    found = [_Parts(extents, result, tuple(operands))]
    for d in range(len(result.shape)):
        found = [part for given in found for part in _solved(given, d)]
    return tuple(
        Definition(p.extents, p.result, p.operands, body, "sum", dtype=dtype) for p in found
    )


def _solved(p: _Parts, d: int) -> Iterator[_Parts]:
    """Parts in each of which a single axis moves the place along dimension `d`."""
    terms = [(a, s) for a, s in p.result.terms[d] if p.extents[a] > 1]
    if len(terms) <= 1:
        yield p
        return
    if len(terms) > 2:
        raise ShapeError(f"scattered sums: dimension {d} has {len(terms)} axes, 2 are solved")
    (axis, stride), (tap, step) = sorted(terms, key=lambda term: p.extents[term[0]], reverse=True)
    if stride < 1 or not any(_spans(x, axis, p.extents[axis]) for x in p.operands):
        raise ShapeError(f"scattered sums: dimension {d} cannot be solved for its longer axis")
    size, offset = p.result.shape[d], p.result.offsets[d]
    for phase in range(min(stride, size)):
        taps = [k for k in range(p.extents[tap]) if (phase - offset - step * k) % stride == 0]
        if taps:
            yield _phase(p, d, (axis, stride), (tap, step), phase, taps)


def _spans(access: Access, axis: int, extent: int) -> bool:
    """True if steps beyond the axis are places outside the tensor."""
    places = zip(access.shape, access.terms, access.offsets, strict=True)
    return any(p == (extent, ((axis, 1),), 0) for p in places)


def _phase(
    p: _Parts, d: int, solved: Term, window: Term, phase: int, taps: Sequence[int]
) -> _Parts:
    """Every `stride`-th place from `phase` on, with the taps that reach it."""
    (axis, stride), (tap, step) = solved, window
    apart = taps[1] - taps[0] if len(taps) > 1 else 1
    base = (phase - p.result.offsets[d] - step * taps[0]) // stride
    slope = step * apart // stride if len(taps) > 1 else 0
    extents = list(p.extents)
    extents[axis], extents[tap] = -(-(p.result.shape[d] - phase) // stride), len(taps)

    def moved(access: Access) -> Access:
        terms, offsets = [], []
        for place, offset in zip(access.terms, access.offsets, strict=True):
            steps: dict[int, int] = {}
            for a, s in place:
                if a == axis:
                    steps[axis] = s
                    steps[tap] = steps.get(tap, 0) - s * slope
                    offset += s * base
                elif a == tap:
                    steps[tap] = steps.get(tap, 0) + s * apart
                    offset += s * taps[0]
                else:
                    steps[a] = s
            terms.append(tuple((a, s) for a, s in steps.items() if s))
            offsets.append(offset)
        return Access(access.shape, tuple(terms), tuple(offsets), 0.0)

    terms = tuple(((axis, stride),) if i == d else t for i, t in enumerate(p.result.terms))
    offsets = tuple(phase if i == d else o for i, o in enumerate(p.result.offsets))
    result = replace(p.result, terms=terms, offsets=offsets)
    return _Parts(tuple(extents), result, tuple(map(moved, p.operands)))
