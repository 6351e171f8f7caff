"""Matrices in the layouts that host micro-kernels read, between canaries."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
GUARD, LINE_BYTES = 64, 64
CANARY = -77777.0


def pointer(x: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.ctypes.data)


@dataclass(frozen=True)
class Stored:
    """A matrix in memory: the element (i, j) is at `places[i, j]` of `memory`, from `start` on."""

    memory: Array
    places: NDArray[np.int64]
    leading: int

    @property
    def start(self) -> ctypes.c_void_p:
        return pointer(self.memory[GUARD:])

    def value(self) -> Array:
        return self.memory[GUARD:][self.places]

    def surroundings(self) -> Array:
        """Everything that is not an element of the matrix."""
        rest = np.ones(self.memory.shape, bool)
        rest[GUARD + self.places] = False
        return self.memory[rest]


def stored(
    matrix: Array,
    layout: str,
    gap: int = 0,
    panel: int = 0,
    fill: float = np.nan,
    runs: tuple[int, int] = (1, 0),
    shift: int = 0,
) -> Stored:
    """`matrix` by rows, by columns, or in panels of `panel` rows (k, the columns, outside).

    The leading dimension is `gap` more than needed. Between and around the elements stands `fill`,
    but what a panel holds beyond the matrix is zero. Rows come in `runs`: so many, then so many
    elements more. It begins `shift` elements behind a line of a cache.
    """
    rows, columns = matrix.shape
    i, j = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    match layout:
        case "row":
            leading = columns + gap
            places = i * leading + j + i // runs[0] * runs[1]
        case "column":
            leading = rows + gap
            places = i + j * leading
        case _:
            leading = panel * columns + gap
            places = i // panel * leading + j * panel + i % panel
    end = int(places.max(initial=-1)) + 1
    if layout == "panels":
        end = -(-rows // panel) * leading
    memory = _at_a_line(end + 2 * GUARD + shift, matrix.dtype)[shift:]
    memory[:] = fill
    if layout == "panels":
        for p in range(-(-rows // panel)):
            memory[GUARD + p * leading :][: panel * columns] = 0
    memory[GUARD + places] = matrix
    return Stored(memory, places.astype(np.int64), leading)


def _at_a_line(elements: int, kind: Any) -> Array:
    """Memory that begins at a line of a cache, and so does what stands `GUARD` elements into it."""
    size = np.dtype(kind).itemsize
    room = np.empty(elements * size + LINE_BYTES, np.uint8)
    start = -room.ctypes.data % LINE_BYTES
    return room[start : start + elements * size].view(kind)


def packed(matrix: Array, panel: int) -> Array:
    """`matrix` (rows along the panels) packed into panels, flat."""
    rows, columns = matrix.shape
    padded = np.zeros((-(-rows // panel) * panel, columns), matrix.dtype)
    padded[:rows] = matrix
    return np.ascontiguousarray(
        padded.reshape(len(padded) // panel, panel, columns).transpose(0, 2, 1)
    ).ravel()
