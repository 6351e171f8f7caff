"""The loops of the Hydrants, the I/O nodes below the mesh, as programs (Tables 4.2 and 4.3 of ICSI
TR-93-046): a port to the outside world is read, and blocks go to all nodes of a column.

In: a machine. Out: the cycle in which each of four neighbouring Hydrants sends its first block up.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tilewright.machine import Machine
from tilewright.machine.messages import transfer_cycles
from tilewright.targets.cns1.nodes.run import IDLE, Node, run_nodes
from tilewright.targets.cns1.nodes.transfers import text_of
from tilewright.targets.cns1.sections import Hosts

_HEAD = ("$5 = 1", "$6 = 2", "$7 = -1", "$8 = 3", "$9 = {height}", "$30 = 128")
_RETURN = ("goto $31", "nop")
_READ = "h[$4+=$30].w"
COLUMNS, BLOCKS = 4, 3
"""Columns that four Hydrants serve; blocks that each sends up, so that the loop runs twice."""


def startup_cycles(machine: Machine, height: int, *, apart: bool) -> list[int]:
    """When each Hydrant starts its first multicast to `height` rows of Torrents. With `apart` two
    columns share a vector: the second Hydrant reads two, and all four forward (Table 4.2). Else the
    first reads one for all (Table 4.3).
    """
    fabric = msgspec.structs.replace(
        machine.fabrics["torrents"], topology="ring_mesh", rows=height + 1, columns=COLUMNS
    )
    readers = {1: _two_vectors()} if apart else {0: _one_vector()}
    head = [line.format(height=height) for line in _HEAD]
    blocks = BLOCKS * machine.section(Hosts).block_bytes * 2
    nodes = [IDLE] * (fabric.rows * COLUMNS)
    for column in range(COLUMNS):
        text = text_of([*head, *readers.get(column, _forwarding()), *_RETURN])
        nodes[column] = Node(text, {"host": {0: np.zeros(blocks, np.uint8)}})
        nodes[COLUMNS + column] = Node(text_of(["$v1 = receive(1)", "$v2 = $v1 + $v1", *_RETURN]))
    run = run_nodes(machine, nodes, fabric)
    own = len(_RETURN) + 1 + len(head) + int(transfer_cycles(fabric, 1, 128))
    return [run.cores[COLUMNS + column].cycles - own for column in range(COLUMNS)]


def _two_vectors() -> Sequence[str]:
    """Hydrant b: a vector for two neighbours above, one for the neighbour below and itself."""
    first = (
        f"$v1 = {_READ}", f"$v2 = {_READ}", "bcast($0, $6, $v1, 0)", "send($0, $7, $v2, 0)",
    )  # fmt: skip
    loop = [*first, "bcast($9, $0, $v3, 1)", "$v3 = $v2"] * (BLOCKS - 1)
    return [*first, "$v3 = $v2", *loop, "bcast($9, $0, $v3, 1)"]


def _one_vector() -> Sequence[str]:
    """Hydrant a: a vector for itself and three neighbours."""
    first = (f"$v1 = {_READ}", "bcast($0, $8, $v1, 0)")
    loop = [*first, "bcast($9, $0, $v3, 1)", "$v3 = $v1"] * (BLOCKS - 1)
    return [*first, "$v3 = $v1", *loop, "bcast($9, $0, $v3, 1)"]


def _forwarding() -> Sequence[str]:
    """A Hydrant without a port."""
    return ["$v1 = receive(0)", "bcast($9, $0, $v1, 1)"] * BLOCKS
