"""Affine accesses: which element of a stored tensor one step of the axes touches.

Along each dimension the index is an offset plus a sum of axes times steps. Beyond its border a
tensor reads as its `fill`, where it has one. A layout, a window, a border, a flip, a part of a
larger tensor and a broadcast are all accesses.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tilewright.common.errors import ShapeError
from tilewright.ops.box import Box, Interval
from tilewright.ops.op import Array, Shape, require_shape, show_shape

Term = tuple[int, int]
"""An axis, and the index distance of one step along it."""


@dataclass(frozen=True)
class Access:
    """Maps a step of each axis to an element of a tensor of `shape`. The index along a dimension is
    its entry of `offsets` plus the sum of its `terms`; elements beyond the border are `fill`. Where
    `read_from` names an operand for a dimension, the index there is that operand's element.

    >>> window = Access((7,), (((0, 2), (1, 1)),), (-1,), fill=0.0)  # x[2*r + t - 1]
    >>> window.read(np.arange(7.0), (4, 3)).tolist()[0]
    [0.0, 0.0, 1.0]
    """

    shape: Shape
    terms: tuple[tuple[Term, ...], ...]
    offsets: tuple[int, ...]
    fill: float | None = None
    read_from: tuple[int | None, ...] = ()

    @property
    def looked_up(self) -> dict[int, int]:
        """The operand that holds the index, for each dimension with a look-up."""
        return {d: k for d, k in enumerate(self.read_from) if k is not None}

    @property
    def axes(self) -> frozenset[int]:
        """The axes that move the index."""
        return frozenset(axis for dim in self.terms for axis, _ in dim)

    def span(self, dimension: int, axes: Box) -> Interval:
        """The interval of indices along a dimension that steps within the box `axes` reach."""
        if self.read_from and self.read_from[dimension] is not None:
            return 0, self.shape[dimension]
        first = last = self.offsets[dimension]
        for axis, step in self.terms[dimension]:
            start, stop = axes.start[axis], axes.stop[axis] - 1
            first += step * (start if step > 0 else stop)
            last += step * (stop if step > 0 else start)
        return first, last + 1

    def is_whole(self, extents: Sequence[int]) -> bool:
        """True if the axes reach every element of the tensor exactly once."""
        return all(self.runs_through(d, extents) for d in range(len(self.shape)))

    def runs_through(self, dimension: int, extents: Sequence[int]) -> bool:
        """True if the axes enumerate all indices along a dimension, each once."""
        reach = 1
        for axis, step in sorted(self.terms[dimension], key=lambda term: term[1]):
            if extents[axis] > 1 and step != reach:
                return False
            reach *= extents[axis]
        return reach == self.shape[dimension] and not self.offsets[dimension]

    def runs_by_one(self, dimension: int, extents: Sequence[int]) -> bool:
        """True if a single axis enumerates all indices along a dimension."""
        return len(self.terms[dimension]) == 1 and self.runs_through(dimension, extents)

    def turned(self, extents: Shape, backwards: Container[int]) -> Access:
        """The access with some axes reversed, so that they count from their last step."""
        terms, offsets = [], []
        for place, offset in zip(self.terms, self.offsets, strict=True):
            moved = [(a, s) for a, s in place if a in backwards]
            offsets.append(offset + sum(s * (extents[a] - 1) for a, s in moved))
            terms.append(tuple((a, -s if a in backwards else s) for a, s in place))
        return replace(self, terms=tuple(terms), offsets=tuple(offsets))

    def renamed(self, numbers: Mapping[int, int]) -> Access:
        """The access with axes renumbered; axes without a new number are left out."""
        terms = ([(numbers[a], s) for a, s in place if a in numbers] for place in self.terms)
        return replace(self, terms=tuple(map(tuple, terms)))

    def is_inside(self, extents: Sequence[int]) -> bool:
        """True if no step of axes with these `extents` reaches beyond the border."""
        spans = [self.span(d, Box.whole(tuple(extents))) for d in range(len(self.shape))]
        return all(a >= 0 and b <= n for (a, b), n in zip(spans, self.shape, strict=True))

    def index(self, extents: Shape) -> tuple[Array, ...]:
        """The indices of all steps, one array per dimension, which broadcasts to `extents`."""
        found = []
        for terms, offset in zip(self.terms, self.offsets, strict=True):
            place = np.full([1] * len(extents), offset, np.int64)
            for axis, step in terms:
                along = [1] * len(extents)
                along[axis] = extents[axis]
                place = place + (np.arange(extents[axis]) * step).reshape(along)
            found.append(place)
        return tuple(found)

    def check(self, kind: str, extents: Shape) -> None:
        """Raise ShapeError if an index lies outside a tensor without a fill."""
        require_shape(kind, "stored shape", self.shape)
        if not len(self.shape) == len(self.terms) == len(self.offsets):
            raise ShapeError(f"{kind}: each of {len(self.shape)} dimensions needs one place")
        if any(self.terms[d] or self.offsets[d] for d in self.looked_up):
            raise ShapeError(f"{kind}: a place that is read from an operand has no other terms")
        if self.fill is not None and self.read_from:
            raise ShapeError(f"{kind}: what is looked up has no places beyond its border")
        if self.fill is not None:
            return
        whole = Box.whole(extents)
        for d in range(len(self.shape)):
            first, end = self.span(d, whole)
            if first < 0 or end > self.shape[d]:
                raise ShapeError(
                    f"{kind}: dimension {d} of {show_shape(self.shape)} is addressed from "
                    f"{first} to {end - 1}"
                )

    def read(self, stored: Array, extents: Shape) -> Array:
        """The elements of all steps, as a view unless a border is filled. Axes that do not move the
        index have extent 1.
        """
        whole = Box.whole(extents)
        spans = [self.span(d, whole) for d in range(len(self.shape))]
        around = [(max(0, -a), max(0, b - n)) for (a, b), n in zip(spans, self.shape, strict=True)]
        if self.fill is not None and any(map(any, around)):
            stored = np.pad(stored, around, constant_values=stored.dtype.type(self.fill))
        return self._strided(stored, extents, [before for before, _ in around])

    def look_up(self, stored: Array, extents: Shape, elements: Mapping[int, Array]) -> Array:
        """The elements of all steps, with looked-up indices from `elements`, by operand. Raises
        ShapeError for an index outside the tensor.
        """
        return np.asarray(stored[self.places(extents, elements)])

    def places(self, extents: Shape, elements: Mapping[int, Array]) -> tuple[Array, ...]:
        """The indices of all steps along each dimension; raises ShapeError for one outside."""
        found = list(self.index(extents))
        for d, operand in self.looked_up.items():
            found[d] = np.asarray(elements[operand], np.int64)
            outside = (found[d] < 0) | (found[d] >= self.shape[d])
            if outside.any():
                raise ShapeError(
                    f"index {int(found[d][outside][0])} is outside 0..{self.shape[d] - 1}, "
                    f"dimension {d} of {show_shape(self.shape)}"
                )
        return tuple(found)

    def write(self, stored: Array, extents: Shape, values: Array) -> None:
        """Write `values`, which broadcast to `extents`, to the elements of all steps."""
        self.view(stored, extents)[...] = self._own(values)

    def view(self, stored: Array, extents: Shape) -> Array:
        """A view of the elements of all steps, all of which lie inside the tensor."""
        return self._strided(stored, extents, [0] * len(self.shape))

    def _own(self, values: Array) -> Array:
        """The values restricted to the axes that move the index."""
        first = tuple(slice(None) if a in self.axes else slice(1) for a in range(values.ndim))
        return values[first]

    def _strided(self, stored: Array, extents: Shape, before: Sequence[int]) -> Array:
        """A strided view of `stored`, which has `before` elements of border before the tensor's."""
        if not self.shape:
            return stored.reshape([1] * len(extents))
        strides = [0] * len(extents)
        for terms, stride in zip(self.terms, stored.strides, strict=True):
            for axis, step in terms:
                if extents[axis] > 1:  # a lone element's step might overflow an address
                    strides[axis] += step * stride
        shape = [n if axis in self.axes else 1 for axis, n in enumerate(extents)]
        first = [offset + more for offset, more in zip(self.offsets, before, strict=True)]
        origin = stored[tuple(slice(i, i + 1) for i in first)]
        return as_strided(origin, shape, strides)


def elements_of(
    accesses: Sequence[Access], operands: Sequence[Array], extents: Shape
) -> list[Array]:
    """The elements of each operand at all steps; operands that hold indices are read first."""
    pairs = list(zip(accesses, operands, strict=True))
    plain = {i: x.read(a, extents) for i, (x, a) in enumerate(pairs) if not x.read_from}
    return [
        plain[i] if i in plain else x.look_up(a, extents, plain) for i, (x, a) in enumerate(pairs)
    ]


def broadcast(own: Shape, shape: Shape) -> Access:
    """The access of a tensor of shape `own` that broadcasts to `shape` by NumPy's rule."""
    first = len(shape) - len(own)
    terms = tuple(((first + d, 1),) if n == shape[first + d] else () for d, n in enumerate(own))
    return Access(own, terms, (0,) * len(own))


def straight(shape: Shape, axes: tuple[int, ...] | None = None) -> Access:
    """The access of a tensor with one axis per dimension: `axes`, or all in order."""
    named = range(len(shape)) if axes is None else axes
    return Access(shape, tuple(((axis, 1),) for axis in named), (0,) * len(shape))
