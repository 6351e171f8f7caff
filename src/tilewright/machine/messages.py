"""Messages on a fabric: the links of a route, how long a message occupies them, when it arrives.

In: a `Fabric` of a machine file, nodes, bytes. Out: links, and times in cycles. This is the only
model of a fabric: the closed form below, the planner's clock (`partition.clock`) and the events of
the simulator (`simulate.units.messages`) share it.

A message enters the output buffer of its first link `send_cycles` after it is sent. Its head
reaches the next buffer, or its node, `hop_cycles` later. It occupies a buffer for one cycle per
`bytes_per_cycle` of its length, plus `gap_cycles`. If the next buffer is occupied when the head
would arrive, the head waits in its own buffer and starts when the next one is free (ICSI
TR-93-046, section 2.2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import MachineError
from tilewright.machine.parts import Fabric

Link = tuple[int, int]
"""Two neighbouring nodes, source first."""
Nodes = NDArray[np.int64]


def hops(fabric: Fabric, sources: Nodes, targets: Nodes) -> tuple[Nodes, Nodes]:
    """Signed hops along the row and along the column for each pair of nodes, negative towards 0.

    On a ring, the shorter way is taken; if both are equal, even positions go up and odd ones down
    (section 2.2.3). Raises MachineError for a topology without rows and columns of links.
    """
    if fabric.topology not in ("mesh", "ring_mesh", "torus"):
        raise MachineError(
            f"topology {fabric.topology!r} has no links between neighbours",
            fix="take mesh, ring_mesh or torus",
        )
    columns, rings = fabric.columns, fabric.topology != "mesh"
    across = _steps(sources % columns, targets % columns, columns, rings)
    rings = fabric.topology == "torus"
    return across, _steps(sources // columns, targets // columns, fabric.rows, rings)


def _steps(source: Nodes, target: Nodes, length: int, ring: bool) -> Nodes:
    direct: Nodes = target - source
    if not ring:
        return direct
    halfway = np.where(source % 2 == 0, abs(direct), -abs(direct))
    around = np.where(2 * abs(direct) == length, halfway, direct - np.sign(direct) * length)
    found: Nodes = np.where(2 * abs(direct) < length, direct, around)
    return found


def hops_to(fabric: Fabric, source: int, target: int) -> tuple[int, int]:
    """`hops` for a single pair of nodes."""
    across, along = hops(fabric, np.array([source]), np.array([target]))
    return int(across[0]), int(along[0])


def links(fabric: Fabric, sources: Nodes, targets: Nodes) -> tuple[Nodes, Nodes, Nodes]:
    """The number of links of each route, which goes along its row first, and the source and target
    of each link, route after route.

    >>> links(Fabric("mesh", 8.0, rows=2, columns=3), np.array([0]), np.array([5]))
    (array([3]), array([0, 1, 2]), array([1, 2, 5]))
    """
    across, along = hops(fabric, sources, targets)
    lengths = abs(across) + abs(along)
    way = np.repeat(np.arange(len(lengths)), lengths)
    passed = np.arange(len(way)) - (lengths.cumsum() - lengths)[way]
    rows, columns = max(fabric.rows, 1), fabric.columns

    def behind(steps: Nodes) -> Nodes:
        sideways = np.minimum(steps, abs(across)[way])
        column = (sources % columns)[way] + np.sign(across)[way] * sideways
        row = (sources // columns)[way] + np.sign(along)[way] * (steps - sideways)
        found: Nodes = row % rows * columns + column % columns
        return found

    return lengths, behind(passed), behind(passed + 1)


class PassedPlaces(NamedTuple):
    """The links and ports that messages pass, message after message: their number per message, both
    nodes of each, and the cycles that a head takes to it from the one before.

    Besides links, these are the source's port (from the core to itself), if it handles one message
    at a time, and the target's port (to a negative node).
    """

    lengths: Nodes
    here: Nodes
    there: Nodes
    cycles: NDArray[np.float64]


def places(fabric: Fabric, sources: Nodes, targets: Nodes) -> PassedPlaces:
    """The links and ports of messages from `sources` to `targets`."""
    lengths, here, there = links(fabric, sources, targets)
    begins = lengths.cumsum() - lengths
    last = np.full(len(lengths), -1)
    if fabric.ports == "each_link":
        last[lengths > 0] = here[(begins + lengths - 1)[lengths > 0]]
    if fabric.ports == "one":
        here, there = np.insert(here, begins, sources), np.insert(there, begins, sources)
        lengths = lengths + 1
    cycles = np.full(len(here), fabric.hop_cycles)
    begins = lengths.cumsum() - lengths
    for place in range(2 if fabric.ports == "one" else 1):
        cycles[(begins + place)[lengths > place]] = 0.0
    ends = lengths.cumsum()
    return PassedPlaces(
        lengths + 1,
        np.insert(here, ends, targets),
        np.insert(there, ends, -2 - last),
        np.insert(cycles, ends, fabric.hop_cycles),
    )


def message_bytes(fabric: Fabric, data_bytes: int) -> int:
    """m_length: bytes of data and header."""
    return data_bytes + fabric.header_bytes


def message_cycles(fabric: Fabric, data_bytes: int) -> float:
    """Cycles that a message takes to pass a link or port."""
    return message_bytes(fabric, data_bytes) / fabric.bytes_per_cycle


def spacing_cycles(fabric: Fabric, data_bytes: int) -> float:
    """Cycles between the starts of two messages through one buffer (section 4.1.1)."""
    return message_cycles(fabric, data_bytes) + fabric.gap_cycles


def send_cycles(fabric: Fabric, hops: int, data_bytes: int) -> float:
    """T_ST: cycles of one message, or of a multicast whose farthest receiver is `hops` away."""
    fixed = fabric.send_cycles + fabric.receive_cycles + fabric.hop_cycles * hops
    return fixed + message_cycles(fabric, data_bytes)


def exchange_cycles(fabric: Fabric, distance: int, data_bytes: int) -> float:
    """Cycles of an exchange between `distance` neighbours and as many nodes `distance` away, in
    which each message waits for those before it. Without a gap it is T_MT of section 2.2.3.
    """
    waiting = (distance - 1) * spacing_cycles(fabric, data_bytes)
    return send_cycles(fabric, distance, data_bytes) + waiting
