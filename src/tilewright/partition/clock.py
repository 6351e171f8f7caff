"""A plan on one clock: what each core computes, and every message on every link that it takes.

In: a plan and a model of the machine. Out: when each layer is done, bulk-synchronous as the BWDSP
paper has it (nothing of a step begins before all of the step before is done), or overlapped. In
the latter a core computes as soon as it has its inputs; the third of its rotating buffers takes the
next layer's input, and main memory delivers the next layer's weights, from when it begins the layer
before. Weights stream through: a core is not done before they have all come. A message passes its
links as `machine.messages` says; cores and links serve what is asked for first. Nothing here was
measured.
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
    """Cycles from the start at which all cores have finished each layer. They compute at their peak
    or, with `times`, as long as their programs take.
    """
    clock = _Clock(plan, model, overlapped, times)
    both = zip(plan.layers, plan.exchanges, strict=True)
    return [clock.advance(planned, exchanges) for planned, exchanges in both]


@dataclass
class _Clock:
    """State of the simulated cores: the times at which each began and finished its last layer, at
    which each link and main memory are free, and at which each core had its part of each tensor.
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
        """One layer; when its last core is done."""
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
        """Cycles of each core before it gets sums of others, and behind that."""
        if self.times is None:
            peak = planned.layer.op.flops * np.array(planned.shares) / self.model.flops_per_cycle
            return peak, np.zeros(len(peak))
        each = [[self.times[task].compute_cycles for task in tasks] for tasks in planned.tasks]
        return np.array([own[0] for own in each]), np.array([sum(own[1:]) for own in each])

    def _barrier(self, times: Cycles) -> None:
        """Unless steps overlap nothing goes on before all of this is done."""
        if not self.overlapped:
            self.done[:] = max(times.max(), self.done.max())
            times[:] = self.done

    def _inputs(self, cores: list[int], exchanges: Exchanges) -> Cycles:
        """Times at which each core has received what it reads of other layers.

        Messages leave in an order in which no core has to take two at once: not before the source
        has made them, and the target begun the layer before, which frees a buffer.
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
            trees.append(messages.moves + sum(map(len, trees)))  # apart from other tensors' moves
        if leaves:
            ways = np.concatenate(sent, axis=1)
            given = (np.concatenate(own) for own in (leaves, values, trees))
            np.maximum.at(arrived, ways[1], self._sent(*ways, *given))
        return arrived

    def _free(self) -> Cycles:
        return self.began if self.overlapped else self.done

    def _weights(self, planned: Planned) -> tuple[Cycles, Cycles]:
        """Times at which each core begins to receive its weights and inputs from main memory, and
        at which it has all of them.
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
        """Partial sums go to who finishes them, each in a message of its own."""
        found = messages_of(exchanges.sums, self.plan.cores)
        values = _values(exchanges.sums)[found.moves] * self.model.sum_values
        alone = np.arange(len(values))
        times = self._sent(found.sources, found.targets, ends[found.sources], values, alone)
        np.maximum.at(self.done, found.targets, times)

    def _sent(
        self, sources: Integers, targets: Integers, leaves: Cycles, values: Integers,
        trees: Integers,
    ) -> Cycles:  # fmt: skip
        """Arrival times of messages that leave at `leaves` or later; who comes first takes a link
        first. Messages of one multicast have the same of `trees`, and pass each link once.
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
