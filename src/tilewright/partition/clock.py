"""A plan on one clock: each core's computation, and every message on every link of its route.

In: a plan and a model of the machine. Out: the cycle at which each layer is done. Time is either
bulk-synchronous as in the BWDSP paper (no step begins before the step before it has ended on all
cores) or overlapped. Overlapped, a core computes as soon as its inputs are there; once it begins a
layer, the third of its rotating buffers accepts the next layer's input and main memory delivers the
next layer's weights. Weights stream, so a core is done only after the last of them has arrived.
Messages pass links as `machine.messages` defines; cores and links serve requests in order of
arrival. All times are modelled, none measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.machine.messages import message_cycles, places, spacing_cycles
from tilewright.ops.box import Box
from tilewright.partition.compiled import arrivals
from tilewright.partition.layers import Layer
from tilewright.partition.moves import Exchanges, Move, messages_of
from tilewright.partition.objective import CoreModel
from tilewright.partition.parts import Part, Times
from tilewright.partition.plan import PartitionPlan, Planned

Cycles = NDArray[np.float64]
Integers = NDArray[np.int64]


def finish_cycles(
    plan: PartitionPlan, model: CoreModel, *, overlapped: bool, times: Times | None = None
) -> list[float]:
    """For each layer, the cycle at which its last core finishes, counted from the start. Cores
    compute at their peak or, with `times`, as long as their programs take.
    """
    clock = _Clock(plan, model, overlapped, times)
    both = zip(plan.layers, plan.exchanges, strict=True)
    return [clock.advance(planned, exchanges) for planned, exchanges in both]


@dataclass
class _Clock:
    """State of the simulation, in cycles: when each core `began` and had `done` its latest layer,
    when each of the `links` and main memory are next free, and when each core had `made` its part
    of each tensor.
    """

    plan: PartitionPlan
    model: CoreModel
    overlapped: bool
    times: Times | None
    memory_free: float = 0.0
    nodes: int = 0
    links: Cycles = field(init=False)
    made: dict[str, Cycles] = field(default_factory=dict)
    began: Cycles = field(init=False)
    done: Cycles = field(init=False)

    def __post_init__(self) -> None:
        self.began, self.done = np.zeros(self.plan.cores), np.zeros(self.plan.cores)
        fabric = self.model.fabric
        self.nodes = fabric.columns * max(fabric.rows, -(-self.plan.cores // fabric.columns))
        self.links = np.zeros(2 * self.nodes * (self.nodes + 1))

    def advance(self, planned: Planned, exchanges: Exchanges) -> float:
        """Simulate one layer; returns the cycle at which its last core is done."""
        cores = list(planned.cores)
        arrived = self._inputs(cores, exchanges)
        self._barrier(arrived)
        first, loaded = self._weights(planned)
        self._barrier(loaded)
        ahead, behind = self._computing(planned)
        begin = np.maximum(np.maximum(self.done, arrived), first)[cores]
        self.began[cores] = begin
        self.done[cores] = np.maximum(begin + ahead, loaded[cores])
        ends = self.done.copy()
        self._barrier(self.done)
        self._sums(exchanges, ends)
        self._barrier(self.done)
        self.done[cores] += behind
        self._barrier(self.done)
        made = np.zeros(self.plan.cores)
        made[cores] = self.done[cores]
        self.made[planned.layer.output] = made
        return float(made.max())

    def _computing(self, planned: Planned) -> tuple[Cycles, Cycles]:
        """Each part's cycles before the exchange of partial sums, and after it."""
        if self.times is None:
            peak = planned.layer.op.flops * np.array(planned.shares) / self.model.flops_per_cycle
            return peak, np.zeros(len(peak))
        each = [[self.times[task].compute_cycles for task in tasks] for tasks in planned.tasks]
        return np.array([own[0] for own in each]), np.array([sum(own[1:]) for own in each])

    def _barrier(self, times: Cycles) -> None:
        """Unless steps overlap, raise all times to the latest of them."""
        if not self.overlapped:
            self.done[:] = max(times.max(), self.done.max())
            times[:] = self.done

    def _inputs(self, cores: list[int], exchanges: Exchanges) -> Cycles:
        """Times at which each core has received its operands from other layers.

        Messages leave in rounds, so that no core receives two at once. A message waits until the
        source has computed it and the target has begun the layer before, which frees a buffer.
        """
        arrived, free = np.zeros(self.plan.cores), self._free()
        sent, leaves, values, trees = [np.zeros((2, 0), np.int64)], [], [], list[Integers]()
        for name, found in exchanges.inputs:
            made = self.made[name]
            arrived[cores] = np.maximum(arrived, made)[cores]
            messages = messages_of(found, self.plan.cores)
            sent.append(np.stack([messages.sources, messages.targets]))
            leaves.append(np.maximum(made[messages.sources], free[messages.targets]))
            values.append(_values(found)[messages.moves])
            trees.append(messages.moves + sum(map(len, trees)))  # unique over all tensors
        if leaves:
            ways = np.concatenate(sent, axis=1)
            given = (np.concatenate(own) for own in (leaves, values, trees))
            np.maximum.at(arrived, ways[1], self._sent(*ways, *given))
        return arrived

    def _free(self) -> Cycles:
        return self.began if self.overlapped else self.done

    def _weights(self, planned: Planned) -> tuple[Cycles, Cycles]:
        """Times at which each core receives the first and the last of its weights and inputs from
        main memory.
        """
        first, last = [0.0] * self.plan.cores, [0.0] * self.plan.cores
        known: dict[object, tuple[float, float]] = {}
        free = self._free().tolist()
        for core, part in zip(planned.cores, planned.division.parts, strict=True):
            for key, box in self._from_memory(planned.layer, part):
                if not (self.model.multicasts and (key, box) in known):
                    begin = max(self.memory_free, free[core])
                    stream = box.size / self.model.load_values_per_cycle
                    self.memory_free = begin + stream
                    latency = self.model.load_latency_cycles
                    known[key, box] = (begin + latency, begin + stream + latency)
                begin, end = known[key, box]
                first[core] = min(first[core], begin) if first[core] else begin
                last[core] = max(last[core], end)
        return np.array(first), np.array(last)

    def _from_memory(self, layer: Layer, part: Part) -> Iterable[tuple[str, Box]]:
        for name, box in layer.needed(part.summed, part.terms):
            if name not in self.made and box.size:
                yield name, box
        if not self.model.own:
            yield from layer.weights(part.summed, part.terms, part.kept)

    def _sums(self, exchanges: Exchanges, ends: Cycles) -> None:
        """Send partial sums to the cores that finish them, one message per source and target."""
        found = messages_of(exchanges.sums, self.plan.cores)
        values = _values(exchanges.sums)[found.moves] * self.model.sum_values
        alone = np.arange(len(values))
        times = self._sent(found.sources, found.targets, ends[found.sources], values, alone)
        np.maximum.at(self.done, found.targets, times)

    def _sent(
        self, sources: Integers, targets: Integers, leaves: Cycles, values: Integers,
        trees: Integers,
    ) -> Cycles:  # fmt: skip
        """Arrival times of messages that are ready at `leaves`; links serve them in order of
        arrival. Messages of one multicast share a number in `trees` and pass each link once.
        """
        fabric = self.model.fabric
        ways = places(fabric, sources, targets)
        passed = 2 * ways.here * (self.nodes + 1) + ways.there + self.nodes + 1
        passes = np.arange(len(passed))
        if self.model.multicasts:
            every = np.repeat(trees, ways.lengths) * len(self.links) + passed
            passes = np.unique(every, return_inverse=True)[1].ravel()
        sizes, number = np.unique(values * self.model.value_bytes, return_inverse=True)
        spacing = np.array([spacing_cycles(fabric, size) for size in sizes.tolist()])
        lasting = np.array([message_cycles(fabric, size) for size in sizes.tolist()])
        return arrivals(
            leaves + fabric.send_cycles,
            ways.lengths.cumsum(),
            passed,
            ways.cycles,
            passes,
            spacing[number.ravel()],
            lasting[number.ravel()],
            self.links,
        )


def _values(moves: Sequence[Move]) -> Integers:
    return np.array([move.box.size for move in moves], np.int64)
