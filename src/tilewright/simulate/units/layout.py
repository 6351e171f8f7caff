"""Arrays of the instruction-level simulator: program rows, and one record per core and machine.

An instruction is one row of integers. A core is one record, so its state is contiguous; its
register and memory fields overlay each other as doubles, integers and words. The record's shape
depends on the table only, so all runs of one table share compiled code.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]

# Classes of effects, by the function that executes them.
NOTHING, VECTOR, LOAD, STORE, INTEGER, LANES, BRANCH, SYSTEM = range(8)
NARROW_LOAD, NARROW_STORE, INTEGER_LANES, MESSAGE = range(8, 12)
STREAM_LOAD, STREAM_STORE, GATHER, LENGTHS = range(12, 16)

# Bits of CHANNEL and FLAGS.
PUTS_ROW, PUTS_COLUMN, GETS_ROW, GETS_COLUMN = 1, 2, 4, 8
IS_LOAD, IS_STORE, IS_ORDERED, IS_BRANCH, SYNCS_ROW, SYNCS_COLUMN, IS_CHANNEL = (
    1 << bit for bit in range(7)
)
SCALED, PORTED = 1 << 7, 1 << 8
SENDS, AWAITS, ACCEPTS = (1 << bit for bit in range(9, 12))
INTERACTS = SYNCS_ROW | SYNCS_COLUMN | IS_CHANNEL | SENDS
CONTACTS = INTERACTS | AWAITS | ACCEPTS

# Values of SPECIAL.
SPECIAL_HALT, SPECIAL_ID, SPECIAL_ROW, SPECIAL_COLUMN, SPECIAL_CYCLE = range(1, 6)
SPECIAL_LENGTH, SPECIAL_SHIFT = 6, 7
SPECIAL_SEND, SPECIAL_MULTICAST, SPECIAL_RECEIVE, SPECIAL_AWAIT = range(8, 12)
SPECIAL_ACCEPT, SPECIAL_HANDLER, SPECIAL_RESUME = range(12, 15)

ROW_BUS, COLUMN_BUS = 0, 1
RUNNING, DONE, FAULTED = range(3)

# Causes of a cycle without issue.
ISSUING, DATA, OUTPUT, UNIT, GET_ROW, GET_COLUMN, PUT_ROW, PUT_COLUMN = range(8)
BUS, PENALTY, SYNC, ORDER, FETCH, PORT, AWAIT, INTERFACE = range(8, 16)
CAUSES = (
    "issuing", "data_hazard", "output_hazard", "unit_busy", "get_row_empty", "get_column_empty",
    "put_row_full", "put_column_full", "bus_busy", "branch", "sync", "order", "instruction_cache",
    "memory_port", "message", "network_interface",
)  # fmt: skip

# Kinds of fault.
MISALIGNED, OUT_OF_RANGE, BAD_TARGET, BAD_DESTINATION, NO_NODE, NO_ROOM = range(1, 7)
NO_MULTICAST = 7

NEVER = 1 << 62
WINDOW_CAPACITY = 64
LINE_CAPACITY = 64
BLOCK_CAPACITY = 64
MESSAGE_KINDS, HANDLED_KINDS, DIRECTIONS = 256, 64, 4


Small: TypeAlias = int
"""A 32-bit field: rows of programs are most of what the host's caches hold."""
Register: TypeAlias = int
"""An unsigned 32-bit field: indexing an array by it needs no test for negative numbers."""


class RowState(Protocol):
    """One instruction. Registers are numbers; `waits` is `d` unless the result is discarded."""

    effect: Small
    kind: Small  # class of the effect
    a: Register
    b: Register
    c: Register
    d: Register
    waits: Register
    flags: Small
    channel: Small
    lanes: Small
    is_store: Small
    special: Small
    value: int  # immediate, displacement, or distance of a branch from the following row
    units: int  # mask
    latency: int
    occupancy: int
    last: int  # largest address in its memory
    origin: int  # of that memory in the core's memories
    align: int  # mask
    element: int  # bytes of one element in memory
    executed: int  # counts, over all cores
    stalled: int


