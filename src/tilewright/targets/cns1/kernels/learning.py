"""Training in fixed point, compiled: the arithmetic of `reference` for a whole network and many
patterns, in sets whose products are summed before weights change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.common.compiled import entry_point, piece

Array = NDArray[Any]


@piece
def _rounded(total: int, shift: int) -> int:
    """total / 2 ** shift, rounded, in 15 bits."""
    return int(min(max((total + (1 << shift >> 1)) >> shift, -16384), 16383))


@piece
def _look_up(found: Array, given: Array, weights: Array, table: Array, shift: int) -> None:
    """Table elements at the shifted sums of each pattern."""
    for p in range(len(given)):
        found[p] = 0
        for i in range(weights.shape[0]):
            for j in range(weights.shape[1]):
                found[p, j] += weights[i, j] * given[p, i]
        for j in range(weights.shape[1]):
            found[p, j] = table[min(max(found[p, j] >> shift, -16384), 16383) + 16384]


@piece
def _propagate(found: Array, errors: Array, weights: Array, hidden: Array, bits: Array) -> None:
    """Errors of the hidden nodes of each pattern."""
    for p in range(len(errors)):
        for j in range(weights.shape[0]):
            total = 0
            for k in range(weights.shape[1]):
                total += weights[j, k] * errors[p, k]
            if bits[6]:
                total = _rounded(total, bits[2])
            total = int(np.int32(int(np.int32(total)) * hidden[p, j]))
            total = int(np.int32(total * (hidden[p, j] - bits[5])))
            found[p, j] = np.int16(_rounded(-total, bits[3]) if bits[6] else total)


@piece
def _update(weights: Array, data: Array, errors: Array, bits: Array) -> None:
    """Weights plus data times errors, summed over the patterns."""
    for i in range(weights.shape[0]):
        for j in range(weights.shape[1]):
            change = 0
            for p in range(len(data)):
                change += data[p, i] * errors[p, j]
            if bits[6]:
                change = _rounded(change, bits[4])
            weights[i, j] = np.int16(weights[i, j] + change)


@entry_point()
def learn(
    a: Array, b: Array, inputs: Array, wanted: Array, order: Array, table: Array, bits: Array
) -> None:
    """Change both matrices of i16 by one set of patterns after the other, in the `order` [sets,
    patterns]; all other numbers are i64. `bits` are the shift of sums, the rate, the shifts of step
    7 (before and behind) and of updates, the 1 of activations, and 0 to leave out the last three
    shifts.
    """
    size = order.shape[1]
    hidden, outputs = np.zeros((size, a.shape[1]), np.int64), np.zeros((size, b.shape[1]), np.int64)
    errors, states = np.zeros_like(hidden), np.zeros_like(outputs)
    for patterns in order:
        given = inputs[patterns]
        _look_up(hidden, given, a, table, bits[0])
        _look_up(states, hidden, b, table, bits[0])
        outputs[:] = bits[1] * (wanted[patterns] - states)
        _propagate(errors, outputs, b, hidden, bits)
        _update(b, hidden, outputs, bits)
        _update(a, given, errors, bits)
