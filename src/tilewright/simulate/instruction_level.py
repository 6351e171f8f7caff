"""The instruction-level simulator: what each core computes and when, cycle by cycle.

In: programs (one for all cores or one each), a mesh, local memory images and initial registers.
Out: a `CoreRun` or `MeshRun`: cycles, every cycle without issue charged to one cause, final
memories and registers, and the issue trace of chosen cores. Pipeline: swDNN VI-A; mesh: swDNN V-A.
Every number comes from the instruction table. Main memory and DMA are not part of this level.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tilewright.common.deferred import Deferred
from tilewright.common.errors import MachineError, SimulationError
from tilewright.common.limits import MOST_CORE_CYCLES
from tilewright.simulate.launch import (
    Images,
    InitialCore,
    Registers,
    SimulatedMesh,
    UnitOrder,
    launch,
    per_core,
)
from tilewright.simulate.program import AssembledProgram
from tilewright.simulate.runs import CoreRun, MeshRun, collect
from tilewright.simulate.units import layout
from tilewright.simulate.units.layout import Arrays

if TYPE_CHECKING:
    from tilewright.simulate.units import mesh as compiled
else:  # heavy: Numba
    compiled = Deferred("tilewright.simulate.units.mesh")

# Failed runs: faults, deadlocks and the cycle limit, each as one `SimulationError`.
#
# A deadlock carries a `DeadlockReport`: which core waits for which, and the bus counters of each.


@dataclass(frozen=True)
class BlockedCore:
    """A waiting core: the cause, the instruction, and the core that it waits for (None: no core can
    unblock it).

    Counters are (row bus, column bus): its puts, its gets, and the entries in its own buffers.
    """

    core: int
    row: int
    column: int
    cause: str
    instruction: int
    line: int
    text: str
    waits_for: int | None
    puts: tuple[int, int]
    gets: tuple[int, int]
    waiting_entries: tuple[int, int]


@dataclass(frozen=True)
class DeadlockReport:
    """All blocked cores, and the cores of one wait-for cycle or chain in order.

    `cycle` is closed (the last core waits for the first) unless `ends_at_finished` names a finished
    core that the last one waits for. `messages` lists the kind, source and target of each message
    that has not been received.
    """

    at_cycle: int
    blocked: tuple[BlockedCore, ...]
    cycle: tuple[int, ...]
    ends_at_finished: int | None
    messages: tuple[tuple[int, int, int], ...] = ()

    def text(self) -> str:
        """The report: one line per blocked core of the cycle, then the messages not received."""
        by_core = {entry.core: entry for entry in self.blocked}
        lines = [_blocked_line(by_core[core]) for core in self.cycle]
        if self.ends_at_finished is not None:
            lines.append(f"core {self.ends_at_finished} has finished")
        others = len(self.blocked) - len(self.cycle)
        if others:
            lines.append(f"{others} more cores wait")
        return "\n  ".join([*lines, *self._not_received()])

    def _not_received(self) -> Iterator[str]:
        if not self.messages and all(
            entry.cause != _WAITING[layout.AWAIT] for entry in self.blocked
        ):
            return
        shown = [f"of kind {k} from core {a} at core {b}" for k, a, b in self.messages[:_SHOWN]]
        left = len(self.messages) - len(shown)
        more = [f"{left} more"] if left else []
        yield f"messages under way or not received: {', '.join([*shown, *more]) or 'none'}"


_SHOWN = 8
"""Most messages that a report lists; it counts the others."""


class DeadlockError(SimulationError):
    """Cores wait for each other for ever; `report` has the wait-for cycle and the counters."""

    code = "deadlock"

    def __init__(self, report: DeadlockReport) -> None:
        message = f"deadlock in cycle {report.at_cycle}:\n  {report.text()}"
        super().__init__(message)
        self.report = report


_WAITING = {
    layout.GET_ROW: "gets from the row bus",
    layout.GET_COLUMN: "gets from the column bus",
    layout.PUT_ROW: "puts to the row bus",
    layout.PUT_COLUMN: "puts to the column bus",
    layout.SYNC: "synchronises",
    layout.AWAIT: "waits for a message",
}


def _blocked_line(entry: BlockedCore) -> str:
    nobody = entry.waits_for is None
    waits = ", and no other core is there" if nobody else f", waits for core {entry.waits_for}"
    where = (
        f"core {entry.core} (row {entry.row}, column {entry.column}) {entry.cause} "
        f"at '{entry.text}'{_place(entry.instruction, entry.line)}{waits}"
    )
    if entry.cause == _WAITING[layout.AWAIT]:
        return where
    return (
        f"{where}; row bus: "
        f"{entry.puts[0]} puts, {entry.gets[0]} gets, {entry.waiting_entries[0]} waiting; "
        f"column bus: {entry.puts[1]} puts, {entry.gets[1]} gets, "
        f"{entry.waiting_entries[1]} waiting"
    )


def _place(instruction: int, line: int) -> str:
    return f" (instruction {instruction}, line {line})" if line else f" (instruction {instruction})"


def raise_if_stopped(
    state: layout.Arrays, programs: Sequence[AssembledProgram], bases: Sequence[int]
) -> None:
    """Raise the error that ended the run early, if any."""
    status, machine = state.cores["status"], state.machine[0]
    for c in range(len(programs)):
        if status[c] == layout.FAULTED:
            raise _fault(state, c, programs[c], bases[c])
    if (status == layout.DONE).all():
        return
    if machine["next"] == layout.NEVER:
        raise DeadlockError(deadlock_report(state, programs, bases))
    running = int((status == layout.RUNNING).sum())
    limit = int(machine["max_cycles"])
    raise SimulationError(
        f"{running} of {len(programs)} cores still run after {limit} cycles",
        fix="raise max_cycles (--max-cycles), or look for a loop that never ends",
    )


def _fault(state: layout.Arrays, c: int, program: AssembledProgram, base: int) -> SimulationError:
    record = state.cores[c]
    number = int(record["fault_instruction"]) - base
    instruction = program.instructions[number]
    address, table = int(record["fault_address"]), program.table
    size = table.access_bytes(instruction.spec)
    match int(record["fault"]):
        case layout.MISALIGNED:
            alignment = table.alignment_bytes(instruction.spec)
            what = f"address {address} is not aligned to {alignment} bytes"
        case layout.OUT_OF_RANGE:
            memory = table.memory_of(instruction.spec)
            where = f"the {memory.capacity_bytes}-byte {table.memory_title(memory)}"
            what = f"{size} bytes at address {address} lie outside {where}"
        case layout.BAD_TARGET:
            what = f"branch to address {address} outside the program"
        case layout.NO_NODE:
            what = _no_node(state, c)
        case layout.NO_MULTICAST:
            what = "the fabric has no multicast"
        case layout.NO_ROOM:
            what = f"{address} messages are on their way or not received: there is no room for more"
        case _:
            what = f"no other core at place {address} of the bus"
    where = f"core {c}{_place(number, instruction.line)}"
    return SimulationError(f"{instruction.text()}: {what}", where=where)


def _no_node(state: layout.Arrays, c: int) -> str:
    record, columns = state.cores[c], int(state.machine["columns"][0])
    row = state.code[int(record["fault_instruction"])]
    along, across = (int(record["registers_integer"][row[role], 0]) for role in "bc")
    return (
        f"a message from node {c} over {across} columns and {along} rows would leave the fabric of "
        f"{len(state.cores) // columns} rows and {columns} columns, or stay where it is"
    )


def deadlock_report(
    state: layout.Arrays, programs: Sequence[AssembledProgram], bases: Sequence[int]
) -> DeadlockReport:
    """Report which core waits for which, once no core can continue."""
    blocked = tuple(
        _blocked(state, c, programs[c], bases[c])
        for c in range(len(programs))
        if state.cores["status"][c] == layout.RUNNING
    )
    chain, finished = _wait_for_cycle({entry.core: entry.waits_for for entry in blocked})
    now, messages = int(state.machine["now"][0]), tuple(_messages(state))
    return DeadlockReport(now, blocked, chain, finished, messages)


def _wait_for_cycle(waits: dict[int, int | None]) -> tuple[tuple[int, ...], int | None]:
    """The closed cycle reached from the first core, else the chain and the core that ends it."""
    chain: list[int] = []
    core: int | None = next(iter(waits))
    while core in waits and core not in chain:
        chain.append(core)
        core = waits[core]
    if core in waits:
        return tuple(chain[chain.index(core) :]), None
    return tuple(chain), core


def _blocked(state: layout.Arrays, c: int, program: AssembledProgram, base: int) -> BlockedCore:
    record = state.cores[c]
    number, cause = int(record["cause_instruction"]) - base, int(record["blocked_by"])
    instruction = program.instructions[number]
    columns = int(state.machine["columns"][0])

    def pair(name: str) -> tuple[int, int]:
        row_bus, column_bus = record[name].tolist()
        return row_bus, column_bus

    return BlockedCore(
        core=c,
        row=c // columns,
        column=c % columns,
        cause=_WAITING[cause],
        instruction=number,
        line=instruction.line,
        text=instruction.text(),
        waits_for=_waits_for(state, c, cause),
        puts=pair("puts"),
        gets=pair("gets"),
        waiting_entries=pair("count"),
    )


def _messages(state: layout.Arrays) -> Iterator[tuple[int, int, int]]:
    """(kind, source, target) of messages in inboxes, then of those in flight."""
    flights, columns = state.flights, int(state.machine["columns"][0])
    for core, kind in np.argwhere(state.cores["inbox"]).tolist():
        place = int(state.cores["inbox"][core, kind])
        while place:
            yield kind, int(flights["source"][place - 1]), core
            place = int(flights["following"][place - 1])
    for one in state.heads["message"][: int(state.machine["waiting"][0])].tolist():
        node, across, along = (int(flights[name][one]) for name in ("node", "across", "along"))
        rows = len(state.cores) // columns
        target = (node // columns + along) % rows * columns + (node + across) % columns
        yield int(flights["kind"][one]), int(flights["source"][one]), target


def _waits_for(state: layout.Arrays, c: int, cause: int) -> int | None:
    """The core that core `c` waits for: a receiver with a full buffer, a core missing from a sync,
    or a possible sender.

    Of the possible senders this is the first that still runs: blocked itself, it cannot put.
    """
    cores = state.cores
    columns = int(state.machine["columns"][0])
    row_start = c - c % columns
    match cause:
        case layout.GET_ROW:
            peers = range(row_start, row_start + columns)
        case layout.GET_COLUMN:
            peers = range(c % columns, len(cores), columns)
        case layout.AWAIT:
            peers = range(len(cores))
        case _:
            return int(cores["blocker"][c])
    others = [p for p in peers if p != c]
    running = [p for p in others if cores["status"][p] == layout.RUNNING]
    return next(iter(running + others), None)


def simulate_core(
    program: AssembledProgram,
    *,
    entry: str | int = 0,
    registers: Registers | None = None,
    local_memory: ArrayLike | None = None,
    unit_order: UnitOrder = "in_order",
    ideal_communication: bool = False,
    trace: bool = True,
    trace_limit: int = 100_000,
    max_cycles: int = MOST_CORE_CYCLES,
) -> CoreRun:
    """Run one core alone, which receives nothing; arguments and errors as in `simulate_mesh`.

    With `ideal_communication` every get returns zero at once.
    """
    run_ = simulate_mesh(
        program,
        SimulatedMesh(1, 1, ideal_communication=ideal_communication),
        entries=entry,
        registers=registers,
        local_memory=None if local_memory is None else [local_memory],
        unit_order=unit_order,
        traced_cores=(0,) if trace else (),
        trace_limit=trace_limit,
        max_cycles=max_cycles,
    )
    return run_.cores[0]


def simulate_mesh(
    programs: AssembledProgram | Sequence[AssembledProgram],
    mesh: SimulatedMesh,
    *,
    entries: str | int | Sequence[str | int] = 0,
    registers: Registers | Sequence[Registers] | None = None,
    local_memory: Images | None = None,
    unit_order: UnitOrder = "in_order",
    traced_cores: Collection[int] = (),
    trace_limit: int = 100_000,
    max_cycles: int = MOST_CORE_CYCLES,
) -> MeshRun:
    """Run all cores of a mesh until each halts or runs off the end of its program.

    `programs`, `entries` (label or instruction number) and `registers` (by name: an integer, a
    float, or the lanes) are given once for all cores or once per core. `local_memory` holds one
    image per core: an array, bytes, or arrays by address; the rest is zero. The register named
    `ra`, if the table has one, starts with the address after the program, so that a return from the
    entry point ends the core.

    Errors: SimulationError for a misaligned or out-of-range access, a branch out of the program, a
    put to nobody, or more than `max_cycles`; DeadlockError with a report; MachineError for features
    that the table lacks.
    """
    cores = [
        InitialCore(program, program.entry(entry), given, core in traced_cores)
        for core, (program, entry, given) in enumerate(
            zip(
                per_core(programs, mesh.cores, "programs"),
                per_core(entries, mesh.cores, "entries"),  # type: ignore[arg-type]
                per_core(registers or {}, mesh.cores, "register sets"),
                strict=True,
            )
        )
    ]
    limit = trace_limit if traced_cores else 0
    state, bases = launch(cores, mesh, local_memory, max_cycles, limit)
    _runner(mesh, unit_order)(state)
    each = [core.program for core in cores]
    raise_if_stopped(state, each, bases)
    return collect(state, each, bases)


def cycles_apart(
    program: AssembledProgram,
    *,
    entry: str | int = 0,
    registers: Sequence[Registers],
    local_memory: Sequence[ArrayLike],
) -> list[int]:
    """Cycles of independent runs of `program`, one per entry of `registers` and `local_memory`,
    each on one core alone. The program must not communicate. Errors as in `simulate_mesh`.
    """
    found = list[int]()
    for first in range(0, len(registers), layout.LINE_CAPACITY):
        part = slice(first, first + layout.LINE_CAPACITY)
        cores = [
            InitialCore(program, program.entry(entry), given, False) for given in registers[part]
        ]
        images = local_memory[part]
        state, bases = launch(cores, SimulatedMesh(1, len(cores)), images, MOST_CORE_CYCLES, 0)
        compiled.run_in_order(state)
        raise_if_stopped(state, [program] * len(cores), bases)
        found += map(int, state.cores["finish"])
    return found


def _runner(mesh: SimulatedMesh, unit_order: UnitOrder) -> Callable[[Arrays], None]:
    if unit_order == "decoupled" and mesh.fabric is not None:
        raise MachineError("cores that exchange messages issue in order")
    return compiled.run_decoupled if unit_order == "decoupled" else compiled.run_in_order


def core_after(
    program: AssembledProgram,
    cycles: int,
    *,
    registers: Registers | None = None,
    local_memory: ArrayLike | None = None,
) -> CoreRun:
    """State of one core alone after its first `cycles` cycles have issued, even if the program has
    not ended. Arguments and errors as in `simulate_core`.
    """
    cores = [InitialCore(program, program.entry(0), registers or {}, False)]
    images = None if local_memory is None else [local_memory]
    state, bases = launch(cores, SimulatedMesh(1, 1), images, cycles - 1, 0)
    compiled.run_in_order(state)
    return collect(state, [program], bases).cores[0]