class CoreState(Protocol):
    """One core. Two-element fields are (row bus, column bus)."""

    number: int  # row * columns + column
    row: int
    column: int
    pc: int
    end: int
    base: int  # row of the program's first instruction, which lies at `code_address`
    code_address: int
    wake: int  # cycle to look at the core again, NEVER while it waits for an event
    woken: int  # whether an event set `wake`, which an earlier one may still lower
    status: int
    slot: int  # instructions already issued in cycle `wake`, before others had to catch up
    cause: int  # of the open stall, which began at `since` at instruction `cause_instruction`
    cause_register: int
    cause_instruction: int
    since: int
    blocked_by: int  # the latest cause
    blocker: int
    issued: int
    issue_cycles: int
    finish: int
    traced: int
    fault: int
    fault_address: int
    fault_instruction: int
    arrived: int  # at a synchronisation: 0 no, 1 waiting, 2 released at `release`
    release: int
    sync_count: Int64
    sync_time: Int64
    queued: int
    contacts: int  # queued instructions that touch another core
    fetch: int
    fetch_at: int
    fetch_cause: int  # of a wait until `fetch_at`
    cached: int  # whether fetches go through the instruction cache
    line: int  # of the instruction cache, readable from cycle `line_at`
    line_at: int
    misses: int
    vector_length: int  # elements of a vector
    vector_shift: int
    delayed: int  # target of the branch whose delay slot is next, -1 for none
    refreshed: int  # cycle of the ports' last refresh
    port_cycles: int  # that accesses took
    port_misses: int
    horizon: int  # first cycle in which a message that is not known yet may interrupt
    interrupt: int  # when the next known message may interrupt, NEVER while one is handled
    stop: int  # the earlier of both, NEVER while no message may interrupt
    held: int  # cycle in which an instruction last waited for other cores: no message is earlier
    accepts: int  # mask of the kinds of messages that interrupt
    handling: int  # whether a handler runs
    resume: int  # PC and vector length after the handler
    resume_length: int
    sent: int
    received: int
    handlers: Int64  # [kind]: row of its handler's first instruction
    inbox: Int64  # [kind]: first message not received, plus 1
    sending: Int64  # [direction]: until when the interface holds its message, NEVER if unknown
    buffer_free: Int64  # [direction]: when the link's output buffer is free
    tags: Int64  # [sets * ways]: lines of the instruction cache plus 1, most recent first in a set
    queue: Int64
    ready: Int64  # [register]: cycle from which the value can be read
    read_at: Int64  # [register]: last cycle that read it
    pending_read: Int64  # [register]: stamp of the last cycle in which a waiting one reads it
    pending_write: Int64  # or writes it
    hazards: Int64
    port_free: Int64  # [port]: cycle from which it is free
    open_line: Int64  # [chip of all ports, entry]: open line, plus 1
    changed: Int64  # [chip, entry]: whether it was written
    unit_free: Int64  # [unit]: cycle from which the unit is free
    busy: Int64
    stalls: Int64
    head: Int64  # oldest entry of a transfer buffer
    count: Int64  # its entries, including those in flight
    pop_time: Int64  # cycle of the last get
    popped: Int64  # entries that left in that cycle
    puts: Int64
    gets: Int64
    arrival: Int64  # [bus, entry]
    buffer: Float64  # [bus, entry, lane]
    registers: Float64  # [register, lane]
    registers_integer: Int64
    registers_word: Int32
    memory: Float64  # [byte / 8]
    memory_integer: Int64
    memory_single: NDArray[np.float32]  # [byte / 4]
    memory_word: Int32
    memory_half: NDArray[np.int16]  # [byte / 2]
    memory_byte: NDArray[np.int8]


