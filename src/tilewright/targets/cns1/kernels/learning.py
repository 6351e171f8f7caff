"""Training in fixed point, pattern by pattern, compiled: the arithmetic of `reference` for a whole
network and many patterns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.common.compiled import entry_point

Array = NDArray[Any]


@entry_point()
def learn(
    a: Array, b: Array, inputs: Array, wanted: Array, order: Array, table: Array, bits: Array
) -> None:
    """Change both matrices by one pattern after the other. `bits`: shift of sums, rate, shifts of
    step 7 (before and behind) and of updates, the 1 of activations, 0 for none of these shifts.
    """
    hidden, outputs = np.zeros(a.shape[1], np.int64), np.zeros(b.shape[1], np.int64)
    scaled = bits[6] != 0
    for n in order:
        for j in range(len(hidden)):
            total = 0
            for i in range(a.shape[0]):
                total += a[i, j] * inputs[n, i]
            hidden[j] = table[min(max(total >> bits[0], -16384), 16383) + 16384]
        for k in range(len(outputs)):
            total = 0
            for j in range(len(hidden)):
                total += b[j, k] * hidden[j]
            state = table[min(max(total >> bits[0], -16384), 16383) + 16384]
            outputs[k] = np.int16(bits[1] * (wanted[n, k] - state))
        for j in range(len(hidden)):
            total = 0
            for k in range(len(outputs)):
                total += b[j, k] * outputs[k]
            if scaled:
                total = min(max((total + (1 << bits[2] >> 1)) >> bits[2], -16384), 16383)
            total = int(np.int32(int(np.int32(total)) * hidden[j]))
            total = int(np.int32(total * (hidden[j] - bits[5])))
            if scaled:
                total = min(max((-total + (1 << bits[3] >> 1)) >> bits[3], -16384), 16383)
            error = np.int64(np.int16(total))
            for k in range(len(outputs)):
                change = hidden[j] * outputs[k]
                if scaled:
                    change = min(max((change + (1 << bits[4] >> 1)) >> bits[4], -16384), 16383)
                b[j, k] = np.int16(b[j, k] + change)
            for i in range(a.shape[0]):
                change = inputs[n, i] * error
                if scaled:
                    change = min(max((change + (1 << bits[4] >> 1)) >> bits[4], -16384), 16383)
                a[i, j] = np.int16(a[i, j] + change)
