"""Reference semantics of the kernels: exact integers that wrap to the width of their result.

Sums have four bytes and wrap; weights and errors have two, activations one (ICSI TR-93-046, 3.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.targets.cns1.kernels import arguments

Array = NDArray[Any]
_ROWS_AT_ONCE = 256
"""Rows of weights converted to doubles at a time, to bound the memory they take."""


def forward(weights: Array, inputs: Array, table: Array, shift: int) -> Array:
    """The table of 2^15 elements at the shifted sums, clipped to 15 bit: [patterns, columns] i8.

    Raises ShapeError for another table or shift (`arguments`).
    """
    table = arguments.sigmoid(table, shift)
    sums = _sums(inputs, weights) >> shift
    middle = len(table) // 2
    found: Array = table[np.clip(sums, -(1 << 14), (1 << 14) - 1) + middle]
    return found


def _sums(inputs: Array, weights: Array) -> Array:
    """inputs x weights. Doubles hold the sums of up to 2^22 products of halves exactly."""
    found = np.zeros((len(inputs), weights.shape[1]))
    for first in range(0, len(weights), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        found += inputs[:, part].astype(np.float64) @ weights[part].astype(np.float64)
    return found.astype(np.int64).astype(np.int32)


def errors(results: Array, outputs: Array, factor: int) -> Array:
    """factor * (results - outputs): [columns] i16."""
    return (factor * (results.astype(np.int64) - outputs)).astype(np.int16)


def backward(weights: Array, error: Array, hidden: Array) -> Array:
    """hidden * (hidden - 1) * (weights x error): [rows] i16."""
    sums = (weights.astype(np.int64) @ error.astype(np.int64)).astype(np.int32)
    scaled = (sums.astype(np.int64) * hidden).astype(np.int32)
    return (scaled.astype(np.int64) * (hidden.astype(np.int64) - 1)).astype(np.int16)


def update(weights: Array, error: Array, data: Array) -> Array:
    """weights + data x error^T: [rows, columns] i16."""
    change = np.outer(data.astype(np.int64), error.astype(np.int64))
    return (weights.astype(np.int64) + change).astype(np.int16)