class MachineState(Protocol):
    """Parameters of the run, the clock, and the buses."""

    width: int
    branch_ends_group: bool
    taken_branch_penalty: int
    overwrite_next_cycle: bool
    ordered_results: bool
    window: int
    lanes: int
    units: int
    word_bytes: int
    cache_sets: int  # of the instruction cache; 0: every fetch hits
    cache_ways: int
    cache_line_bytes: int
    miss_cycles: int
    delay_slots: int
    vector_length: int  # most elements of a vector, 0 if the length is fixed
    zero: int  # the register that absent operands read
    ports: int  # of the memory behind ports
    chips_per_port: int
    open_lines: int
    line_bytes: int
    block_bytes: int
    refresh_interval: int
    refresh_cycles: int
    fabric: int  # 0 for none, else 1 + (1 if rows are rings) + (2 if columns are rings)
    multicasts: bool
    hop: int
    gap: int
    send_cycles: int
    receive_cycles: int  # of the network interface
    shortest: int  # cycles of the shortest message
    flights: int  # capacity
    flights_free: int  # first free record plus 1
    waiting: int  # heads in flight, in the heap
    max_cycles: int
    rows: int
    columns: int
    ideal: bool
    depth: int
    transfer: int
    sync_latency: int
    broadcast: int
    bus_cycles: int
    now: int
    next: int  # next cycle in which a core is due
    faulted: bool
    trace_limit: int
    trace_count: int
    span_count: int
    bus_free: Int64  # [bus, line]
    access: Int64  # [read or write, hit or miss or changed, bytes]: cycles through a port
    message_cycles: Int64  # [words]


class FlightState(Protocol):
    """A message in flight, or in the inbox of its node until it is received."""

    time: int  # when its head may enter the next buffer; in an inbox, when all of it has arrived
    source: int
    node: int  # where its head is
    place: int  # direction of the buffer that its head is in, -1 before the first
    across: int  # hops left along the row and along the column
    along: int
    length: int  # words
    kind: int
    copies: int  # whether it is a multicast: every node on the route receives a copy
    following: int  # next record of the inbox or of the free list, plus 1
    words: Int64  # [lane]


class HeadState(Protocol):
    """Entry of the heap of messages in flight, ordered by time and source."""

    time: int
    source: int
    message: int


class TraceRecord(Protocol):
    """One issued instruction."""

    cycle: int
    core: int
    unit: int
    instruction: int


class SpanRecord(Protocol):
    """One stall: its first cycle, its length and its cause."""

    cycle: int
    core: int
    cycles: int
    cause: int
    register: int
    instruction: int


class UnitState(NamedTuple):
    """The first record of each array, as compiled code sees it (`compiled.at` reaches the others).

    Records are plain pointers there, while arrays would be reference-counted at every use.
    """

    code: RowState
    cores: CoreState
    machine: MachineState
    trace: TraceRecord
    spans: SpanRecord
    flights: FlightState
    heads: HeadState


class Arrays(NamedTuple):
    """Everything a run changes, as arrays of records; `machine` has one element."""

    code: NDArray[Any]
    cores: NDArray[Any]
    machine: NDArray[Any]
    trace: NDArray[Any]
    spans: NDArray[Any]
    flights: NDArray[Any]
    heads: NDArray[Any]


_CORE_BUSES = ["sync_count", "sync_time", "head", "count", "pop_time", "popped", "puts", "gets"]
_CORE_REGISTERS = ["ready", "read_at", "pending_read", "pending_write", "hazards"]


_FORMATS = {"int": "i8", "bool": "i8", "Small": "i4", "Register": "u4"}


def _scalars(record: type) -> list[str]:
    """The fields of a record that are one number."""
    return [name for name, kind in record.__annotations__.items() if kind in ("int", "bool")]


