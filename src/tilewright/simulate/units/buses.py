"""Register communication: row and column buses, transfer buffers, and synchronisation.

Each core owns one transfer buffer per bus: a FIFO without tags (swDNN V-A). A put needs the bus and
a free entry at every receiver, counting entries in flight; an entry freed in one cycle can be used
in the next. A bus carries one transfer at a time, so entries arrive in the order of the puts.
"""

from __future__ import annotations

from typing import Any

from tilewright.common.compiled import at, piece
from tilewright.simulate.units import layout
from tilewright.simulate.units.layout import CoreState, MachineState, RowState


@piece
def _line_of(m: MachineState, core: CoreState, bus: int) -> int:
    """Number of the core's row (or column) bus."""
    return core.row if bus == layout.ROW_BUS else core.column


@piece
def peers_of(m: MachineState, core: CoreState, bus: int) -> Any:
    """(number of the first core on the bus, distance between numbers, count of cores, the core's
    own position: its column on a row bus, its row on a column bus).
    """
    if bus == layout.ROW_BUS:
        return core.number - core.column, 1, m.columns, core.column
    return core.column, m.columns, m.rows, core.row


@piece
def wake_blocked(m: MachineState, core: CoreState, cycle: int) -> None:
    """Reschedule a core for `cycle` if it waits for an event, or was woken for a later cycle."""
    waits = core.wake == layout.NEVER or core.woken != 0
    if waits and cycle < core.wake and core.status == layout.RUNNING:
        core.wake, core.woken = cycle, 1
        m.next = min(m.next, cycle)


@piece
def channel_obstacle(
    m: MachineState, cores: CoreState, core: CoreState, row: RowState, t: int
) -> Any:
    """(cause, cycle to look again) of the obstacle to a communication or synchronisation."""
    channel = row.channel
    if m.ideal:
        return layout.ISSUING, t
    if channel & (layout.GETS_ROW | layout.GETS_COLUMN):
        bus = layout.ROW_BUS if channel & layout.GETS_ROW else layout.COLUMN_BUS
        arrival = core.arrival[bus, core.head[bus]] if core.count[bus] > 0 else layout.NEVER
        return (layout.GET_ROW + bus, arrival) if arrival > t else (layout.ISSUING, t)
    if channel & (layout.PUTS_ROW | layout.PUTS_COLUMN):
        bus = layout.ROW_BUS if channel & layout.PUTS_ROW else layout.COLUMN_BUS
        return put_obstacle(m, cores, core, row, bus, t)
    if row.flags & (layout.SYNCS_ROW | layout.SYNCS_COLUMN):
        bus = layout.ROW_BUS if row.flags & layout.SYNCS_ROW else layout.COLUMN_BUS
        return sync_obstacle(m, cores, core, row, bus, t)
    return layout.ISSUING, t


@piece
def put_place(m: MachineState, core: CoreState, row: RowState) -> int:
    """Position on the bus that a put addresses; loads always broadcast."""
    if row.flags & layout.IS_LOAD:
        return m.broadcast
    return int(core.registers_integer[row.b, 0] + row.value)


@piece
def put_obstacle(
    m: MachineState, cores: CoreState, core: CoreState, row: RowState, bus: int, t: int
) -> Any:
    """(cause, cycle to look again) of a put: it needs its bus and an entry at every receiver."""
    free = m.bus_free[bus, _line_of(m, core, bus)]
    if free > t:
        return layout.BUS, free
    place = put_place(m, core, row)
    first, step, length, own = peers_of(m, core, bus)
    everyone = place >= m.broadcast
    if not everyone and (place < 0 or place >= length or place == own):
        core.fault, core.fault_address = layout.BAD_DESTINATION, place
        return layout.ISSUING, t
    for k in range(length):
        if k != own and (everyone or k == place):
            receiver = at(cores, first + k * step)
            popped_now = receiver.popped[bus] if receiver.pop_time[bus] == t else 0
            if receiver.count[bus] + popped_now >= m.depth:
                core.blocker = receiver.number
                return layout.PUT_ROW + bus, (t + 1 if popped_now > 0 else layout.NEVER)
    return layout.ISSUING, t


