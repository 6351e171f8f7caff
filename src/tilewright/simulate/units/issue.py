"""The in-order pipeline: which instructions issue in a cycle, and why none does.

Rules of swDNN VI-A, with every number from the table: the instructions at the front of the queue
issue together if nothing unfinished conflicts with them, they do not conflict with each other (RAW,
WAW; WAR in one cycle is allowed) and different units execute them. Each cycle without issue is
charged to the obstacle of the oldest instruction.
"""

from __future__ import annotations

from typing import Any

from tilewright.common.compiled import at, hot_piece, piece
from tilewright.simulate.units import layout
from tilewright.simulate.units.buses import channel_obstacle, communicate
from tilewright.simulate.units.execute import (
    checked_address,
    execute_branch,
    execute_integer,
    execute_lanes,
    execute_load,
    execute_store,
    execute_vector,
)
from tilewright.simulate.units.integers import execute_lengths, execute_narrow, execute_stream
from tilewright.simulate.units.layout import CoreState, MachineState, RowState, UnitState
from tilewright.simulate.units.messages import (
    execute_message,
    interrupted,
    message_obstacle,
    must_wait,
    woken_at,
)

READ, WRITE = 0, 1
HIT, CLEAN_MISS, CHANGED_MISS = 0, 1, 2


@piece
def _elements_of(core: CoreState, row: RowState) -> int:
    """Elements that a load or store moves."""
    return core.vector_length if row.kind >= layout.STREAM_LOAD else 1


@piece
def port_free_at(m: MachineState, core: CoreState, row: RowState, t: int) -> int:
    """First cycle, `t` at least, in which all ports that an access needs are free."""
    if m.refresh_interval and t - core.refreshed >= m.refresh_interval:
        refresh(m, core, t)
    free = t
    if row.kind == layout.GATHER:
        for port in range(m.ports):
            free = max(free, core.port_free[port])
        return free
    address = core.registers_integer[row.b, 0] + row.value
    size = _elements_of(core, row) * row.element
    first, last = address // m.block_bytes, (address + size - 1) // m.block_bytes
    for block in range(first, min(last, first + m.ports - 1) + 1):
        free = max(free, core.port_free[block % m.ports])
    return free


@piece
def refresh(m: MachineState, core: CoreState, t: int) -> None:
    """Block all ports for the refresh that is due."""
    core.refreshed = t
    for port in range(m.ports):
        core.port_free[port] = max(core.port_free[port], t) + m.refresh_cycles


@piece
def serve(m: MachineState, core: CoreState, row: RowState, t: int) -> int:
    """Serve an access issued at `t`; returns when it is done and its ports are free again."""
    kind = WRITE if row.is_store else READ
    if row.kind == layout.GATHER:
        return serve_gather(m, core, row, t)
    address = core.registers_integer[row.b, 0] + row.value
    left, done = _elements_of(core, row) * row.element, t
    while left > 0:
        size = min(left, m.block_bytes - address % m.block_bytes)
        done = max(done, serve_block(m, core, kind, address, size, t))
        address += size
        left -= size
    return done


@piece
def serve_gather(m: MachineState, core: CoreState, row: RowState, t: int) -> int:
    """Serve a gather, element after element through each port; returns when it is done."""
    done, base = t, core.registers_integer[row.b, 0]
    for i in range(core.vector_length):
        address = base + core.registers_integer[row.c, i]
        done = max(done, serve_block(m, core, READ, address, row.element, t))
    return done


