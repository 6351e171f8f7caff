"""Messages between cores: sends, receives, and heads that advance from node to node.

These are the events of the fabric that `machine.messages` describes. A core sends as many words as
its vector length. Its interface holds one message of its own in each direction; more wait in the
processor. An arrived message stays in the inbox of its node until an instruction receives it. It
interrupts the node if the node accepts its kind: the program counter and the vector length are
saved, and no other message interrupts before the handler ends.
"""

from __future__ import annotations

from typing import Any

from tilewright.common.compiled import at, piece
from tilewright.simulate.units import layout
from tilewright.simulate.units.layout import (
    CoreState,
    FlightState,
    HeadState,
    MachineState,
    RowState,
    UnitState,
)


@piece
def direction_of(across: int, along: int) -> int:
    """Direction of a route's next hop: along the row (0 up, 1 down), then the column (2, 3)."""
    if across != 0:
        return 0 if across > 0 else 1
    return 2 if along > 0 else 3


@piece
def next_node(m: MachineState, node: int, direction: int) -> int:
    """The neighbour in a direction."""
    row, column = node // m.columns, node % m.columns
    if direction < 2:
        column += 1 - 2 * direction
    else:
        row += 5 - 2 * direction
    return int((row + m.rows) % m.rows * m.columns + (column + m.columns) % m.columns)


@piece
def _reaches(m: MachineState, core: CoreState, across: int, along: int) -> bool:
    """True if a route of these hops ends at another node of the fabric."""
    wraps, column, row = m.fabric - 1, core.column + across, core.row + along
    inside = wraps & 1 != 0 or 0 <= column < m.columns
    return bool(inside and (wraps & 2 != 0 or 0 <= row < m.rows) and (across or along))


@piece
def must_wait(s: UnitState, core: CoreState, row: RowState, t: int) -> bool:
    """True if the other cores must catch up before a contact. A send need not wait, as heads
    advance in order of time, unless it is unknown when the last one in its direction leaves the
    interface; nor a receive of a message that came before any other can.
    """
    if row.flags & layout.SENDS:
        x = core.registers_integer
        return bool(core.sending[direction_of(x[row.c, 0], x[row.b, 0])] == layout.NEVER)
    if row.special == layout.SPECIAL_RECEIVE:
        if t < core.horizon:
            return False
        first = core.inbox[row.value]
        return bool(first == 0 or at(s.flights, first - 1).time >= core.horizon)
    return bool(row.flags & (layout.AWAITS | layout.ACCEPTS) == 0 or t >= core.horizon)


@piece
def message_obstacle(s: UnitState, m: MachineState, core: CoreState, row: RowState, t: int) -> Any:
    """(cause, cycle to look again) of the obstacle to an instruction on messages."""
    x = core.registers_integer
    if row.special == layout.SPECIAL_RECEIVE:
        first = core.inbox[row.value]
        arrival = at(s.flights, first - 1).time if first else layout.NEVER
        return (layout.AWAIT, arrival) if arrival > t else (layout.ISSUING, t)
    if row.flags & layout.SENDS:
        across, along = x[row.c, 0], x[row.b, 0]
        if not m.fabric or not _reaches(m, core, across, along):
            core.fault, core.fault_address = layout.NO_NODE, core.number
            return layout.ISSUING, t
        held = core.sending[direction_of(across, along)] - m.send_cycles
        return (layout.INTERFACE, held) if held > t else (layout.ISSUING, t)
    return (layout.AWAIT, layout.NEVER) if x[row.a, 0] != x[row.b, 0] else (layout.ISSUING, t)


@piece
def execute_message(s: UnitState, m: MachineState, core: CoreState, row: RowState, t: int) -> int:
    """Execute an instruction on messages; returns the next PC, or -1 after a fault."""
    special, following = row.special, core.pc + 1
    if special in (layout.SPECIAL_SEND, layout.SPECIAL_MULTICAST):
        return send(s, m, core, row, t)
    if special == layout.SPECIAL_RECEIVE:
        take(s, m, core, row)
    elif special == layout.SPECIAL_ACCEPT:
        core.accepts = row.value
    elif special == layout.SPECIAL_HANDLER:
        core.handlers[core.registers_integer[row.a, 0] & (layout.HANDLED_KINDS - 1)] = (
            following + row.value
        )
    elif special == layout.SPECIAL_RESUME:
        core.handling = 0
        core.vector_length = core.resume_length
        following = core.resume
    note_interrupt(s, core)
    return int(following)


