"""Check the kernels' arguments: integers of a type, matching shapes, numbers in range."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import ShapeError

Array = NDArray[Any]
TABLE_BYTES = 1 << 15
"""Bytes of the sigmoid table: `addap0` clips sums to as many places."""
_MOST_SHIFT = 31
_MOST_PATTERNS = 2


def integers(name: str, given: Array, kind: str, *shape: int) -> Array:
    """The array in `kind`, such as `<i2`. Raises ShapeError for another shape, for anything but
    integers, and for numbers that `kind` cannot hold.
    """
    if given.shape != shape:
        raise ShapeError(
            f"{name}: expected {_sizes(shape)} elements, found {_sizes(given.shape)}",
            fix="give arrays whose extents go together",
        )
    if not np.issubdtype(given.dtype, np.integer):
        raise ShapeError(f"{name}: expected integers, found {given.dtype}", fix="round them first")
    limits, low, high = np.iinfo(kind), int(given.min()), int(given.max())
    for number in (low, high):
        if not limits.min <= number <= limits.max:
            raise ShapeError(
                f"{name}: {number} does not fit {limits.bits} bits, {limits.min} to {limits.max}",
                fix="scale or clip them first",
            )
    return given.astype(kind)


def matrix(weights: Array) -> Array:
    """Weights of two bytes. Raises ShapeError for anything but such a matrix."""
    if weights.ndim != 2 or not weights.size:
        raise ShapeError(
            f"weights: expected rows and columns, found {_sizes(weights.shape)} elements"
        )
    return integers("weights", weights, "<i2", *weights.shape)


def patterns(inputs: Array, rows: int) -> Array:
    """One or two vectors of bytes. Raises ShapeError for others."""
    if inputs.ndim != 2 or not 1 <= len(inputs) <= _MOST_PATTERNS:
        raise ShapeError(
            f"inputs: expected one or two patterns of {rows}, found "
            f"{_sizes(inputs.shape)} elements",
            fix="pass the patterns in pairs",
        )
    return integers("inputs", inputs, "i1", len(inputs), rows)


def sigmoid(table: Array, shift: int) -> Array:
    """The table of bytes. Raises ShapeError for one of another size, or a shift out of range."""
    if not 0 <= shift <= _MOST_SHIFT:
        raise ShapeError(f"shift: expected 0 to {_MOST_SHIFT}, found {shift}")
    if table.shape != (TABLE_BYTES,):
        raise ShapeError(
            f"table: expected {TABLE_BYTES} elements, to which a Torrent clips sums, found "
            f"{_sizes(table.shape)}",
            fix="repeat the elements at the ends",
        )
    return integers("table", table, "i1", TABLE_BYTES)


def vector(name: str, given: Array, kind: str) -> Array:
    """A vector of at least one element. Raises ShapeError for others."""
    if given.ndim != 1 or not given.size:
        raise ShapeError(f"{name}: expected a vector, found {_sizes(given.shape)} elements")
    return integers(name, given, kind, len(given))


def word(name: str, number: int) -> int:
    """A number of 32 bits. Raises ShapeError for a larger one."""
    if not -(1 << 31) <= number < 1 << 31:
        raise ShapeError(f"{name}: {number} does not fit a register of 32 bits")
    return number


def _sizes(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "single"
