"""Priced cycles of a program, and the cycles that its text takes on the simulated node."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.codegen.artifact import Artifact, RoutineCycles
from tilewright.ir.nodes import Program
from tilewright.machine import Machine
from tilewright.simulate.kernel.level import simulate
from tilewright.targets.cns1.code import CODE, run_artifact
from tilewright.targets.cns1.node import assembled, node_table
from tilewright.targets.cns1.sections import NodeCaches


@dataclass(frozen=True)
class Cns1Routines:
    """The code that a kernel's time comes from, for `tilewright explain`."""

    def routines(
        self, program: Program, machine: Machine, *, simulated: bool
    ) -> tuple[RoutineCycles, ...]:
        """The whole source, since calls are written inline; and the source after codes that run
        between its parts have taken a line of each set of the instruction cache (4.2.5).
        """
        artifact = CODE.emit(program, machine)
        priced = simulate(program, machine).cycles
        fetched = priced + fetch_cycles(artifact, machine)
        exact = cold = None
        if simulated:
            exact = run_artifact(artifact, machine).cycles
            cold = run_artifact(artifact, machine, interleaved=True).cycles
        name = f"{artifact.name}.s"
        return (
            RoutineCycles(name, "the whole source", priced, exact),
            RoutineCycles(name, "after interleaved codes", fetched, cold),
        )


def fetch_cycles(artifact: Artifact, machine: Machine) -> int:
    """Cycles to fetch the lines again that codes in between have evicted: all lines of a set with
    too few ways left, since each line replaces the one needed next.
    """
    caches, (text,) = machine.section(NodeCaches), artifact.files.values()
    table = node_table(machine)
    assert table.instruction_cache is not None
    sets, ways = table.instruction_cache.sets, table.instruction_cache.ways
    program = assembled(text, table)
    size = len(program.instructions) * table.word_bits // 8
    lines = -(-size // caches.instruction_line_bytes)
    each, more = divmod(lines, sets)
    fetched = more * (each + 1) * (each + 1 >= ways) + (sets - more) * each * (each >= ways)
    return fetched * caches.instruction_miss_cycles


ROUTINES = Cns1Routines()
