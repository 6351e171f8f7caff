"""Transfers alone on the network: cycles of the closed form's terms, by programs (sections 2.2,
4.1.1 and 4.2.2 of ICSI TR-93-046).

In: a machine. Out: cycles from when the first message is sent until the last one is received.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.machine import Machine
from tilewright.machine.parts import Fabric
from tilewright.simulate.runs import MeshRun
from tilewright.targets.cns1.nodes.run import IDLE, Node, fabric_of, run_nodes
from tilewright.targets.cns1.nodes.sums import (
    SUMMED,
    Sum,
    begun,
    direction,
    handlers,
    installed,
    sent,
)
from tilewright.targets.cns1.timing.messages import GlobalSum

VECTOR = 32
_RETURN = ("goto $31", "nop")
_PENDING, _SCRATCH = "$22", "$5"


def text_of(lines: Sequence[str]) -> str:
    """Lines as a source."""
    return "\n".join(lines) + "\n"


def transfer_cycles(machine: Machine, hops: int, *, words: int = VECTOR, cast: bool = False) -> int:
    """A message along the ring, or a multicast to all on the way: until the farthest has it."""
    fabric, first = fabric_of(machine), [f"$28 = {words}", "vlr = $28", f"$5 = {hops}"]
    send = f"{'bcast' if cast else 'send'}($0, $5, $v1, 0)"
    nodes = [IDLE] * (fabric.rows * fabric.columns)
    nodes[0] = Node(text_of([*first, send, *_RETURN]))
    for node in range(1, hops + 1) if cast else (hops,):
        nodes[node] = Node(text_of(["$v2 = receive(0)", "$v3 = $v2 + $v2", *_RETURN]))
    found = run_nodes(machine, nodes, fabric)
    return found.cores[hops].cycles - len(_RETURN) - 1 - len(first)


def exchange_cycles(machine: Machine, sharing: GlobalSum, round_: int, fabric: Fabric) -> int:
    """One round of a global sum on all nodes, which send at the same time."""
    lines = [
        *direction(sharing, round_, "$5"),
        sent(sharing, round_, "$5", "$v1", 0),
        *("$v2 = receive(0)", "$v3 = $v2 + $v2", *_RETURN),
    ]
    count = fabric.rows * fabric.columns
    nodes = [Node(text_of(lines), registers=_place_of(fabric, n)) for n in range(count)]
    own = len(direction(sharing, round_, "$5")) + len(_RETURN) + 1
    return run_nodes(machine, nodes, fabric).cycles - own


def _place_of(fabric: Fabric, node: int) -> dict[str, int]:
    """The registers that hold a node's place."""
    row, column = divmod(node, fabric.columns)
    return {"$vs18": column, "$vs19": row}


def sum_of_all(
    machine: Machine, sharing: GlobalSum, fabric: Fabric, values: NDArray[np.int64]
) -> tuple[MeshRun, NDArray[np.int64], int]:
    """A global sum on all nodes of values [node, vector, 32]: the run, the sums, and the cycles
    from its beginning.
    """
    one = Sum(sharing, values.shape[1], 0, _PENDING)
    head = list(installed((one,), _SCRATCH))
    lines = [*head, *begun(machine, one, _SCRATCH), f"await ({_PENDING} == $0)", *_RETURN]
    lines += handlers(machine, one)
    nodes = [
        Node(
            text_of(lines),
            registers={
                **_place_of(fabric, n),
                **{f"$v{SUMMED + v}": own.view(np.float64) for v, own in enumerate(values[n])},
            },
        )
        for n in range(len(values))
    ]
    run = run_nodes(machine, nodes, fabric)
    number = run.cores[0].program.table.register_numbers
    places = [number[one.result(v)] for v in range(one.vectors)]
    found = np.stack([core.integer_registers[places] for core in run.cores])
    return run, found, run.cycles - len(head) - 1 - len(_RETURN)


def constant_sum_cycles(machine: Machine, sharing: GlobalSum, fabric: Fabric) -> int:
    """Cycles of the global sum of one vector over all nodes."""
    ones = np.ones((fabric.rows * fabric.columns, 1, VECTOR), np.int64)
    return sum_of_all(machine, sharing, fabric, ones)[2]
