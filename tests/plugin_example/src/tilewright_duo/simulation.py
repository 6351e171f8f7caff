"""The simulator's rule: both engines go through one port, which takes time to turn."""

from __future__ import annotations

from typing import ClassVar

from tilewright.ir.nodes import Direction
from tilewright.machine import Machine
from tilewright.simulate.kernel.engines import EngineRule, Request
from tilewright_duo.sections import Port


class OnePort(EngineRule):
    """One transfer at a time, whichever engine asks for it."""

    remembers: ClassVar[bool] = True

    def queue(self, machine: Machine, space: str, direction: Direction) -> str:
        """One queue for all memories."""
        return "port"

    def change_cycles(self, machine: Machine, last: Request | None, request: Request) -> int:
        """Nothing where it goes on as before."""
        return 0 if last in (None, request) else machine.section(Port).turn_cycles


SIMULATION = OnePort()
