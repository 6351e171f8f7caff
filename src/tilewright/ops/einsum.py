"""Einstein summations as NumPy and ONNX write them: `bhqd,bhkd->bhqk`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tilewright.common.errors import ShapeError
from tilewright.ops.access import Access
from tilewright.ops.definition import Definition, Gather
from tilewright.ops.op import Shape

Letters = tuple[str, ...]
"""The axis of each dimension; axes of an ellipsis begin with an underscore."""


def einsum(equation: str, shapes: Sequence[Shape], *, dtype: str = "f64") -> Definition:
    """The definition of an equation over tensors of these shapes.

    Without an arrow the result has the letters that occur once, in order; an ellipsis stands for
    the leading dimensions that are left, broadcast. Raises ShapeError naming the term.

    >>> einsum("ij,jk", [(2, 3), (3, 4)]).describe()
    'y[i,k] += x0[i,j] * x1[j,k]; i=2, k=4, j=3'
    """
    text = "".join(equation.split())
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        raise ShapeError(f"{text!r} has {len(terms)} terms, {len(shapes)} tensors are given")
    pairs = list(zip(terms, shapes, strict=True))
    most = max((len(s) - len(t.replace(".", "")) for t, s in pairs if "." in t), default=0)
    ellipsis = tuple(f"_{d}" for d in range(most))
    places = [_letters(text, term, ellipsis, len(shape)) for term, shape in pairs]
    extents = _extents(text, terms, places, shapes)
    letters = [axis for own in places for axis in own]
    once = sorted({a for a in letters if letters.count(a) == 1 and a not in ellipsis})
    result = _letters(text, output, ellipsis) if arrow else (*ellipsis, *once)
    if not set(result) <= set(extents) or len(set(result)) < len(result):
        raise ShapeError(f"{text!r}: the result {output!r} takes each of the terms' letters once")
    axes = (*result, *(axis for axis in extents if axis not in result))
    y = _access(result, tuple(extents[a] for a in result), axes)
    operands = tuple(_access(own, s, axes) for own, s in zip(places, shapes, strict=True))
    gather: Gather | None = "sum" if len(axes) > len(result) else None
    body = " * ".join(f"x{i}" for i in range(len(operands)))
    every = tuple(extents[axis] for axis in axes)
    names = tuple(axis.replace("_", "batch") for axis in axes)
    return Definition(every, y, operands, body, gather, "x0", dtype, names)


def _letters(text: str, term: str, ellipsis: Letters, dimensions: int | None = None) -> Letters:
    """The axes of a term: of the ellipsis the last ones where it has fewer dimensions."""
    before, dots, behind = term.partition("...")
    if not re.fullmatch("[A-Za-z]*", before + behind):
        raise ShapeError(f"{text!r}: {term!r} is no term, letters and one ellipsis at most")
    left = 0
    if dots:
        left = len(ellipsis) if dimensions is None else dimensions - len(before + behind)
    found = (*before, *ellipsis[len(ellipsis) - max(0, left) :], *behind)
    if dimensions is not None and len(found) != dimensions:
        raise ShapeError(f"{text!r}: {term!r} does not name {dimensions} dimensions")
    return found


def _extents(
    text: str, terms: Sequence[str], places: Sequence[Letters], shapes: Sequence[Shape]
) -> Mapping[str, int]:
    """The extent of each axis; a dimension of one element goes with any."""
    found: dict[str, int] = {}
    for term, own, shape in zip(terms, places, shapes, strict=True):
        for axis, extent in zip(own, shape, strict=True):
            before = found.get(axis, 1)
            if 1 not in (before, extent) and before != extent:
                raise ShapeError(
                    f"{text!r}: {axis!r} has {extent} steps in {term!r} and {before} before"
                )
            found[axis] = max(before, extent)
    return found


def _access(own: Letters, shape: Shape, axes: Letters) -> Access:
    """Access with one axis per dimension, and none in dimensions of one element."""
    pairs = zip(own, shape, strict=True)
    terms = tuple(((axes.index(a), 1),) if n > 1 else () for a, n in pairs)
    return Access(shape, terms, (0,) * len(shape))
