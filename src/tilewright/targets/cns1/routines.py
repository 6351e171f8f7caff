"""What a program is priced at, and what its text takes on the simulated node."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.codegen.artifact import RoutineCycles
from tilewright.ir.nodes import Program
from tilewright.machine import Machine
from tilewright.simulate.kernel.level import simulate
from tilewright.targets.cns1.code import CODE, run_artifact


@dataclass(frozen=True)
class Cns1Routines:
    """What `tilewright explain` says of the code that a kernel's time comes from."""

    def routines(
        self, program: Program, machine: Machine, *, simulated: bool
    ) -> tuple[RoutineCycles, ...]:
        """The whole source: calls are written where they stand."""
        artifact = CODE.emit(program, machine)
        priced = simulate(program, machine).cycles
        exact = run_artifact(artifact, machine).cycles if simulated else None
        return (RoutineCycles(f"{artifact.name}.s", "the whole source", priced, exact),)


ROUTINES = Cns1Routines()
