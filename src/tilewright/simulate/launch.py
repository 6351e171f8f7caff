"""Set up a run: the joined code of all programs, and the records of all cores.

In: programs, a mesh, registers and memory images, as given. Out: the `Arrays` at cycle 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from mmap import mmap
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.common.errors import MachineError, SimulationError
from tilewright.isa import Effect, InstructionTable
from tilewright.isa.table import Communication, MemoryPorts
from tilewright.machine.messages import hops_to
from tilewright.machine.parts import Fabric
from tilewright.simulate.program import AssembledProgram
from tilewright.simulate.units import layout

UnitOrder = Literal["in_order", "decoupled"]
Value = int | float | Sequence[float]
Registers = Mapping[str, Value]
T = TypeVar("T")
Image = ArrayLike | Mapping[int, NDArray[Any]]
"""Initial content of a core's memories: their first bytes, or arrays by address."""
Images = Sequence[Image] | NDArray[np.uint8]

MESSAGES_OF_CORE = 256
"""Messages per core that may be in flight or in inboxes."""
_LEAST_BEHIND_PORTS = 1 << 24
"""Least bytes of memory in a record with ports, one shape for all; unused pages stay untouched."""
WORD_BYTES = 4
"""Bytes of a vector element in a message."""


@dataclass(frozen=True)
class SimulatedMesh:
    """`rows` x `columns` cores with a bus along each row and column; core = row * columns + column.

    Without `communication` the table's parameters hold. With `ideal_communication` every get
    returns zero at once and every put is discarded, to study one core's pipeline alone. A program
    that fits the instruction cache is resident from the start, unless the cache starts `cold`; of a
    longer one nothing is. With `interleaved`, other code has run since and put one line into each
    set, in place of the least recently used one. Over a `fabric` of as many nodes, cores exchange
    messages.
    """

    rows: int
    columns: int
    communication: Communication | None = None
    ideal_communication: bool = False
    cold: bool = False
    interleaved: bool = False
    fabric: Fabric | None = None

    @property
    def cores(self) -> int:
        """Number of cores."""
        return self.rows * self.columns


@dataclass(frozen=True)
class InitialCore:
    """Initial state of one core."""

    program: AssembledProgram
    entry: int
    registers: Registers
    traced: bool


def per_core(value: T | Sequence[T], cores: int, what: str) -> list[T]:
    """One value for all cores, or a sequence with one for each."""
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        return [value] * cores
    if len(value) != cores:
        raise SimulationError(f"{len(value)} {what} given for {cores} cores")
    return list(value)


def launch(
    cores: Sequence[InitialCore],
    mesh: SimulatedMesh,
    local_memory: Images | None,
    max_cycles: int,
    trace_limit: int,
) -> tuple[layout.Arrays, list[int]]:
    """The state at cycle 0, and each core's first row in the joined code."""
    table = cores[0].program.table
    if any(core.program.table.name != table.name for core in cores):
        raise SimulationError("the cores' programs use different instruction tables")
    code, bases = _joined_code([core.program for core in cores])
    machine = _machine(table, mesh, max_cycles)
    longest = max(len(core.program.instructions) for core in cores)
    _set_instruction_cache(machine, table, longest, mesh)
    state = _fresh_state(table, code, machine, len(cores), trace_limit)
    for record, core, base in zip(state.cores, cores, bases, strict=True):
        _start(record, core, base)
        if mesh.interleaved and not mesh.cold:
            keep_lines(record, core.program)
        _set_registers(record, table, core.registers)
    if local_memory is not None:
        _set_memory(state.cores, local_memory, table.local_memory_bytes)
    return state, bases


def _joined_code(programs: Sequence[AssembledProgram]) -> tuple[NDArray[Any], list[int]]:
    """Rows of all distinct programs, each followed by an empty row, and each core's first row."""
    distinct = {id(program): program for program in programs}
    *firsts, rows = accumulate((len(p.code) + 1 for p in distinct.values()), initial=0)
    starts = dict(zip(distinct, firsts, strict=True))
    joined = np.zeros(rows, programs[0].code.dtype)
    for number, program in distinct.items():
        joined[starts[number] :][: len(program.code)] = program.code
    return joined, [starts[id(program)] for program in programs]


