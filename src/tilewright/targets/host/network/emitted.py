"""A network to emit, and text that all of its functions have.

In: a plan, the places of its values, cases for inputs of other shapes. Out: what `emit` and `cases`
write of it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import DType, dtype
from tilewright.graph.graph import Case
from tilewright.network.plan import Plan
from tilewright.targets.host.emit.threads import MEET, TEAM
from tilewright.targets.host.network.places import Places


@dataclass(frozen=True)
class Emitted:
    """A network to emit: its plan, the places of its values, and the stages of each function."""

    name: str
    plan: Plan
    places: Places
    threads: int
    cases: tuple[Case, ...] = ()

    @property
    def functions(self) -> list[list[int]]:
        """The numbers of the stages of each function: one, and what fills around its result."""
        found: list[list[int]] = []
        for number, stage in enumerate(self.plan.stages):
            fills = stage.op.in_memory is not None and not stage.reads
            if fills and found and self.plan.stages[found[-1][0]].writes == stage.writes:
                found[-1].append(number)
            else:
                found.append([number])
        return found

    @property
    def complete(self) -> dict[str, int]:
        """Functions after which each output is there that is no state."""
        held, last = {after for _, after in self.plan.states}, dict[int, int]()
        for number, stages in enumerate(self.functions):
            last |= {self.plan.stages[stage].writes: number + 1 for stage in stages}
        return {name: last.get(v, 0) for name, v, _ in self.plan.outputs if name not in held}

    def functions_for(self, outputs: Collection[str]) -> list[int]:
        """Functions that some outputs need: all that write what these are computed from."""
        functions, stages = self.functions, self.plan.stages
        needed = {v for name, v, _ in self.plan.outputs if name in outputs}
        found: list[int] = []
        for number in reversed(range(len(functions))):
            own = [stages[i] for i in functions[number]]
            if own[0].writes in needed:
                needed |= {v for stage in own for v in stage.reads}
                found.insert(0, number)
        return found

    @property
    def kind(self) -> DType:
        """The type that memory is counted in."""
        return dtype(self.plan.dtype)

    @property
    def has_one_type(self) -> bool:
        """True if inputs and outputs are of that type."""
        plan = self.plan
        given = (*(v for _, v in plan.given), *(v for _, v, _ in plan.outputs))
        return all(plan.values[v].dtype == plan.dtype for v in given)


def type_of(plan: Plan, value: int) -> str:
    return dtype(plan.values[value].dtype).c_name


def start_team(found: Emitted, writer: CWriter) -> None:
    """All threads run the loop that follows."""
    if found.threads > 1:
        writer.line(f"#pragma omp parallel num_threads({found.threads})")


def write_turn(found: Emitted, writer: CWriter, number: str = "i") -> None:
    """The stage of a number, done when all threads are."""
    if found.threads > 1:
        writer.line(f"stages[{number}](&m, {TEAM});")
        writer.line(MEET)
    else:
        writer.line(f"stages[{number}](&m);")
