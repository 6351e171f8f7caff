"""Service of transfers: one queue for each engine, unless a family has another rule.

In: the requests of a program's transfers, in order. Out: the queue that serves each, and the cycles
that it takes beyond its own. A family with a rule of its own brings a subclass in its module
`simulation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.common.expr import Value
from tilewright.cost.timing import TransferShape, transfer_cycles
from tilewright.ir.nodes import Direction
from tilewright.machine import Capability, Machine


@dataclass(frozen=True)
class Request:
    """A transfer as an engine sees it: which way it goes, to or from which of a core's memories."""

    space: str
    direction: Direction


class EngineRule:
    """Each engine serves requests in turn. A rule that `remembers` is told a queue's last one."""

    remembers: ClassVar[bool] = False

    def queue(self, machine: Machine, space: str, direction: Direction) -> str:
        """The name of the queue for transfers from main memory to `space` (get) or back (put)."""
        return machine.transfer_engine_name(space, direction)

    def service_cycles(
        self, machine: Machine, direction: Direction, shape: TransferShape, *, shared: bool
    ) -> Value:
        """Cycles that a transfer of this shape is served."""
        return transfer_cycles(machine, direction, shape, shared=shared)

    def change_cycles(self, machine: Machine, last: Request | None, request: Request) -> int:
        """Cycles that the queue of a rule that remembers takes to change over from its last
        request; None: it had none."""
        return 0


SIMULATION: Capability[EngineRule] = Capability(
    "simulation",
    ("queue", "service_cycles", "change_cycles", "remembers"),
    "simulator rule of its own",
)
_OWN_QUEUES = EngineRule()


def engine_rule_of(machine: Machine) -> EngineRule:
    """The engine rule of the machine's family, or a queue for each engine."""
    return SIMULATION.of(machine) or _OWN_QUEUES
