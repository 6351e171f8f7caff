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
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilewright.machine.messages import message_cycles, places, spacing_cycles
from tilewright.machine.parts import Fabric
from tilewright.ops.box import Box
from tilewright.partition.compiled import arrivals
from tilewright.partition.core_model import CoreModel
from tilewright.partition.layers import Layer
from tilewright.partition.moves import Exchanges, Move, rounds
from tilewright.partition.parts import Part, Times, tasks_of, work_of
from tilewright.partition.plan import PartitionPlan, Planned


@dataclass(frozen=True)
class Message:
    """Values sent from one core to another at `leaves_cycles` or later. Messages of one multicast
    part a `tree`, and pass each link once.
    """

    leaves_cycles: float
    source: int
    target: int
    values: int
    tree: object


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
    links: NDArray[np.float64] = field(init=False)
    made: dict[str, dict[int, float]] = field(default_factory=dict)
    began: list[float] = field(default_factory=list)
    done: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.began, self.done = [0.0] * self.plan.cores, [0.0] * self.plan.cores
        fabric = self.model.fabric
        self.nodes = fabric.columns * max(fabric.rows, -(-self.plan.cores // fabric.columns))
        self.links = np.zeros(2 * self.nodes * (self.nodes + 1))

    def advance(self, planned: Planned, exchanges: Exchanges) -> float:
        """One layer; when its last core is done."""
        arrived = self._inputs(planned, exchanges)
        self._barrier(arrived)
        first, loaded = self._weights(planned)
        self._barrier(loaded)
        ends, behind = {}, {}
        for core, part in zip(planned.cores, planned.division.parts, strict=True):
            begin = max(self.done[core], arrived[core], first[core])
            cycles, behind[core] = self._computing(planned.layer, part)
            self.began[core] = begin
            self.done[core] = ends[core] = max(begin + cycles, loaded[core])
        self._barrier(self.done)
        self._sums(exchanges, ends)
        self._barrier(self.done)
        for core, cycles in behind.items():
            self.done[core] += cycles
        self._barrier(self.done)
        self.made[planned.layer.output] = {core: self.done[core] for core in planned.cores}
        return max(self.done[core] for core in planned.cores)

    def _computing(self, layer: Layer, part: Part) -> tuple[float, float]:
        """Cycles before a core gets sums of others, and behind that."""
        if self.times is None:
            return layer.op.flops * work_of(layer, part) / self.model.flops_per_cycle, 0.0
        first, *others = (self.times[task].compute_cycles for task in tasks_of(layer, part))
        return first, sum(others)

    def _barrier(self, times: list[float]) -> None:
        """Unless steps overlap nothing goes on before all of this is done."""
        if not self.overlapped:
            latest = max(*times, *self.done)
            self.done = [latest] * self.plan.cores
            times[:] = self.done

    def _inputs(self, planned: Planned, exchanges: Exchanges) -> list[float]:
        """Times at which each core has received what it reads of other layers."""
        arrived = [0.0] * self.plan.cores
        messages = []
        for name, found in exchanges.inputs:
            made = self.made[name]
            for core in planned.cores:
                arrived[core] = max(arrived[core], made.get(core, 0.0))
            messages += self._leaving(name, found, made)
        for target, time in self._sent(messages):
            arrived[target] = max(arrived[target], time)
        return arrived

    def _leaving(self, name: str, found: Sequence[Move], made: dict[int, float]) -> list[Message]:
        """Messages, in an order in which no core has to take two at once: not before the source
        has made them, and the target begun the layer before, which frees a buffer.
        """
        alike = self.model.multicasts
        return [
            Message(
                max(made[source], self._free(target)),
                source,
                target,
                box.size,
                (name, source, box) if alike else (name, source, box, target),
            )
            for together in rounds(found, self.plan.cores)
            for source, target, box in together
        ]

    def _free(self, core: int) -> float:
        return self.began[core] if self.overlapped else self.done[core]

    def _weights(self, planned: Planned) -> tuple[list[float], list[float]]:
        """Times at which each core begins to receive its weights and inputs from main memory, and
        at which it has all of them.
        """
        first, last = [0.0] * self.plan.cores, [0.0] * self.plan.cores
        known: dict[object, tuple[float, float]] = {}
        for core, part in zip(planned.cores, planned.division.parts, strict=True):
            for key, box in self._from_memory(planned.layer, part):
                if not (self.model.multicasts and (key, box) in known):
                    begin = max(self.memory_free, self._free(core))
                    stream = box.size / self.model.load_values_per_cycle
                    self.memory_free = begin + stream
                    latency = self.model.load_latency_cycles
                    known[key, box] = (begin + latency, begin + stream + latency)
                begin, end = known[key, box]
                first[core] = min(first[core], begin) if first[core] else begin
                last[core] = max(last[core], end)
        return first, last

    def _from_memory(self, layer: Layer, part: Part) -> Iterable[tuple[str, Box]]:
        for name, box in layer.needed(part.summed, part.terms):
            if name not in self.made and box.size:
                yield name, box
        if not self.model.own:
            yield from layer.weights(part.summed, part.terms, part.kept)

    def _sums(self, exchanges: Exchanges, ends: dict[int, float]) -> None:
        """Partial sums go to who finishes them."""
        messages = [
            Message(
                ends[source],
                source,
                target,
                box.size * self.model.sum_values,
                (source, target, box),
            )
            for together in rounds(exchanges.sums, self.plan.cores)
            for source, target, box in together
        ]
        for target, time in self._sent(messages):
            self.done[target] = max(self.done[target], time)

    def _sent(self, messages: Sequence[Message]) -> list[tuple[int, float]]:
        """Target and arrival time of each message; who comes first takes a link first."""
        if not messages:
            return []
        fabric, sizes = self.model.fabric, [m.values * self.model.value_bytes for m in messages]
        ways = [_way(fabric, self.nodes, one.source, one.target) for one in messages]
        links = np.concatenate([own for own, _ in ways])
        lengths = np.array([len(own) for own, _ in ways])
        passes = np.arange(len(links))
        if self.model.multicasts:
            trees: dict[object, int] = {}
            numbers = [trees.setdefault(one.tree, len(trees)) for one in messages]
            every = np.repeat(numbers, lengths) * len(self.links) + links
            passes = np.unique(every, return_inverse=True)[1].ravel()
        times = arrivals(
            np.array([one.leaves_cycles + fabric.send_cycles for one in messages]),
            lengths.cumsum(),
            links,
            np.concatenate([hops for _, hops in ways]),
            passes,
            np.array([spacing_cycles(fabric, size) for size in sizes]),
            np.array([message_cycles(fabric, size) for size in sizes]),
            self.links,
        )
        return list(zip((one.target for one in messages), times.tolist(), strict=True))


@lru_cache(1 << 17)
def _way(
    fabric: Fabric, nodes: int, source: int, target: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Numbers of the places that a message passes, and the cycles to each from the one before."""
    passed = places(fabric, source, target)
    links = [2 * a * (nodes + 1) + b + nodes + 1 for (a, b), _ in passed]
    return np.array(links), np.array([hop for _, hop in passed])
