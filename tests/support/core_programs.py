"""Whole networks on cores whose programs are compared with the reference, task by task."""

from __future__ import annotations

import numpy as np
from msgspec import structs

from support.partitions import numbers
from tilewright.graph import Network
from tilewright.machine import Machine
from tilewright.ops import LocalResponseNorm, Softmax
from tilewright.partition.divided import execute
from tilewright.partition.layers import layers_of
from tilewright.partition.parts import Operands, Task, by_reference
from tilewright.partition.plan import space
from tilewright.targets.bwdsp.division import CorePrograms

_LARGEST = 4
"""Whole numbers up to this, so that all sums are exact in single precision."""
_ROUNDS = (LocalResponseNorm, Softmax)
"""Operators that take sums of what is no whole number."""


def doubles(core: Machine) -> Machine:
    """The core with its arithmetic in doubles."""
    arithmetic = {"f64": core.core.arithmetic["f32"]}
    return structs.replace(core, core=structs.replace(core.core, arithmetic=arithmetic))


def check_parts(network: Network, cores: int, programs: CorePrograms) -> int:
    """Each different task, on small whole numbers near what it reads: exact, unless an operator
    adds up what was rounded. What follows reads what the reference makes. Returns their number.
    """
    plan = space(layers_of(network), cores).best()
    seen = set[Task]()

    def both(task: Task, operands: Operands) -> np.ndarray:
        if task not in seen:
            seen.add(task)
            small = [np.clip(np.rint(array), -_LARGEST, _LARGEST) for array in operands[0]]
            given = [small, *operands[1:]]
            found, expected = programs.compute(task, given), by_reference(task, given)
            if any(isinstance(op, _ROUNDS) for op in task.ops):
                np.testing.assert_allclose(found, expected, rtol=1e-6)
            else:
                np.testing.assert_array_equal(found, expected)
        return by_reference(task, operands)

    execute(network, plan, numbers(network, 2), both)
    return len(seen)