@cache
def core_dtype(
    registers: int,
    lanes: int,
    units: int,
    depth: int,
    memory_bytes: int,
    cache_lines: int,
    ports: tuple[int, int, int] = (1, 1, 1),
) -> np.dtype[Any]:
    """The record of a core; all sizes except lanes and ports are rounded up to share compiled code.

    `cache_lines` counts those of the instruction cache; `ports` are (memory ports, chips per port,
    open lines per chip).
    """
    chips = (ports[0] * ports[1], ports[2])
    registers, units = _rounded_up(registers, 64), _rounded_up(units, 2)
    entries, words = _rounded_up(depth, 16), _rounded_up(-(-memory_bytes // 8), 1 << 13)
    fields: list[dict[str, tuple[str, tuple[int, ...]]]] = [
        {name: ("i8", ())} for name in _scalars(CoreState)
    ]
    fields += [{name: ("i8", (2,))} for name in _CORE_BUSES]
    fields += [{name: ("i8", (registers,))} for name in _CORE_REGISTERS]
    fields += [{name: ("i8", (units,))} for name in ("unit_free", "busy")]
    fields += [{name: ("i8", (DIRECTIONS,))} for name in ("sending", "buffer_free")]
    fields += [
        {"stalls": ("i8", (len(CAUSES),))},
        {"queue": ("i8", (WINDOW_CAPACITY,))},
        {"handlers": ("i8", (HANDLED_KINDS,))},
        {"inbox": ("i8", (MESSAGE_KINDS,))},
        {"tags": ("i8", (_rounded_up(cache_lines, 1024),))},
        {"port_free": ("i8", (ports[0],))},
        {"open_line": ("i8", chips)},
        {"changed": ("i8", chips)},
        {"arrival": ("i8", (2, entries))},
        {"buffer": ("f8", (2, entries, lanes))},
        {
            "registers": ("f8", (registers, lanes)),
            "registers_integer": ("i8", (registers, lanes)),
            "registers_word": ("i4", (registers, 2 * lanes)),
        },
        {
            "memory": ("f8", (words,)),
            "memory_integer": ("i8", (words,)),
            "memory_single": ("f4", (2 * words,)),
            "memory_word": ("i4", (2 * words,)),
            "memory_half": ("i2", (4 * words,)),
            "memory_byte": ("i1", (8 * words,)),
        },
    ]
    return _overlay(fields)


def _rounded_up(size: int, least: int) -> int:
    """Smallest power of two that is at least `size` and at least `least`, a power of two itself."""
    return 1 << (max(size, least) - 1).bit_length()


@cache
def machine_dtype() -> np.dtype[Any]:
    """The record of the machine."""
    scalars: list[dict[str, tuple[str, tuple[int, ...]]]] = [
        {name: ("i8", ())} for name in _scalars(MachineState)
    ]
    times: dict[str, tuple[str, tuple[int, ...]]] = {"access": ("i8", (2, 3, BLOCK_CAPACITY + 1))}
    lengths: dict[str, tuple[str, tuple[int, ...]]] = {"message_cycles": ("i8", (LINE_CAPACITY,))}
    return _overlay([*scalars, {"bus_free": ("i8", (2, LINE_CAPACITY))}, times, lengths])


@cache
def flight_dtype(lanes: int) -> np.dtype[Any]:
    """The record of a message."""
    scalars = [(name, "i8") for name in _scalars(FlightState)]
    return np.dtype([*scalars, ("words", "i8", (lanes,))])


@cache
def plain_dtype(record: type) -> np.dtype[Any]:
    """A record of integers only."""
    return np.dtype([(name, _FORMATS[kind]) for name, kind in record.__annotations__.items()])


def _overlay(groups: list[dict[str, tuple[str, tuple[int, ...]]]]) -> np.dtype[Any]:
    """A record whose groups follow each other; the fields of one group share their bytes."""
    names: list[str] = []
    formats: list[np.dtype[Any]] = []
    offsets: list[int] = []
    offset = 0
    for group in groups:
        types = [np.dtype(kind_and_shape) for kind_and_shape in group.values()]
        names += group
        formats += types
        offsets += [offset] * len(types)
        offset += max(kind.itemsize for kind in types)
    return np.dtype(
        {"names": names, "formats": formats, "offsets": offsets, "itemsize": -(-offset // 64) * 64}
    )
