"""Service of transfers: one queue for each engine, unless a family has another rule.

In: the requests of a program's transfers, in order. Out: the queue that serves each, its cycles of
service, and cycles of changing over to it. A family with another rule has a subclass in its module
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
    """A transfer as an engine sees it: its direction and the core's memory that it uses."""

    space: str
    direction: Direction


class EngineRule:
    """Each engine serves requests in turn. A rule that `remembers` has `change_cycles` called."""

    remembers: ClassVar[bool] = False

    def queue(self, machine: Machine, space: str, direction: Direction) -> str:
        """The name of the queue for transfers from main memory to `space` (get) or back (put)."""
        return machine.transfer_engine_name(space, direction)

    def service_cycles(
        self, machine: Machine, direction: Direction, shape: TransferShape, *, shared: bool
    ) -> Value:
        """Engine cycles of a transfer of this shape."""
        return transfer_cycles(machine, direction, shape, shared=shared)

    def change_cycles(self, machine: Machine, last: Request | None, request: Request) -> int:
        """Cycles to change a queue over from its `last` request (None: it had none) to another."""
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