def _machine(table: InstructionTable, mesh: SimulatedMesh, max_cycles: int) -> NDArray[Any]:
    """The machine's record: issue rules, sizes, and communication parameters."""
    issue, machine = table.issue, np.zeros(1, layout.machine_dtype())
    values = {
        "width": issue.width,
        "branch_ends_group": issue.branch_ends_group,
        "taken_branch_penalty": issue.taken_branch_penalty_cycles,
        "overwrite_next_cycle": issue.write_after_read == "next_cycle",
        "ordered_results": issue.write_after_write == "ordered",
        "window": issue.decoupled_window,
        "lanes": table.lanes,
        "units": len(table.units),
        "word_bytes": table.word_bits // 8,
        "delay_slots": issue.delay_slots,
        "vector_length": table.vector_length,
        "zero": table.register_count,
        "max_cycles": max_cycles,
        "rows": mesh.rows,
        "columns": mesh.columns,
        "ideal": mesh.ideal_communication,
    }
    communication = _communication(table, mesh)
    if mesh.fabric is not None:
        _set_fabric(machine, table, mesh.fabric)
    if communication is None:
        values["ideal"] = mesh.fabric is None
    else:
        values |= {
            "depth": communication.transfer_buffer_entries,
            "transfer": communication.transfer_latency_cycles,
            "bus_cycles": communication.bus_cycles_per_transfer,
            "sync_latency": communication.sync_latency_cycles,
            "broadcast": communication.broadcast_from_index,
        }
    for name, value in values.items():
        machine[name] = value
    if table.ports is not None:
        _set_ports(machine, table.ports)
    return machine


def _set_fabric(machine: NDArray[Any], table: InstructionTable, fabric: Fabric) -> None:
    """Set the fabric's parameters, and the cycles of a message by its number of words."""
    hops_to(fabric, 0, 0)  # refuses topologies without links between neighbours
    receive = next(
        (s.latency_cycles for s in table.instructions if s.effect is Effect.MESSAGE_RECEIVE), 0
    )
    words = np.arange(layout.LINE_CAPACITY)
    lengths = np.ceil((fabric.header_bytes + WORD_BYTES * words) / fabric.bytes_per_cycle)
    machine["fabric"] = 1 + (fabric.topology != "mesh") + 2 * (fabric.topology == "torus")
    machine["multicasts"] = fabric.multicast != "none"
    machine["hop"], machine["gap"] = fabric.hop_cycles, fabric.gap_cycles
    machine["send_cycles"] = fabric.send_cycles
    machine["receive_cycles"] = fabric.receive_cycles - receive
    machine["message_cycles"], machine["shortest"] = lengths, lengths[1]
    machine["sync_latency"] = 1  # all continue together, in the cycle after the last one arrives


def _set_ports(machine: NDArray[Any], ports: MemoryPorts) -> None:
    """Set the ports' parameters, and the cycles of an access by kind, line state and bytes."""
    if not 1 <= ports.block_bytes <= layout.BLOCK_CAPACITY:
        raise MachineError(
            f"{ports.block_bytes} bytes in a block of a port: must be 1 .. {layout.BLOCK_CAPACITY}"
        )
    for name, value in (
        ("ports", ports.ports),
        ("chips_per_port", ports.chips_per_port),
        ("open_lines", ports.open_lines),
        ("line_bytes", ports.line_bytes),
        ("block_bytes", ports.block_bytes),
        ("refresh_interval", ports.refresh_interval_cycles),
        ("refresh_cycles", ports.refresh_cycles),
    ):
        machine[name] = value
    sizes = np.arange(layout.BLOCK_CAPACITY + 1) * ports.byte_ns
    for kind, times in enumerate((ports.read_ns, ports.write_ns)):
        for state, base in enumerate(times):
            machine["access"][0, kind, state] = np.ceil((base + sizes) / ports.cycle_ns)


def _set_instruction_cache(
    machine: NDArray[Any], table: InstructionTable, instructions: int, mesh: SimulatedMesh
) -> None:
    """Set the cache's parameters, unless every fetch hits and no cache need be simulated."""
    instruction_cache = table.instruction_cache
    if instruction_cache is None:
        return
    code_bytes = instructions * table.word_bits // 8
    if mesh.cold or mesh.interleaved or code_bytes > instruction_cache.capacity_bytes:
        machine["cache_sets"] = instruction_cache.sets
        machine["cache_ways"] = instruction_cache.ways
        machine["cache_line_bytes"] = instruction_cache.line_bytes
        machine["miss_cycles"] = instruction_cache.miss_cycles


def _cache_lines(table: InstructionTable) -> int:
    """Lines of the instruction cache, 0 without one."""
    own = table.instruction_cache
    return 0 if own is None else own.sets * own.ways


