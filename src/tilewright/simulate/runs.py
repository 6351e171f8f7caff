"""Results of the instruction-level simulator: cycles by cause, final state, trace.

For every core, issuing cycles + stalls by cause = its cycles, and with its idle cycles they are the
cycles of the mesh.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.isa import Instruction
from tilewright.simulate.program import AssembledProgram
from tilewright.simulate.units import layout


@dataclass(frozen=True)
class IssuedInstruction:
    """One issued instruction: its cycle, its unit, and its number in the program."""

    cycle: int
    unit: str
    instruction: int


@dataclass(frozen=True)
class StallSpan:
    """Consecutive cycles without issue, for one cause; `register` is a name or ""."""

    first_cycle: int
    cycles: int
    cause: str
    register: str
    instruction: int


@dataclass(frozen=True, eq=False)
class CoreRun:
    """One core's run.

    `cycles` ends with the cycle of the last issue; `drain_cycles` more pass until its results are
    visible. `stalls` maps each cause that occurred to cycles, `hazards` each register waited for.
    `unit_busy` counts occupied cycles. `registers` is [register, lane]; `local_memory` holds the
    bytes of all local memories. `executed` and `stalled` count issues and stall cycles per
    instruction, over all cores that run the same program. `issues` and `spans` are empty unless the
    core was traced; `trace_complete` is False if the trace reached its limit.
    """

    core: int
    program: AssembledProgram
    cycles: int
    issue_cycles: int
    idle_cycles: int
    drain_cycles: int
    instructions: int
    stalls: dict[str, int]
    hazards: dict[str, int]
    unit_busy: dict[str, int]
    registers: NDArray[np.float64]
    local_memory: NDArray[np.uint8]
    executed: NDArray[np.int64]
    stalled: NDArray[np.int64]
    instruction_cache_misses: int
    issues: tuple[IssuedInstruction, ...]
    spans: tuple[StallSpan, ...]
    trace_complete: bool

    @cached_property
    def integer_registers(self) -> NDArray[np.int64]:
        """The registers' bits as integers, [register, lane]."""
        return self.registers.view(np.int64)

    def memory(self, name: str = "") -> NDArray[np.uint8]:
        """The bytes of one of the core's local memories; "" is the first."""
        table = self.program.table
        memory = table.memory(name)
        origin = table.memory_origins.get(memory.name, 0)
        return self.local_memory[origin : origin + memory.capacity_bytes]

    def instruction(self, number: int) -> Instruction:
        """An instruction of the program by its number."""
        return self.program.instructions[number]


@dataclass(frozen=True, eq=False)
class MeshRun:
    """The runs of all cores; `cycles` ends with the last issue of any core."""

    cycles: int
    instructions: int
    cores: tuple[CoreRun, ...]

    def stalls(self) -> dict[str, int]:
        """Stall cycles by cause, summed over the cores."""
        total: dict[str, int] = {}
        for core in self.cores:
            for cause, cycles in core.stalls.items():
                total[cause] = total.get(cause, 0) + cycles
        return total

    def local_memory(self) -> NDArray[np.uint8]:
        """The cores' local memories, [core, byte]."""
        return np.stack([core.local_memory for core in self.cores])


def collect(
    state: layout.Arrays, programs: Sequence[AssembledProgram], bases: Sequence[int]
) -> MeshRun:
    """The run's results, core by core; `programs` and `bases` (first code row) are per core."""
    total = int(state.cores["finish"].max(initial=0))
    cores = tuple(_core(state, c, programs[c], bases[c], total) for c in range(len(programs)))
    return MeshRun(total, sum(core.instructions for core in cores), cores)


def _core(
    state: layout.Arrays, c: int, program: AssembledProgram, base: int, total: int
) -> CoreRun:
    record = state.cores[c]
    names = program.table.register_names
    count = len(names)
    code = state.code[base : base + len(program.instructions)]
    issues, spans, complete = _traces(state, c, program, base)
    cycles = int(record["finish"])
    memory = record["memory"].view(np.uint8)[: program.table.local_memory_bytes]
    return CoreRun(
        core=c,
        program=program,
        cycles=cycles,
        issue_cycles=int(record["issue_cycles"]),
        idle_cycles=total - cycles,
        drain_cycles=max(int(record["ready"][:count].max()) - cycles, 0),
        instructions=int(record["issued"]),
        stalls=_nonzero(layout.CAUSES, record["stalls"]),
        hazards=_nonzero(names, record["hazards"]),
        unit_busy=dict(zip(program.table.units, record["busy"].tolist(), strict=False)),
        registers=record["registers"][:count].copy(),
        local_memory=memory,
        executed=code["executed"].copy(),
        stalled=code["stalled"].copy(),
        instruction_cache_misses=int(record["misses"]),
        issues=issues,
        spans=spans,
        trace_complete=complete,
    )


def _nonzero(names: Sequence[str], values: layout.Int64) -> dict[str, int]:
    return {name: int(value) for name, value in zip(names, values, strict=False) if value}


def _traces(
    state: layout.Arrays, c: int, program: AssembledProgram, base: int
) -> tuple[tuple[IssuedInstruction, ...], tuple[StallSpan, ...], bool]:
    if not state.cores["traced"][c]:
        return (), (), True
    machine = state.machine[0]
    limit, units, names = machine["trace_limit"], program.table.units, program.table.register_names
    trace, spans = state.trace[: machine["trace_count"]], state.spans[: machine["span_count"]]
    issues = tuple(
        IssuedInstruction(t, units[unit], i - base)
        for t, _, unit, i in trace[trace["core"] == c].tolist()
    )
    stalls = tuple(
        StallSpan(t, n, layout.CAUSES[cause], names[r] if 0 <= r < len(names) else "", i - base)
        for t, _, n, cause, r, i in spans[spans["core"] == c].tolist()
    )
    return issues, stalls, bool(len(trace) < limit and len(spans) < limit)
