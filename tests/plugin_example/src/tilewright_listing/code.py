"""The code of a listing: the program's own text."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.codegen.artifact import Artifact
from tilewright.ir.nodes import Program
from tilewright.ir.printer import print_program
from tilewright.machine import Machine


@dataclass(frozen=True)
class ListingCode:
    """Emits the program as it is printed."""

    def emit(self, program: Program, machine: Machine) -> Artifact:
        """One file, `<name>.txt`."""
        text = f"# for {machine.name}\n{print_program(program)}"
        return Artifact(program.name, machine.target, {f"{program.name}.txt": text})


CODE = ListingCode()