def keep_lines(record: Any, program: AssembledProgram) -> None:
    """Set the cache lines left of a program that ran before other code took a way of each set."""
    own = program.table.instruction_cache
    if own is None:
        return
    size = len(program.instructions) * program.table.word_bits // 8
    first, end = program.code_address // own.line_bytes, program.code_address + size
    for line in range(first, -(-end // own.line_bytes)):
        first = line % own.sets * own.ways
        held = record["tags"][first : first + own.ways]
        held[1:] = [line + 1, *held[1:-1]][: own.ways - 1]  # way 0, the latest, is the others'


def _communication(table: InstructionTable, mesh: SimulatedMesh) -> Communication | None:
    communication = mesh.communication or table.communication
    apart = mesh.ideal_communication or mesh.fabric is not None
    if communication is None and mesh.cores > 1 and not apart:
        raise MachineError(f"table '{table.name}' has no register communication")
    if (
        communication is not None
        and min(communication.transfer_buffer_entries, communication.transfer_latency_cycles) < 1
    ):
        raise MachineError("a transfer buffer needs an entry, and a transfer a cycle, at least")
    for what, value, limit in (
        ("rows", mesh.rows, layout.LINE_CAPACITY),
        ("columns", mesh.columns, layout.LINE_CAPACITY),
        ("instructions in the window", table.issue.decoupled_window, layout.WINDOW_CAPACITY),
    ):
        if not 1 <= value <= limit:
            raise MachineError(f"{value} {what}: must be 1 .. {limit}")
    return communication


def _fresh_state(
    table: InstructionTable, code: NDArray[Any], machine: NDArray[Any], cores: int, trace_limit: int
) -> layout.Arrays:
    count = table.register_count + 2  # the zero that absent operands read, and the sink of results
    ports = table.ports
    kind = layout.core_dtype(
        count,
        table.lanes,
        len(table.units),
        int(machine["depth"][0]),
        max(table.local_memory_bytes, _LEAST_BEHIND_PORTS if ports else 0),
        _cache_lines(table),
        (ports.ports, ports.chips_per_port, ports.open_lines) if ports else (1, 1, 1),
    )
    records = _untouched(cores, kind) if machine["fabric"][0] else np.zeros(cores, kind)
    machine["trace_limit"] = trace_limit
    records["fetch_cause"] = layout.PENALTY
    records["number"] = np.arange(cores)
    records["row"], records["column"] = np.divmod(np.arange(cores), int(machine["columns"][0]))
    records["read_at"] = records["pop_time"] = records["line"] = -1
    records["delayed"], records["cached"] = -1, machine["cache_sets"][0] > 0
    records["horizon"] = records["interrupt"] = records["stop"] = layout.NEVER
    records["vector_length"] = table.vector_length
    return layout.Arrays(
        code=code,
        cores=records,
        machine=machine,
        trace=np.zeros(max(trace_limit, 1), layout.plain_dtype(layout.TraceRecord)),
        spans=np.zeros(max(trace_limit, 1), layout.plain_dtype(layout.SpanRecord)),
        flights=_flights(machine, cores, table.lanes),
        heads=np.zeros(int(machine["flights"][0]), layout.plain_dtype(layout.HeadState)),
    )


def _untouched(count: int, kind: np.dtype[Any]) -> NDArray[Any]:
    """Zeroed records in small pages, for nodes that use little of their memory: touching a page of
    a NumPy array commits two megabytes.
    """
    return np.frombuffer(mmap(-1, count * kind.itemsize), kind)


def _flights(machine: NDArray[Any], cores: int, lanes: int) -> NDArray[Any]:
    """Records of messages, all in the free list."""
    count = MESSAGES_OF_CORE * cores if machine["fabric"][0] else 1
    found = np.zeros(count, layout.flight_dtype(lanes))
    found["following"] = np.arange(count)
    machine["flights"] = machine["flights_free"] = count
    return found


def _start(record: Any, core: InitialCore, base: int) -> None:
    program, count = core.program, len(core.program.instructions)
    if not 0 <= core.entry <= count:
        raise SimulationError(f"entry {core.entry} lies outside program '{program.name}'")
    record["base"], record["end"] = base, base + count
    record["pc"] = record["fetch"] = base + core.entry
    record["traced"] = core.traced
    record["code_address"] = program.code_address
    table = program.table
    link = next((f"{f.prefix}ra" for f in table.register_files if "ra" in f.aliases), None)
    if link is not None:
        behind = program.code_address + count * table.word_bits // 8
        record["registers_integer"][table.register_numbers[link], 0] = behind


def _set_registers(record: Any, table: InstructionTable, values: Registers) -> None:
    for name, value in values.items():
        number = table.register_numbers.get(name)
        if number is None or number in table.zero_registers:
            raise SimulationError(f"register '{name}' cannot be set in {table.name}")
        if isinstance(value, int | np.integer):
            record["registers_integer"][number, 0] = value
            continue
        lanes = np.atleast_1d(np.asarray(value, np.float64))
        if lanes.ndim != 1 or len(lanes) > table.lanes:
            raise SimulationError(f"register '{name}' holds at most {table.lanes} lanes")
        record["registers"][number, : len(lanes)] = lanes


def _set_memory(records: NDArray[Any], images: Images, size: int) -> None:
    if len(images) != len(records):
        raise SimulationError(f"{len(images)} local memory images given for {len(records)} cores")
    for c, image in enumerate(images):
        memory = records["memory"][c].view(np.uint8)
        for start, part in (image if isinstance(image, Mapping) else {0: image}).items():
            given = np.frombuffer(part, np.uint8) if isinstance(part, bytes) else np.asarray(part)
            end = start + given.nbytes
            if end > size:
                raise SimulationError(
                    f"the image of core {c} has {end} bytes, its local memory {size}"
                )
            memory[start:end].view(given.dtype).reshape(given.shape)[...] = given
