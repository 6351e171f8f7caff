"""Time and traffic of a plan on a machine whose cores exchange regions over a grid, step by step.

In: a plan and a model of the machine. Out: cycles of each layer: of its exchanges, of its busiest
core's computation at peak, and of the delivery of its weights from main memory. An exchange covers
one tensor, or the partial sums. Messages go along rows first, then along columns; an exchange takes
the time of its busiest link or port plus the latency of its longest route. The sum of these phases
is the bulk-synchronous time of the BWDSP paper, which the planner counts; `clock` simulates every
message on its links. Times of the cores' programs are reported beside those at peak. `LayerTraffic`
is one entry of `traffic.json` (docs/reference/partition.md): bytes over every link, and the work
and traffic of each core. All times are modelled, none measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import Struct

from tilewright.common.progress import Progress, silent
from tilewright.machine.messages import Link, links
from tilewright.partition.moves import Exchanges, Move, messages_of
from tilewright.partition.objective import CoreModel
from tilewright.partition.parts import Programs, Task, TaskTime, Times
from tilewright.partition.plan import PartitionPlan, Planned


@dataclass(frozen=True)
class LayerTime:
    """Cycles of one layer's phases, the bytes over its busiest link, and its messages."""

    compute_cycles: float
    exchange_cycles: float
    weights_cycles: float
    busiest_link_bytes: int
    messages: int

    @property
    def steps_cycles(self) -> float:
        """Sum of the phases: bulk-synchronous cycles."""
        return self.compute_cycles + self.exchange_cycles + self.weights_cycles


@dataclass(frozen=True)
class ProgramTime:
    """Number of different programs for a layer, and the times of the slowest core."""

    programs: int
    slowest: TaskTime


def program_times(
    plan: PartitionPlan, programs: Programs, progress: Progress = silent
) -> tuple[Times, tuple[ProgramTime, ...]]:
    """The time of each distinct task, and the program time of each layer."""
    different: dict[Task, str] = {}
    for planned in plan.layers:
        for task in (task for tasks in planned.tasks for task in tasks):
            different.setdefault(task, planned.layer.name)
    times = programs.times(different, progress)
    return times, tuple(_program_time(planned.tasks, times) for planned in plan.layers)


def _program_time(parts: Sequence[tuple[Task, ...]], times: Times) -> ProgramTime:
    alike = set(parts)
    compute = max(sum(times[task].compute_cycles for task in tasks) for tasks in alike)
    streamed = max(sum(times[task].streamed_cycles for task in tasks) for tasks in alike)
    return ProgramTime(
        len({task for tasks in alike for task in tasks}), TaskTime(compute, streamed)
    )


def layer_times(plan: PartitionPlan, model: CoreModel) -> tuple[LayerTime, ...]:
    both = zip(plan.layers, plan.exchanges, strict=True)
    return tuple(_layer_time(planned, sent, model) for planned, sent in both)


def _layer_time(planned: Planned, exchanges: Exchanges, model: CoreModel) -> LayerTime:
    cycles, busiest, messages = 0.0, 0, 0
    for sent in exchanges.each:
        loads, farthest = link_loads(model, sent)
        size = model.sum_values if sent is exchanges.sums else 1
        most = size * max(loads.values(), default=0)
        cycles += float(model.exchange_cycles(most, farthest))
        busiest = max(busiest, most)
        messages += sum(len(move.targets) for move in sent)
    return LayerTime(
        planned.work * planned.layer.op.flops / model.flops_per_cycle,
        cycles,
        float(model.load_cycles(model.outside(planned.volume.weights, planned.volume.inputs))),
        busiest * model.value_bytes,
        messages,
    )


def link_loads(model: CoreModel, sent: Sequence[Move]) -> tuple[Counter[Link], int]:
    """Values over each link and port, and the links of the longest route. Ports are links from a
    core to itself (sending) and to core -1 (receiving). A multicast passes each link once.
    """
    messages = messages_of(sent)
    lengths, here, there = links(model.fabric, messages.sources, messages.targets)
    here = np.concatenate([here, messages.sources, messages.targets])
    there = np.concatenate([there, messages.sources, np.full(len(messages.targets), -1)])
    moves = np.concatenate([np.repeat(messages.moves, lengths), messages.moves, messages.moves])
    width = max(here.max(initial=0), there.max(initial=0)) + 2
    passed = here * width + there + 1
    if model.multicasts:
        _, first = np.unique(np.stack([moves, passed]), axis=1, return_index=True)
        moves, passed = moves[first], passed[first]
    places, number = np.unique(passed, return_inverse=True)
    loads = np.zeros(len(places), np.int64)
    np.add.at(loads, number.ravel(), np.array([move.box.size for move in sent], np.int64)[moves])
    keys = zip((places // width).tolist(), (places % width - 1).tolist(), strict=True)
    return Counter(dict(zip(keys, loads.tolist(), strict=True))), lengths.max(initial=0).item()


class LinkTraffic(Struct, frozen=True):
    """Bytes on the link from core `source` to core `target`, its neighbour."""

    source: int
    target: int
    bytes: int


class CoreTraffic(Struct, frozen=True):
    """A core's fraction of the layer's `work`, and the bytes that it sends, receives, and loads as
    weights and inputs. A multicast leaves its source once.
    """

    core: int
    work: float
    sent_bytes: int
    received_bytes: int
    loaded_bytes: int


class LayerTraffic(Struct, frozen=True):
    """Traffic of one layer; idle links and cores are left out."""

    name: str
    links: tuple[LinkTraffic, ...]
    cores: tuple[CoreTraffic, ...]


def layer_traffic(plan: PartitionPlan, model: CoreModel) -> list[LayerTraffic]:
    made = {planned.layer.output for planned in plan.layers}
    found = []
    for planned, exchanges in zip(plan.layers, plan.exchanges, strict=True):
        carried: Counter[Link] = Counter()
        for sent in exchanges.each:
            carried.update(link_loads(model, sent)[0])
        over_links = tuple(
            LinkTraffic(source, target, values * model.value_bytes)
            for (source, target), values in sorted(carried.items())
            if target not in (source, -1)
        )
        cores = tuple(_cores(planned, plan.cores, carried, made, model.value_bytes))
        found.append(LayerTraffic(planned.layer.name, over_links, cores))
    return found


def _cores(
    planned: Planned, count: int, carried: Mapping[Link, int], made: set[str], value_bytes: int
) -> Iterator[CoreTraffic]:
    layer = planned.layer
    parts = dict(zip(planned.cores, planned.division.parts, strict=True))
    shares = dict(zip(planned.cores, planned.shares, strict=True))
    for core in range(count):
        work, loaded = shares.get(core, 0.0), 0
        if part := parts.get(core):
            read = layer.needed(part.summed, part.terms)
            loaded = sum(box.size for name, box in read if name not in made)
            weights = layer.weights(part.summed, part.terms, part.kept)
            loaded += sum(box.size for _, box in weights)
        values = (carried.get((core, core), 0), carried.get((core, -1), 0), loaded)
        if work or any(values):
            yield CoreTraffic(core, work, *(value * value_bytes for value in values))