@piece
def note_interrupt(s: UnitState, core: CoreState) -> None:
    """Update when the next accepted message interrupts."""
    core.interrupt = layout.NEVER
    if core.accepts and not core.handling:
        for kind in range(layout.HANDLED_KINDS):
            if core.accepts >> kind & 1 and core.inbox[kind]:
                core.interrupt = min(core.interrupt, at(s.flights, core.inbox[kind] - 1).time)
    core.stop = min(core.horizon, core.interrupt) if core.accepts else layout.NEVER


@piece
def interrupted(s: UnitState, m: MachineState, core: CoreState, t: int) -> bool:
    """Enter the handler of a message that is due; True if the core must wait at `t` for others."""
    # A handler never begins between a branch and its delay slot, nor within a group.
    if core.interrupt <= t and core.delayed < 0 and core.slot == 0:
        chosen, first = -1, layout.NEVER
        for kind in range(layout.HANDLED_KINDS):
            if core.accepts >> kind & 1 and core.inbox[kind]:
                time = at(s.flights, core.inbox[kind] - 1).time
                if time < first:
                    chosen, first = kind, time
        core.resume, core.resume_length = core.pc, core.vector_length
        core.pc, core.vector_length, core.handling = core.handlers[chosen], m.vector_length, 1
        note_interrupt(s, core)
    if t < core.horizon:
        return False
    core.wake = t
    return True


@piece
def woken_at(core: CoreState, again: int, t: int) -> int:
    """When to look again at a core that waits until `again`: an interrupt may come earlier."""
    return min(again, max(core.interrupt, t + 1))


@piece
def send(s: UnitState, m: MachineState, core: CoreState, row: RowState, t: int) -> int:
    """Give a message to the core's interface; returns the next PC, or -1 after a fault."""
    x, words = core.registers_integer, core.vector_length
    one = free_flight(s, m)
    if one < 0:
        core.fault, core.fault_address = layout.NO_ROOM, m.flights
        return -1
    flight = at(s.flights, one)
    flight.time, flight.place = t + m.send_cycles, -1
    flight.source = flight.node = core.number
    flight.across, flight.along = x[row.c, 0], x[row.b, 0]
    flight.length, flight.kind = words, row.value
    flight.copies = int(row.special == layout.SPECIAL_MULTICAST)
    if flight.copies and not m.multicasts:
        core.fault = layout.NO_MULTICAST
        return -1
    for i in range(words):
        flight.words[i] = x[row.a, i]
    core.sending[direction_of(flight.across, flight.along)] = layout.NEVER
    core.sent += 1
    push(s, m, one)
    return core.pc + 1


@piece
def take(s: UnitState, m: MachineState, core: CoreState, row: RowState) -> None:
    """d = the first message of a kind; lanes beyond its length are zero."""
    one = core.inbox[row.value] - 1
    flight = at(s.flights, one)
    core.inbox[row.value] = flight.following
    for i in range(m.vector_length):
        core.registers_integer[row.d, i] = flight.words[i] if i < flight.length else 0
    core.received += 1
    release(s, m, one)


@piece
def free_flight(s: UnitState, m: MachineState) -> int:
    """Take a record from the free list; -1 if there is none."""
    one = m.flights_free - 1
    if one >= 0:
        m.flights_free = at(s.flights, one).following
    return int(one)


@piece
def release(s: UnitState, m: MachineState, one: int) -> None:
    """Return a record to the free list."""
    at(s.flights, one).following = m.flights_free
    m.flights_free = one + 1


@piece
def earlier(time: int, source: int, other: HeadState) -> bool:
    """True if a head precedes `other`: by time, then by source."""
    return time < other.time or (time == other.time and source < other.source)