@piece
def serve_block(
    m: MachineState, core: CoreState, kind: int, address: int, size: int, t: int
) -> int:
    """Serve one block through its port, after the port's earlier accesses; returns when done."""
    block = address // m.block_bytes
    port = block % m.ports
    chip = block // m.ports % m.chips_per_port
    around = m.ports * m.chips_per_port
    line = (block // around * m.block_bytes) // m.line_bytes
    slot, place = port * m.chips_per_port + chip, line % m.open_lines
    state = HIT
    if core.open_line[slot, place] != line + 1:
        state = CHANGED_MISS if core.changed[slot, place] else CLEAN_MISS
        core.open_line[slot, place] = line + 1
        core.changed[slot, place] = 0
        core.port_misses += 1
    if kind == WRITE:
        core.changed[slot, place] = 1
    cycles = m.access[kind, state, size]
    core.port_cycles += cycles
    core.port_free[port] = max(core.port_free[port], t) + cycles
    return int(core.port_free[port])


@hot_piece
def hazard(m: MachineState, core: CoreState, row: RowState, t: int) -> Any:
    """(cause, register, cycle to look again) of a register hazard that keeps a row from issuing."""
    ready = core.ready
    register, when = row.a, ready[row.a]
    if ready[row.b] > when:
        register, when = row.b, ready[row.b]
    if ready[row.c] > when:
        register, when = row.c, ready[row.c]
    if when > t:
        return layout.DATA, register, when
    slack = row.latency - 1 if m.ordered_results else 0
    if ready[row.waits] > t + slack:
        return layout.OUTPUT, row.waits, ready[row.waits] - slack
    return layout.ISSUING, -1, t


@piece
def unit_free_at(m: MachineState, core: CoreState, units: int) -> int:
    """First cycle in which a unit of the mask is free."""
    free = layout.NEVER
    for unit in range(m.units):
        if units >> unit & 1:
            free = min(free, core.unit_free[unit])
    return free


@hot_piece
def choose_unit(m: MachineState, core: CoreState, units: int, others: int, t: int) -> int:
    """A free unit of the mask, if possible one that `others` (the next instruction) cannot use."""
    chosen = -1
    for unit in range(m.units):
        if units >> unit & 1 and core.unit_free[unit] <= t:
            if not others >> unit & 1:
                return unit
            if chosen < 0:
                chosen = unit
    return chosen


@hot_piece
def execute(s: UnitState, m: MachineState, core: CoreState, row: RowState, t: int) -> int:
    """Execute the instruction at the core's PC; returns the next PC, or -1 after a fault."""
    kind = row.kind
    following = core.pc + 1
    if kind == layout.VECTOR:
        execute_vector(core, row)
    elif kind in (layout.LOAD, layout.STORE):
        address = checked_address(core, row)
        if address < 0:
            return -1
        if kind == layout.LOAD:
            execute_load(core, row, address)
        else:
            execute_store(core, row, address)
    elif kind == layout.INTEGER:
        execute_integer(core, row)
    elif kind == layout.BRANCH:
        return execute_branch(m, core, row)
    elif kind == layout.LANES:
        execute_lanes(core, row)
    elif kind == layout.SYSTEM:
        return execute_system(m, core, row, t)
    elif kind == layout.LENGTHS:
        execute_lengths(core, row)
    elif kind >= layout.STREAM_LOAD:
        return execute_stream(core, row)
    elif kind == layout.MESSAGE:
        return execute_message(s, m, core, row, t)
    elif kind != layout.NOTHING:
        return execute_narrow(core, row)
    return following


@piece
def execute_system(m: MachineState, core: CoreState, row: RowState, t: int) -> int:
    """Halt, read a special register, or set the vector length or shift; returns the next PC."""
    special, d = row.special, row.d
    if special == layout.SPECIAL_HALT:
        return core.end
    if special == layout.SPECIAL_ID:
        core.registers_integer[d, 0] = core.number
    elif special == layout.SPECIAL_ROW:
        core.registers_integer[d, 0] = core.row
    elif special == layout.SPECIAL_COLUMN:
        core.registers_integer[d, 0] = core.column
    elif special == layout.SPECIAL_CYCLE:
        core.registers_integer[d, 0] = t
    elif special == layout.SPECIAL_LENGTH:
        core.vector_length = min(max(core.registers_integer[row.a, 0], 1), m.vector_length)
    elif special == layout.SPECIAL_SHIFT:
        core.vector_shift = core.registers_integer[row.a, 0] & 31
    return core.pc + 1


@piece
def own_cycles(m: MachineState, core: CoreState, row: RowState, t: int) -> Any:
    """(latency, occupancy) of an instruction where vector length or memory ports matter."""
    latency, occupancy = row.latency, row.occupancy
    if row.flags & layout.SCALED:
        length, full = core.vector_length, m.vector_length
        occupancy = -(-occupancy * length // full)
        latency = -(-latency * length // full)
    if row.flags & layout.PORTED:
        latency = max(latency, serve(m, core, row, t) - t)
    return latency, occupancy


@hot_piece
def commit(s: UnitState, m: MachineState, core: CoreState, row: RowState, unit: int, t: int) -> int:
    """Issue the instruction at the core's PC; returns the next PC, or -1 after a fault."""
    i = core.pc
    latency, occupancy = row.latency, row.occupancy
    if row.flags & (layout.SCALED | layout.PORTED):
        latency, occupancy = own_cycles(m, core, row, t)
    following = execute(s, m, core, row, t) if core.fault == 0 else -1
    if following < 0:
        core.status, core.fault_instruction, core.wake = layout.FAULTED, i, layout.NEVER
        return -1
    if row.channel:
        communicate(m, s.cores, core, row, t)
    core.ready[row.d] = t + latency
    core.unit_free[unit] = t + occupancy
    core.busy[unit] += occupancy
    row.executed += 1
    core.issued += 1
    core.finish = t + 1
    if m.overwrite_next_cycle:
        core.read_at[row.a] = core.read_at[row.b] = core.read_at[row.c] = t
    if core.traced and m.trace_count < m.trace_limit:
        record = at(s.trace, m.trace_count)
        record.cycle, record.core, record.unit, record.instruction = t, core.number, unit, i
        m.trace_count += 1
    return following


@hot_piece
def settle(s: UnitState, m: MachineState, core: CoreState, t: int) -> None:
    """Charge the stall that ends at `t` to its cause, register and instruction."""
    cause, cycles = core.cause, t - core.since
    core.cause = layout.ISSUING
    if cause == layout.ISSUING or cycles == 0:
        return
    core.stalls[cause] += cycles
    at(s.code, core.cause_instruction).stalled += cycles
    if cause in (layout.DATA, layout.OUTPUT):
        core.hazards[core.cause_register] += cycles
    if core.traced and m.span_count < m.trace_limit:
        span = at(s.spans, m.span_count)
        span.cycle, span.core, span.cycles, span.cause = core.since, core.number, cycles, cause
        span.register, span.instruction = core.cause_register, core.cause_instruction
        m.span_count += 1


@hot_piece
def stall(
    s: UnitState, m: MachineState, core: CoreState, i: int, cause: int, register: int, t: int
) -> None:
    """Note that nothing issues at `t` because of `cause`; spans of one cause are joined."""
    same = core.cause == cause and core.cause_register == register and core.cause_instruction == i
    if not same:
        settle(s, m, core, t)
        core.cause, core.cause_register, core.cause_instruction = cause, register, i
        core.since, core.blocked_by = t, cause


@hot_piece
def obstacle(
    s: UnitState, m: MachineState, core: CoreState, row: RowState, units: int, unit: int, t: int
) -> Any:
    """(cause, register, cycle to look again) of the obstacle to issuing an instruction at `t`.

    `unit` is the unit chosen out of `units`, -1 when none is free.
    """
    cause, register, again = hazard(m, core, row, t)
    if cause != layout.ISSUING:
        return cause, register, again
    if unit < 0:
        return layout.UNIT, -1, unit_free_at(m, core, units)
    if row.flags & layout.PORTED:
        free = port_free_at(m, core, row, t)
        if free > t:
            return layout.PORT, -1, free
    if row.flags & (layout.SENDS | layout.AWAITS):
        cause, again = message_obstacle(s, m, core, row, t)
    elif row.flags & layout.INTERACTS:
        cause, again = channel_obstacle(m, s.cores, core, row, t)
    return cause, -1, again


@piece
def fetched_at(m: MachineState, core: CoreState, i: int, t: int) -> int:
    """First cycle in which an instruction wanted at `t` may issue; fills its cache line."""
    line = (core.code_address + (i - core.base) * m.word_bytes) // m.cache_line_bytes
    if line != core.line:
        core.line, core.line_at = line, t
        if not _line_is_held(m, core, line):
            core.line_at = t + m.miss_cycles
            core.misses += 1
    return core.line_at


@piece
def _line_is_held(m: MachineState, core: CoreState, line: int) -> bool:
    """True if the instruction cache holds a line, which becomes the most recently used of its set;
    a missing line replaces the least recently used.
    """
    first = line % m.cache_sets * m.cache_ways
    place, last = first, first + m.cache_ways - 1
    while place < last and core.tags[place] != line + 1:
        place += 1
    found: bool = core.tags[place] == line + 1
    while place > first:
        core.tags[place] = core.tags[place - 1]
        place -= 1
    core.tags[first] = line + 1
    return found


@piece
def after_delay_slot(core: CoreState, row: RowState, i: int, following: int) -> int:
    """The next PC on a core that executes the instruction after a branch before its target."""
    pending = core.delayed
    core.delayed = -1
    if row.flags & layout.IS_BRANCH:
        core.delayed = following if following != i + 1 else -1
        return i + 1
    return following if pending < 0 else pending


@piece
def cycle_in_order(s: UnitState, m: MachineState, core: CoreState, t: int) -> bool:
    """One cycle of a core that issues strictly in order; False when others must catch up first."""
    issued, again = core.slot, t + 1
    core.slot = 0
    while issued < m.width and core.pc < core.end:
        i = core.pc
        if core.cached and fetched_at(m, core, i, t) > t:
            if issued == 0:
                stall(s, m, core, i, layout.FETCH, -1, t)
                again = core.line_at
            break
        row = at(s.code, i)
        if row.flags & layout.CONTACTS and t > m.now and not m.ideal and must_wait(s, core, row, t):
            core.slot, core.wake, core.held = issued, t, t
            return False
        others = at(s.code, i + 1).units if issued + 1 < m.width else 0
        unit = choose_unit(m, core, row.units, others, t)
        cause, register, when = obstacle(s, m, core, row, row.units, unit, t)
        if cause != layout.ISSUING:
            if issued == 0:
                stall(s, m, core, i, cause, register, t)
                again = when
            break
        if m.overwrite_next_cycle and issued and core.read_at[row.d] == t:
            break
        if issued == 0:
            settle(s, m, core, t)
        following = commit(s, m, core, row, unit, t)
        if following < 0:
            return False
        if m.delay_slots:
            following = after_delay_slot(core, row, i, following)
        issued += 1
        core.pc = following
        if row.flags & layout.IS_BRANCH:
            penalty = m.taken_branch_penalty if following != i + 1 else 0
            if penalty and following < core.end:
                stall(s, m, core, following, layout.PENALTY, -1, t + 1)
                again = t + 1 + penalty
            if penalty or m.branch_ends_group:
                break
    if issued:
        core.issue_cycles += 1
    if core.pc >= core.end:
        core.status, again = layout.DONE, layout.NEVER
    elif again > core.stop:
        again = woken_at(core, again, t)
    core.wake = again
    return again <= m.max_cycles


@piece
def step_in_order(s: UnitState, m: MachineState, core: CoreState) -> None:
    """Run a core from the current cycle to its next contact with another core.

    Between contacts (communication, synchronisation, messages) cores do not affect each other, so
    running one ahead has the same result as stepping all of them together, and keeps its state in
    the host's cache.
    """
    while not (core.wake >= core.stop and interrupted(s, m, core, core.wake)):
        if not cycle_in_order(s, m, core, core.wake):
            return
