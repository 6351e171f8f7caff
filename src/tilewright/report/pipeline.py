"""Activity of one core's pipeline: cycles per iteration, stalls by cause, pressure per unit.

In: a traced `CoreRun`. Out: a `PipelineReport`, which is the `--json` contract of the pipeline
command; the texts are in `pipeline_text`, the trace events in `pipeline_perfetto`.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType
from numpy.typing import NDArray

from tilewright.simulate.program import Program
from tilewright.simulate.runs import CoreRun


class PipelineReport(Struct, frozen=True):
    """A simulated pipeline run in numbers.

    `instructions` is the length of the loop's body (of the program, without a loop), `iterations`
    how often its last instruction ran. `cycles_per_iteration` is that of the steady state. `stalls`
    are cycles of the whole run without issue, `units` busy cycles over total cycles.
    `proven_minimum` is a lower bound for the cycles per iteration, if somebody proved one. Where
    the run failed, `failure` says why, and all but the loop's body and its bound are nothing.
    """

    machine: str
    instructions: int
    iterations: int
    cycles_per_iteration: float
    total_cycles: int
    stalls: dict[str, int]
    units: dict[str, float]
    proven_minimum: int | None = None
    failure: str | UnsetType = UNSET

    def json(self) -> str:
        """The report as JSON text."""
        return msgspec.json.encode(self).decode()


@dataclass(frozen=True)
class Loop:
    """The innermost loop that ran most often: instructions `first` .. `last` (the branch).

    `iteration_cycles` are the distances between successive branches in the longest stretch
    that did not leave the loop.
    """

    first: int
    last: int
    iterations: int
    iteration_cycles: tuple[int, ...]

    @property
    def steady_cycles(self) -> float:
        """Cycles per iteration of the pattern that the last iterations repeat, else the mean."""
        cycles = self.iteration_cycles
        for period in range(1, len(cycles) // 2 + 1):
            if cycles[-period:] == cycles[-2 * period : -period]:
                return sum(cycles[-period:]) / period
        return sum(cycles) / len(cycles)


def pipeline_report(run: CoreRun, proven_minimum: int | None = None) -> PipelineReport:
    """The numbers of a run; without a trace or a loop the whole program is one iteration."""
    loop = hottest_loop(run)
    total = max(run.cycles, 1)
    return PipelineReport(
        machine=run.program.table.name,
        instructions=loop.last - loop.first + 1 if loop else len(run.program.instructions),
        iterations=loop.iterations if loop else 1,
        cycles_per_iteration=loop.steady_cycles if loop else float(run.cycles),
        total_cycles=run.cycles,
        stalls=dict(run.stalls),
        units={unit: busy / total for unit, busy in run.unit_busy.items()},
        proven_minimum=proven_minimum,
    )


def hottest_loop(run: CoreRun) -> Loop | None:
    """The loop whose backward branch issued most often; None when none repeats in the trace."""
    numbers = np.array([issue.instruction for issue in run.issues], np.int64)
    cycles = np.array([issue.cycle for issue in run.issues], np.int64)
    found = [
        loop
        for last, first in _backward_branches(run.program)
        if (loop := _loop(numbers, cycles, first, last)) is not None
    ]
    return max(found, key=lambda loop: (loop.iterations, loop.first - loop.last), default=None)


def longest_loop(program: Program) -> tuple[int, int] | None:
    """(first instruction, branch) of the longest loop without another one in it, as the program is
    written; None where nothing branches back.
    """
    found = [(first, last) for last, first in _backward_branches(program)]
    inner = [
        loop
        for loop in found
        if not any(o != loop and loop[0] <= o[0] and o[1] <= loop[1] for o in found)
    ]
    return max(inner, key=lambda loop: loop[1] - loop[0], default=None)


def _backward_branches(program: Program) -> list[tuple[int, int]]:
    """(branch, its target) of every branch that goes back, as instruction numbers."""
    labels, pairs = program.labels, []
    for number, instruction in enumerate(program.instructions):
        target = instruction.target
        if target is None:
            continue
        place = number + 1 + target if isinstance(target, int) else labels.get(target.name)
        if place is not None and place <= number:
            pairs.append((number, place))
    return pairs


def _loop(
    numbers: NDArray[np.int64], cycles: NDArray[np.int64], first: int, last: int
) -> Loop | None:
    """The loop of one branch, if two of its iterations follow each other."""
    ends = np.flatnonzero(numbers == last)
    if len(ends) < 2:
        return None
    left = np.cumsum((numbers < first) | (numbers > last))
    inside = left[ends[1:]] == left[ends[:-1]]
    distances = np.diff(cycles[ends])
    stretches = np.split(np.arange(len(inside)), np.flatnonzero(~inside) + 1)
    longest = max((s[inside[s]] for s in stretches), key=len)
    if len(longest) == 0:
        return None
    return Loop(first, last, len(ends), tuple(distances[longest].tolist()))