@piece
def put(head: HeadState, time: int, source: int, one: int) -> None:
    """Fill an entry of the heap."""
    head.time, head.source, head.message = time, source, one


@piece
def push(s: UnitState, m: MachineState, one: int) -> None:
    """Add a message to the heap of those in flight."""
    flight, place = at(s.flights, one), m.waiting
    m.waiting += 1
    while place:
        above = at(s.heads, (place - 1) >> 1)
        if not earlier(flight.time, flight.source, above):
            break
        put(at(s.heads, place), above.time, above.source, above.message)
        place = (place - 1) >> 1
    put(at(s.heads, place), flight.time, flight.source, one)


@piece
def pop(s: UnitState, m: MachineState) -> int:
    """Remove the message with the first head from the heap, and return it."""
    found = s.heads.message
    m.waiting -= 1
    last, place, child = at(s.heads, m.waiting), 0, 1
    while child < m.waiting:
        below = at(s.heads, child)
        if child + 1 < m.waiting:
            right = at(s.heads, child + 1)
            if earlier(right.time, right.source, below):
                child, below = child + 1, right
        if not earlier(below.time, below.source, last):
            break
        put(at(s.heads, place), below.time, below.source, below.message)
        place, child = child, 2 * child + 1
    put(at(s.heads, place), last.time, last.source, last.message)
    return int(found)


@piece
def advance_message(s: UnitState, m: MachineState) -> None:
    """Advance the first head into the next buffer of its route, or into the inbox of its node."""
    one = pop(s, m)
    flight = at(s.flights, one)
    node = flight.node
    if flight.across == 0 and flight.along == 0:
        arrive(s, m, one)
        return
    direction = direction_of(flight.across, flight.along)
    owner = at(s.cores, node)
    first = flight.place < 0
    if flight.copies and not first:
        copy = free_flight(s, m)
        if copy < 0:
            owner.fault, owner.fault_address, m.faulted = layout.NO_ROOM, m.flights, True
            owner.status, owner.fault_instruction = layout.FAULTED, min(owner.pc, owner.end - 1)
            return
        copied(s, m, flight, at(s.flights, copy))
        arrive(s, m, copy)
    enters, free = flight.time, owner.buffer_free[direction]
    if enters < free:
        enters = free if first else free + m.hop
    owner.buffer_free[direction] = enters + m.message_cycles[flight.length] + m.gap
    if first:
        owner.sending[direction] = owner.buffer_free[direction]
    flight.place, flight.time = direction, enters + m.hop
    if direction < 2:
        flight.across -= 1 - 2 * direction
    else:
        flight.along -= 5 - 2 * direction
    flight.node = next_node(m, node, direction)
    push(s, m, one)


@piece
def copied(s: UnitState, m: MachineState, flight: FlightState, copy: FlightState) -> None:
    """Fill `copy` with a multicast's message for the node that it passes."""
    copy.time, copy.source, copy.node = flight.time, flight.source, flight.node
    copy.length, copy.kind, copy.copies = flight.length, flight.kind, 0
    copy.across = copy.along = 0
    for i in range(flight.length):
        copy.words[i] = flight.words[i]


@piece
def arrive(s: UnitState, m: MachineState, one: int) -> None:
    """Insert a message whose head has reached its node into the inbox, in order of arrival, and
    wake the node for that moment.
    """
    flight = at(s.flights, one)
    core = at(s.cores, flight.node)
    flight.time += m.message_cycles[flight.length] + m.receive_cycles
    last, following = -1, core.inbox[flight.kind] - 1
    while following >= 0 and at(s.flights, following).time <= flight.time:
        last, following = following, at(s.flights, following).following - 1
    flight.following = following + 1
    if last < 0:
        core.inbox[flight.kind] = one + 1
    else:
        at(s.flights, last).following = one + 1
    note_interrupt(s, core)
    if core.status == layout.RUNNING and core.held <= flight.time < core.wake:
        core.wake = flight.time
        m.next = min(m.next, core.wake)


@piece
def head_time(s: UnitState) -> int:
    """When the first head in flight may enter its next buffer."""
    return s.heads.time
