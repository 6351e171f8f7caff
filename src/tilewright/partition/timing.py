"""Time of a plan on a machine whose cores exchange regions over a grid.

In: a plan and a machine. Out: cycles of each layer: what its busiest core computes at the machine's
peak, what its exchange takes, and what main memory takes to deliver its weights. Messages go along
rows first and then along columns; an exchange takes as long as its busiest link or port, and the
way of the farthest message. `steps` is the bulk-synchronous time of the BWDSP paper, one thing
after the other; `overlapped` lets the buffers' second port load while a layer computes. Nothing
here was measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.common.dtypes import dtype
from tilewright.machine import Machine
from tilewright.machine.parts import Fabric
from tilewright.partition.moves import Held, Move, held, moves, needs, reductions
from tilewright.partition.plan import Plan, Planned

Link = tuple[int, int]
"""Two cores next to each other, from the first to the second."""


@dataclass(frozen=True)
class LayerTime:
    """Cycles of one layer, and the share of the busiest link that its exchange keeps busy."""

    compute_cycles: float
    exchange_cycles: float
    weights_cycles: float
    busiest_link_bytes: int
    messages: int

    @property
    def steps_cycles(self) -> float:
        """One after the other."""
        return self.compute_cycles + self.exchange_cycles + self.weights_cycles

    @property
    def overlapped_cycles(self) -> float:
        """At once, as long as the longest."""
        return max(self.compute_cycles, self.exchange_cycles, self.weights_cycles)


def layer_times(plan: Plan, machine: Machine, element: str) -> tuple[LayerTime, ...]:
    """The time of each layer with values of the type `element`."""
    have = {planned.layer.output: held(planned.division, planned.cores) for planned in plan.layers}
    return tuple(_layer_time(planned, have, machine, element) for planned in plan.layers)


def exchanged(planned: Planned, have: dict[str, Held]) -> list[Move]:
    """Every message of a layer: what it reads of other layers, then parts of its sums."""
    found: list[Move] = []
    for name, wanted in needs(planned.layer, planned.division, planned.cores).items():
        if name in have:
            found += moves(have[name], wanted)
    return [*found, *reductions(planned.layer, planned.division, planned.cores)]


def route(fabric: Fabric, source: int, target: int) -> list[Link]:
    """The links from one core to another: along its row first.

    >>> route(Fabric("mesh", 8.0, rows=2, columns=3), 0, 5)
    [(0, 1), (1, 2), (2, 5)]
    """
    here, found = source, []
    while here != target:
        column, wanted = here % fabric.columns, target % fabric.columns
        step = (wanted > column) - (wanted < column)
        there = here + (step or (fabric.columns if target > here else -fabric.columns))
        found.append((here, there))
        here = there
    return found


def _layer_time(
    planned: Planned, have: dict[str, Held], machine: Machine, element: str
) -> LayerTime:
    size = dtype(element).size_bytes
    peak = machine.core.peak_flops_per_cycle(element)
    sent = exchanged(planned, have)
    loads, farthest = _loads(machine, sent, size)
    (fabric,) = machine.fabrics.values()
    busiest = max(loads.values(), default=0)
    waits = fabric.send_cycles + farthest * fabric.hop_cycles if sent else 0.0
    loaded = size * (planned.volume.weights + planned.volume.inputs)
    get = machine.dma.get.peak_bytes_per_second / machine.clock_hz
    return LayerTime(
        planned.work * planned.layer.op.flops / peak,
        waits + busiest / fabric.bytes_per_cycle,
        machine.dma.latency_cycles + loaded / get if loaded else 0.0,
        busiest,
        sum(len(move.targets) for move in sent),
    )


def _loads(machine: Machine, sent: Iterable[Move], size: int) -> tuple[Counter[Link], int]:
    """Bytes over each link and each core's port, and the links of the longest way. Ports are links
    from a core to itself (sending) and to core -1 (receiving).
    """
    (fabric,) = machine.fabrics.values()
    loads: Counter[Link] = Counter()
    farthest = 0
    for move in sent:
        amount = size * move.box.size
        for target in move.targets:
            way = route(fabric, move.source, target)
            farthest = max(farthest, len(way))
            for link in (*way, (move.source, move.source), (target, -1)):
                loads[link] += amount
    return loads, farthest
