"""Regions of tensors: a half-open interval along each dimension."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

Interval: TypeAlias = tuple[int, int]
"""First index, and one past the last."""


class Box(NamedTuple):
    """The elements whose index lies in `[start, stop)` along each dimension.

    >>> Box((0, 2), (4, 5)) & Box((1, 0), (9, 3))
    Box(start=(1, 2), stop=(4, 3))
    """

    start: tuple[int, ...]
    stop: tuple[int, ...]

    @classmethod
    def whole(cls, shape: tuple[int, ...]) -> Box:
        """The box of a whole tensor of `shape`."""
        return cls((0,) * len(shape), tuple(shape))

    @classmethod
    def of(cls, *sides: Interval) -> Box:
        """The box of one interval per dimension."""
        return cls(tuple([a for a, _ in sides]), tuple([b for _, b in sides]))

    @property
    def sides(self) -> tuple[Interval, ...]:
        """The interval along each dimension."""
        return tuple(zip(self.start, self.stop, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents along all dimensions; 0 along empty ones."""
        return tuple([b - a if b > a else 0 for a, b in zip(self.start, self.stop, strict=True)])

    @property
    def size(self) -> int:
        """Number of elements."""
        found = 1
        for a, b in zip(self.start, self.stop, strict=True):
            found *= b - a if b > a else 0
        return found

    @property
    def slices(self) -> tuple[slice, ...]:
        """The slices of an array that the box covers."""
        return tuple(slice(a, b) for a, b in self.sides)

    def __and__(self, other: Box) -> Box:
        """The intersection, with extents of 0 where it is empty."""
        start = tuple(map(max, self.start, other.start))
        stop = tuple(map(min, self.stop, other.stop))
        return Box(start, tuple(map(max, start, stop)))

    def covers(self, other: Box) -> bool:
        """True if `other` lies inside this box or is empty."""
        return not other.size or self & other == other

    def along(self, dimension: int, side: Interval) -> Box:
        """The box with the interval along one dimension replaced."""
        sides = list(self.sides)
        sides[dimension] = side
        return Box.of(*sides)

    def within(self, outer: Box) -> Box:
        """This box relative to the start of `outer`."""
        return Box(
            tuple(a - o for a, o in zip(self.start, outer.start, strict=True)),
            tuple(b - o for b, o in zip(self.stop, outer.start, strict=True)),
        )

    def without(self, other: Box) -> Iterator[Box]:
        """Disjoint boxes that cover this box except `other`.

        >>> list(Box.of((0, 4), (0, 4)).without(Box.of((1, 4), (0, 2))))
        [Box(start=(0, 0), stop=(1, 4)), Box(start=(1, 2), stop=(4, 4))]
        """
        common = self & other
        if not common.size:
            yield from (self,) if self.size else ()
            return
        rest = self
        for dimension, (a, b) in enumerate(common.sides):
            first, last = rest.sides[dimension]
            if first < a:
                yield rest.along(dimension, (first, a))
            if b < last:
                yield rest.along(dimension, (b, last))
            rest = rest.along(dimension, (a, b))
