"""How often the matrix products of a nest change their extents: each change is one of the routine.

In: a nest as it is priced, and arrays of tiles. Out: the number of changes of each tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import accumulate
from operator import mul

import numpy as np

from tilewright.common.expr import Value
from tilewright.cost.chain import Prepared
from tilewright.cost.steps import CallStep, first_core
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine


def product_changes(prepared: Prepared, machine: Machine, values: Mapping[str, Value]) -> Value:
    """Calls of products in a run whose extents are not those of the call before, at most: where
    those of some turn of a loop differ, there are two in each turn of the loops around it.
    """
    items, counts = prepared.moments.numbers({**values, **first_core(machine)})
    turns = [*accumulate((np.max(np.atleast_2d(c), axis=0) for c in counts), mul, initial=1)]
    found: Value = 0
    for own, (holds, *extents) in zip(prepared.moments.items, items, strict=True):
        step = own.step
        if isinstance(step, CallStep) and isinstance(step.stmt.primitive, MatrixProduct):
            happens = np.any(np.atleast_2d(holds), axis=0)
            for d in np.flatnonzero(np.greater(own.kinds, 1)).tolist():
                differ = reduce(np.logical_or, (_differ(e, own.kinds, d) for e in extents))
                found = found + 2 * (happens & differ) * turns[d]
    return found


def _differ(extent: Value, kinds: tuple[int, ...], loop: int) -> Value:
    """True for tiles of which an extent is not the same in all turns of a loop."""
    if np.ndim(extent) < 2:
        return False
    rows = extent.reshape(*kinds, -1)
    return (rows != rows.take([0], axis=loop)).reshape(-1, rows.shape[-1]).any(axis=0)
