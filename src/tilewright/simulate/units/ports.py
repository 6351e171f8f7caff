"""Ports of a memory whose chips keep lines open: when an access can begin, and when it is done.

Rules of ICSI TR-93-046, section 2.1.3, with every number from the table: a block of consecutive
bytes goes through one port; a hit in an open line is shortest, a miss longer, and longest where the
line that it replaces was written. Accesses through different ports overlap.
"""

from __future__ import annotations

from tilewright.common.compiled import piece
from tilewright.simulate.units import layout
from tilewright.simulate.units.layout import CoreState, MachineState, RowState

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
    """Cycle in which an access issued at `t` is done; it occupies the ports till then."""
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
    """Move one element after the other through each port."""
    done, base = t, core.registers_integer[row.b, 0]
    for i in range(core.vector_length):
        address = base + core.registers_integer[row.c, i]
        done = max(done, serve_block(m, core, READ, address, row.element, t))
    return done


@piece
def serve_block(
    m: MachineState, core: CoreState, kind: int, address: int, size: int, t: int
) -> int:
    """One access through one port, after those that it still serves."""
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
