"""How data with segments lies in main memory: in the order in which segments are loaded.

In: four extents and four segment sizes. Out: offsets of segments, and arrays there and back. The
segments follow each other in row-major order, and so do the elements of each; the last segment
along an extent may be smaller, and nothing is padded. So each segment is one transfer (Lan et al.
2019, section 3 and Fig. 9).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Index = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """Four extents, each divided into segments of one size, the last one perhaps smaller."""

    extents: Index
    segments: Index

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.extents)

    @property
    def counts(self) -> Index:
        """Segments along each extent."""
        return tuple(-(-x // s) for x, s in zip(self.extents, self.segments, strict=True))

    def indices(self) -> Iterator[Index]:
        """The segments in the order in which they lie."""
        return product(*map(range, self.counts))

    def shape(self, index: Index) -> Index:
        """The extents of a segment."""
        sizes = zip(self.extents, self.segments, index, strict=True)
        return tuple(min(s, x - i * s) for x, s, i in sizes)

    def offset(self, index: Index) -> int:
        """The first element of a segment.

        Along each extent lies what is before the segment, as thick as the segment is along the
        extents before.
        """
        shape, offset, thickness = self.shape(index), 0, 1
        for axis, (i, s) in enumerate(zip(index, self.segments, strict=True)):
            offset += thickness * i * s * prod(self.extents[axis + 1 :])
            thickness *= shape[axis]
        return offset

    def element(self, place: Index) -> int:
        """Where an element lies."""
        index = tuple(p // s for p, s in zip(place, self.segments, strict=True))
        inside = 0
        for p, s, extent in zip(place, self.segments, self.shape(index), strict=True):
            inside = inside * extent + p % s
        return self.offset(index) + inside

    def arranged(self, array: NDArray[Any]) -> NDArray[Any]:
        """The elements of an array of the extents, as they lie."""
        return np.concatenate([array[self._slices(i)].reshape(-1) for i in self.indices()])

    def restored(self, flat: NDArray[Any]) -> NDArray[Any]:
        """The array of the extents, from its elements as they lie."""
        array = np.empty(self.extents, flat.dtype)
        for index in self.indices():
            shape, first = self.shape(index), self.offset(index)
            array[self._slices(index)] = flat[first : first + prod(shape)].reshape(shape)
        return array

    def _slices(self, index: Index) -> tuple[slice, ...]:
        places = zip(index, self.segments, self.shape(index), strict=True)
        return tuple(slice(i * s, i * s + extent) for i, s, extent in places)
