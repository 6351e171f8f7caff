"""The simulator's rule for transfers: a node's processor makes them itself."""

from __future__ import annotations

from tilewright.common.expr import Value
from tilewright.cost.timing import TransferShape
from tilewright.ir.nodes import Direction
from tilewright.machine import Machine
from tilewright.simulate.kernel.engines import EngineRule
from tilewright.targets.cns1.prices import matrix_copy_cycles


class OwnCopies(EngineRule):
    """A transfer takes the cycles of its text."""

    def service_cycles(
        self, machine: Machine, direction: Direction, shape: TransferShape, *, shared: bool
    ) -> Value:
        return matrix_copy_cycles(machine, shape)


SIMULATION = OwnCopies()