@piece
def do_put(
    m: MachineState, cores: CoreState, core: CoreState, row: RowState, bus: int, t: int
) -> None:
    """Send the put's register to the buffers of its receivers."""
    m.bus_free[bus, _line_of(m, core, bus)] = t + m.bus_cycles
    core.puts[bus] += 1
    is_load = row.flags & layout.IS_LOAD
    source = row.d if is_load else row.a
    arrival = t + m.transfer + (row.latency if is_load else 0)
    place = put_place(m, core, row)
    first, step, length, own = peers_of(m, core, bus)
    if place < m.broadcast:
        deliver(m, core, source, at(cores, first + place * step), bus, arrival)
        return
    for k in range(length):
        if k != own:
            deliver(m, core, source, at(cores, first + k * step), bus, arrival)


@piece
def _wrapped(entry: int, depth: int) -> int:
    """Index in a ring of `depth` entries, for an `entry` less than a round beyond its end."""
    return entry - depth if entry >= depth else entry


@piece
def deliver(
    m: MachineState, core: CoreState, source: int, receiver: CoreState, bus: int, arrival: int
) -> None:
    """Append one entry to a transfer buffer; entries of one buffer arrive in order."""
    count = receiver.count[bus]
    entry = _wrapped(receiver.head[bus] + count, m.depth)
    if count > 0:
        before = entry - 1 if entry > 0 else m.depth - 1
        arrival = max(arrival, receiver.arrival[bus, before])
    for i in range(m.lanes):
        receiver.buffer[bus, entry, i] = core.registers[source, i]
    receiver.arrival[bus, entry] = arrival
    receiver.count[bus] = count + 1
    wake_blocked(m, receiver, arrival)


@piece
def do_get(
    m: MachineState, cores: CoreState, core: CoreState, row: RowState, bus: int, t: int
) -> None:
    """Move the oldest entry to the destination register, and let blocked senders look again."""
    head = core.head[bus]
    for i in range(m.lanes):
        core.registers[row.d, i] = core.buffer[bus, head, i]
    core.head[bus] = _wrapped(head + 1, m.depth)
    core.count[bus] -= 1
    core.gets[bus] += 1
    core.popped[bus] = core.popped[bus] + 1 if core.pop_time[bus] == t else 1
    core.pop_time[bus] = t
    first, step, length, _ = peers_of(m, core, bus)
    for k in range(length):
        wake_blocked(m, at(cores, first + k * step), t + 1)


@piece
def communicate(m: MachineState, cores: CoreState, core: CoreState, row: RowState, t: int) -> None:
    """Execute an instruction's put or get; ideal buses discard puts and return zeros."""
    channel = row.channel
    bus = layout.ROW_BUS if channel & (layout.PUTS_ROW | layout.GETS_ROW) else layout.COLUMN_BUS
    if channel & (layout.PUTS_ROW | layout.PUTS_COLUMN):
        if not m.ideal:
            do_put(m, cores, core, row, bus, t)
    elif not m.ideal:
        do_get(m, cores, core, row, bus, t)
    else:
        for i in range(m.lanes):
            core.registers[row.d, i] = 0.0


@piece
def sync_obstacle(
    m: MachineState, cores: CoreState, core: CoreState, row: RowState, bus: int, t: int
) -> Any:
    """(cause, cycle to look again) of a synchronisation: every core of its mask must arrive."""
    first, step, length, _ = peers_of(m, core, bus)
    if core.arrived == 0:
        core.arrived = 1
        core.sync_count[bus] += 1
        core.sync_time[bus] = t
        for k in range(length):
            wake_blocked(m, at(cores, first + k * step), t + 1)
    if core.arrived == 1:
        last = core.sync_time[bus]
        for k in range(length):
            other = at(cores, first + k * step)
            if row.value >> k & 1:
                if other.sync_count[bus] < core.sync_count[bus]:
                    core.blocker = other.number
                    return layout.SYNC, layout.NEVER
                last = max(last, other.sync_time[bus])
        core.arrived = 2
        core.release = last + m.sync_latency
    if core.release > t:
        return layout.SYNC, core.release
    core.arrived = 0
    return layout.ISSUING, t
