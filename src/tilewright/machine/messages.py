"""Messages on a fabric: the links that one takes, how long it keeps them, and when it is there.

In: a `Fabric` of a machine file, nodes, bytes. Out: links, and times in cycles. This is the one
description of a fabric. The closed form below, the planner's clock (`partition.clock`) and the
events of the simulator (`simulate.units.messages`) read it.

A message enters the output buffer of its first link `send_cycles` after it is sent. Its head is in
the next buffer, or at its node, `hop_cycles` later. It keeps a buffer for a cycle for each
`bytes_per_cycle` of its length, and `gap_cycles` more. Where the next buffer is not free when the
head would come, the head waits in its own and starts when it is (ICSI TR-93-046, section 2.2).
"""

from __future__ import annotations

from functools import lru_cache

from tilewright.common.errors import MachineError
from tilewright.machine.parts import Fabric

Link = tuple[int, int]
"""Two nodes next to each other, from the first to the second."""
_MOST_WAYS = 1 << 17
"""Ways that are remembered: nodes send to the same ones layer after layer."""


def hops_to(fabric: Fabric, source: int, target: int) -> tuple[int, int]:
    """Hops along the row and along the column from one node to another, negative towards node 0.

    The ring of a row, or of a column, is gone round the shorter way; of two equally long ones even
    places go up and odd ones down (section 2.2.3). Raises MachineError for a topology that has no
    rows and columns of links.
    """
    if fabric.topology not in ("mesh", "ring_mesh", "torus"):
        raise MachineError(
            f"topology {fabric.topology!r} has no links between neighbours",
            fix="take mesh, ring_mesh or torus",
        )
    columns = fabric.columns
    across = _steps(source % columns, target % columns, columns, fabric.topology != "mesh")
    along = _steps(source // columns, target // columns, fabric.rows, fabric.topology == "torus")
    return across, along


def _steps(source: int, target: int, length: int, ring: bool) -> int:
    direct = target - source
    if not ring or 2 * abs(direct) < length:
        return direct
    if 2 * abs(direct) == length:
        return abs(direct) if source % 2 == 0 else -abs(direct)
    return direct - length if direct > 0 else direct + length


def neighbour(fabric: Fabric, node: int, across: int, along: int) -> int:
    """The next node on a way of so many hops, along the row first; beyond the last is the first.

    >>> neighbour(Fabric("ring_mesh", 1.0, rows=2, columns=4), 3, 1, 0)
    0
    """
    row, column = divmod(node, fabric.columns)
    if across:
        column = (column + (1 if across > 0 else -1)) % fabric.columns
    else:
        row = (row + (1 if along > 0 else -1)) % fabric.rows
    return row * fabric.columns + column


@lru_cache(_MOST_WAYS)
def route(fabric: Fabric, source: int, target: int) -> tuple[Link, ...]:
    """The links from one node to another: along its row first.

    >>> route(Fabric("mesh", 8.0, rows=2, columns=3), 0, 5)
    ((0, 1), (1, 2), (2, 5))
    """
    across, along = hops_to(fabric, source, target)
    here, found = source, []
    while across or along:
        there = neighbour(fabric, here, across, along)
        found.append((here, there))
        if across:
            across -= 1 if across > 0 else -1
        else:
            along -= 1 if along > 0 else -1
        here = there
    return tuple(found)


def places(fabric: Fabric, source: int, target: int) -> list[tuple[Link, float]]:
    """All that a message passes, in order, and how long its head takes to each from the one before:
    the core's port where it takes one message at a time, the links, the target's port, negative.
    """
    links = route(fabric, source, target)
    found = [(link, fabric.hop_cycles if n else 0.0) for n, link in enumerate(links)]
    if fabric.ports == "one":
        found.insert(0, ((source, source), 0.0))
    last = links[-1][0] if links and fabric.ports == "each_link" else -1
    return [*found, ((target, -2 - last), fabric.hop_cycles)]


def message_bytes(fabric: Fabric, data_bytes: int) -> int:
    """m_length: the data and the header."""
    return data_bytes + fabric.header_bytes


def message_cycles(fabric: Fabric, data_bytes: int) -> float:
    """Cycles in which a message passes a place."""
    return message_bytes(fabric, data_bytes) / fabric.bytes_per_cycle


def spacing_cycles(fabric: Fabric, data_bytes: int) -> float:
    """Cycles between two messages through one buffer (section 4.1.1)."""
    return message_cycles(fabric, data_bytes) + fabric.gap_cycles


def send_cycles(fabric: Fabric, hops: int, data_bytes: int) -> float:
    """T_ST: one message, or a multicast whose farthest receiver is `hops` away."""
    fixed = fabric.send_cycles + fabric.receive_cycles + fabric.hop_cycles * hops
    return fixed + message_cycles(fabric, data_bytes)


def exchange_cycles(fabric: Fabric, distance: int, data_bytes: int) -> float:
    """`distance` neighbours send to as many others `distance` away, and these to them: each waits
    for those before it. Without a gap that is T_MT of section 2.2.3.
    """
    waiting = (distance - 1) * spacing_cycles(fabric, data_bytes)
    return send_cycles(fabric, distance, data_bytes) + waiting
