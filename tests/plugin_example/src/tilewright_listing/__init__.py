"""The smallest target: its code is the program's own text."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.nodes import Program
from tilewright.ir.printer import print_program
from tilewright.machine import Machine
from tilewright.targets.base import Artifact


@dataclass(frozen=True)
class ListingTarget:
    """Emits the program as it is printed."""

    name: str = "listing"

    def emit(self, program: Program, machine: Machine) -> Artifact:
        """One file, `<name>.txt`."""
        text = f"# for {machine.name}\n{print_program(program)}"
        return Artifact(program.name, self.name, {f"{program.name}.txt": text})


TARGET = ListingTarget()
