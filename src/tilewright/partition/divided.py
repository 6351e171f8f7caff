"""A network divided over the cores of a machine.

In: a family's plan and programs for a network. Out: a `DividedNetwork`: its plan, the time of each
layer, and the forms that the command line prints and writes (docs/reference/partition.md). A
`LayerPlan` is one entry of `plan.json`: the regions of a layer that each core reads, computes and
keeps, and the messages between cores. With the network it is all that a runtime needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from msgspec import Struct, field

from tilewright.common.errors import PartitionError
from tilewright.common.progress import Progress, Steps, silent, uncounted
from tilewright.graph import Network
from tilewright.graph.names import quoted
from tilewright.machine import Machine
from tilewright.ops.box import Box
from tilewright.ops.op import Array, Arrays
from tilewright.partition import timing
from tilewright.partition.clock import finish_cycles
from tilewright.partition.layers import Layer
from tilewright.partition.moves import (
    Exchanges,
    Held,
    Move,
    held,
    moves_to,
    needs,
    reductions,
    rounds,
)
from tilewright.partition.objective import CoreModel, Weights
from tilewright.partition.parts import Computes, Part, Programs, Task, by_reference, imbalance
from tilewright.partition.plan import PartitionPlan, Planned

SUMS = " sums"
"""Suffix of a tensor's name: the sums of the layer's first step, each core with some terms."""


class CoreMemory:
    """The regions of tensors that one core has: weights and the network's inputs from outside, all
    else by the plan's messages. A value that it never received is an error, not a wrong number.
    """

    def __init__(self, core: int) -> None:
        self.core = core
        self._parts: dict[str, list[tuple[Box, Array]]] = {}

    def put(self, name: str, box: Box, values: Array) -> None:
        """Keep a region."""
        self._parts.setdefault(name, []).append((box, values))

    def read(self, name: str, box: Box) -> Array:
        """A region, assembled from the stored parts. Raises PartitionError on a missing element."""
        found, missing = np.zeros(box.shape), np.ones(box.shape, bool)
        for own, values in self._parts.get(name, ()):
            common = own & box
            if common.size:
                if found.dtype != values.dtype:
                    found = found.astype(values.dtype)
                found[common.within(box).slices] = values[common.within(own).slices]
                missing[common.within(box).slices] = False
        if missing.any():
            place = np.argwhere(missing)[0] + box.start
            raise PartitionError(
                f"core {self.core} reads element {tuple(place.tolist())} of {quoted(name)}, "
                "which it neither computed nor got",
                fix="a move is missing in the plan",
            )
        return found


class Execution:
    """One run of a plan. `memories` holds one memory per core; `computes` evaluates a task."""

    def __init__(
        self,
        network: Network,
        plan: PartitionPlan,
        feeds: Arrays,
        computes: Computes = by_reference,
        steps: Steps = uncounted,
    ) -> None:
        self._network, self._plan, self._computes, self._steps = network, plan, computes, steps
        self._given = {**network.values, **feeds}
        self._owners: dict[str, Held] = {}
        self.memories = [CoreMemory(core) for core in range(plan.cores)]

    def run(self) -> dict[str, Array]:
        """The outputs by name. Raises PartitionError where a core lacks what it reads."""
        for number, planned in enumerate(self._plan.layers):
            self._steps(number, len(self._plan.layers))
            self._exchange_inputs(planned)
            self._compute(planned)
            self._owners[planned.layer.output] = held(planned.division, planned.cores)
        return {name: self._assembled(name) for name in self._network.outputs}

    def messages(self, name: str, found: Sequence[Move]) -> Sequence[Move]:
        """The moves of a tensor that are carried out; all, unless a subclass drops some."""
        return found

    def _exchange_inputs(self, planned: Planned) -> None:
        for name, wanted in needs(planned.layer, planned.division, planned.cores).items():
            if name in self._owners:
                self._send(name, moves_to(self._owners[name], wanted))
                continue
            for core, box in wanted:
                self.memories[core].put(name, box, self._given[name][box.slices])

    def _send(self, name: str, found: Sequence[Move]) -> None:
        for together in rounds(self.messages(name, found), self._plan.cores):
            read = [(t, box, self.memories[s].read(name, box)) for s, t, box in together]
            for target, box, values in read:
                self.memories[target].put(name, box, values)

    def _compute(self, planned: Planned) -> None:
        layer, division = planned.layer, planned.division
        every = list(zip(planned.cores, division.parts, strict=True))
        found = {
            core: self._first_step(layer, part, first, self.memories[core])
            for (core, part), (first, *_) in zip(every, planned.tasks, strict=True)
        }
        if division.partial:
            found = self._reduced(planned, found)
        for (core, part), (_, *others) in zip(every, planned.tasks, strict=True):
            if part.kept.size:
                values = found[core]
                for task in others:
                    (own, *more) = self._step_operands(layer, part.kept)
                    values = self._computes(task, [[values, *own], *more])
                self.memories[core].put(layer.output, part.kept, values)

    def _first_step(self, layer: Layer, part: Part, task: Task, memory: CoreMemory) -> Array:
        """One core's result of its first task: its sums, or its finished region."""
        op, first = layer.op, layer.steps[0]
        computed = op.computable(part.summed, part.terms)
        operands = []
        for name, box, shape in zip(
            first.operands, op.needed(computed, part.terms), op.input_shapes, strict=True
        ):
            if box.size and name in layer.reads:
                operands.append(memory.read(name, box))
            elif box.size:
                operands.append(self._weight(name, shape, box))
        if len(task.ops) > 1:
            return self._computes(task, [operands, *self._step_operands(layer, part.kept)])
        return self._computes(task, [operands])[part.summed.within(computed).slices]

    def _weight(self, name: str, shape: Sequence[int], box: Box) -> Array:
        return self._given[name].reshape(shape)[box.slices]

    def _reduced(self, planned: Planned, partial: Mapping[int, Array]) -> dict[int, Array]:
        """The complete sums of the region that each core finishes."""
        layer, division = planned.layer, planned.division
        wide = np.int64 if not layer.op.numerics.is_float else None
        totals: dict[int, Array] = {}
        counted: dict[int, Array] = {}
        regions: dict[int, Box] = {}
        sums = {c: s.summed for c, s in zip(planned.cores, division.parts, strict=True)}
        for core, part in zip(planned.cores, division.parts, strict=True):
            if part.kept.size:
                region = regions[core] = layer.regions(part.kept)[0]
                own = partial[core][region.within(part.summed).slices]
                totals[core] = own.astype(wide or own.dtype)
                counted[core] = np.ones(region.shape, np.int64)
        found = self.messages(layer.output + SUMS, reductions(layer, division, planned.cores))
        for together in rounds(found, self._plan.cores):
            for source, target, box in together:
                place = box.within(regions[target]).slices
                totals[target][place] += partial[source][box.within(sums[source]).slices]
                counted[target][place] += 1
        for core, counts in counted.items():
            _require_all_terms(layer, core, regions[core], counts, division.grid.parts)
        if layer.op.numerics.is_float:
            return totals
        back = layer.op.numerics.write_back
        return {core: back(total) for core, total in totals.items()}

    def _step_operands(self, layer: Layer, kept: Box) -> list[list[Array]]:
        """The weights of every step after the first, for the region `kept` that a core finishes."""
        found = []
        for step, region in zip(layer.steps[1:], layer.regions(kept)[1:], strict=True):
            names, shapes = step.operands[1:], step.op.input_shapes[1:]
            boxes = step.op.needed(region)[1:]
            both = zip(names, shapes, boxes, strict=True)
            found.append([self._weight(name, shape, box) for name, shape, box in both])
        return found

    def _assembled(self, name: str) -> Array:
        """A whole tensor, assembled from its owners' regions."""
        if name not in self._owners:
            return self._given[name]
        tensor = self._network.tensors[name]
        found: Array | None = None
        for core, box in self._owners[name].owners:
            values = self.memories[core].read(name, box)
            found = np.empty(tensor.shape, values.dtype) if found is None else found
            found[box.slices] = values
        assert found is not None, name
        return found


def execute(
    network: Network,
    plan: PartitionPlan,
    feeds: Arrays,
    computes: Computes = by_reference,
    steps: Steps = uncounted,
) -> dict[str, Array]:
    """The outputs of `network` by name, computed by `plan` on cores with a memory each.

    `feeds` holds the inputs, and the weights that `network` carries no values for; `computes`
    evaluates a task on its operands; `steps` counts the layers.
    """
    return Execution(network, plan, feeds, computes, steps).run()


def _require_all_terms(layer: Layer, core: int, region: Box, counts: Array, parts: int) -> None:
    if (counts != parts).any():
        place = np.argwhere(counts != parts)[0]
        element = tuple((place + region.start).tolist())
        raise PartitionError(
            f"core {core} finishes element {element} of {layer.name} with "
            f"{counts[tuple(place)]} of {parts} parts of its sum",
            fix="a move is missing in the plan",
        )


Region = tuple[tuple[int, int], ...]
"""First index and one past the last, for each dimension."""


class PartPlan(Struct, frozen=True):
    """One core's part of a layer. It `reads` regions of tensors that it has or receives and regions
    of `weights` in the operator's shape, `adds_up` a region of the first operator's result over
    some `terms` (None: all), and `keeps` a region of the layer's result.
    """

    core: int
    keeps: Region
    adds_up: Region
    terms: Region | None
    reads: Mapping[str, Region]
    weights: Mapping[str, Region]


class MovePlan(Struct, frozen=True):
    """A region of a `tensor` sent to several cores. `rounds` holds the round of each target; the
    moves of one tensor in one round go together, lower rounds first.
    """

    tensor: str
    source: int
    targets: tuple[int, ...]
    rounds: tuple[int, ...]
    region: Region
    adds: bool


class LayerPlan(Struct, frozen=True):
    """Plan of one layer: the part of each core, the moves of its operands, then of its sums."""

    name: str
    result: str
    strategy: str
    parts: tuple[PartPlan, ...] = field(name="shares")
    moves: tuple[MovePlan, ...]


def layer_plans(plan: PartitionPlan) -> list[LayerPlan]:
    """Every part and every move, layer by layer in the order of computation."""
    both = zip(plan.layers, plan.exchanges, strict=True)
    return [_layer_plan(planned, sent, plan.cores) for planned, sent in both]


def _layer_plan(planned: Planned, exchanges: Exchanges, cores: int) -> LayerPlan:
    layer, parts = planned.layer, zip(planned.cores, planned.division.parts, strict=True)
    named = [*exchanges.inputs, (layer.output + SUMS, exchanges.sums)]
    return LayerPlan(
        layer.name,
        layer.output,
        planned.division.strategy,
        tuple(_part_plan(layer, core, part) for core, part in parts),
        tuple(one for name, sent in named for one in _move_plans(name, sent, cores)),
    )


def _part_plan(layer: Layer, core: int, part: Part) -> PartPlan:
    return PartPlan(
        core,
        part.kept.sides,
        part.summed.sides,
        None if part.terms is None else part.terms.sides,
        _sides(layer.needed(part.summed, part.terms)),
        _sides(layer.weights(part.summed, part.terms, part.kept)),
    )


def _sides(named: Iterable[tuple[str, Box]]) -> dict[str, Region]:
    return {name: box.sides for name, box in named}


def _move_plans(tensor: str, sent: Iterable[Move], cores: int) -> Iterator[MovePlan]:
    for move in sent:
        rounds = tuple((target - move.source) % cores for target in move.targets)
        yield MovePlan(tensor, move.source, move.targets, rounds, move.box.sides, move.adds)


class DividedLayer(Struct, frozen=True):
    """Figures of one layer. `divides` names what the grid cuts; `tile` is the largest region of
    sums on one core; `imbalance` is the busiest core's work over the average of all cores that
    compute. A value counts once per core that receives it, or once in all where the fabric
    multicasts. `compute_ms` is the busiest core's time at its peak. `programs` counts the different
    programs; `program_ms` is the slowest core's computation, and `streamed_ms` the slowest core's
    time if inputs, weights and results also pass its ports, tile by tile.
    """

    name: str
    operator: str
    strategy: str
    divides: str
    grid: str
    tile: tuple[int, ...]
    reads: tuple[int, ...]
    busy_cores: int
    idle_cores: tuple[int, ...]
    imbalance: float
    activations: int
    inputs: int
    weights: int
    sums: int
    messages: int
    busiest_link_bytes: int
    compute_ms: float
    exchange_ms: float
    weights_ms: float
    programs: int
    program_ms: float
    streamed_ms: float


class DividedResult(Struct, frozen=True):
    """Figures of the whole network. `cost` is the plan's value of its `objective`: values moved,
    cycles, or a weighted sum of both. `bound` is a lower bound on the cost of any plan of these
    grids; where `proven`, this plan is the cheapest of them. `bound_values` is that bound where
    only values count. `considered` counts the grids of all layers. `moved_values` counts values of
    all kinds; on a `multicast` fabric each counts once, however many cores receive it.

    All times are modelled. `steps_ms` sums the phases of all layers, one after the other;
    `clocked_ms` also puts every message on its links; `overlapped_ms` lets each core go on as soon
    as its operands are there. In these, cores compute at their peak; `program_ms` and
    `program_overlapped_ms` are `steps_ms` and `overlapped_ms` with the times of the programs.
    `simulated_ms` is the time of all cores' programs simulated together with every message, where
    that was done.
    """

    machine: str
    network: str
    dtype: str
    cores: int
    proven: bool
    considered: int
    multicast: bool
    moved_values: int
    bound_values: int | None
    steps_ms: float
    overlapped_ms: float
    clocked_ms: float
    program_ms: float
    program_overlapped_ms: float
    objective: str
    cost: float
    bound: float
    layers: tuple[DividedLayer, ...]
    simulated_ms: float | None = None


@dataclass(frozen=True)
class DividedNetwork:
    """A plan with its times on one machine."""

    network: Network
    machine: Machine
    element: str
    plan: PartitionPlan
    model: CoreModel
    weights: Weights
    programs: Programs

    def run(self, feeds: Arrays, progress: Progress = silent) -> dict[str, Array]:
        """The outputs, computed by the cores' programs, each on its core's memory alone."""
        steps = partial(progress, "compute")
        return execute(self.network, self.plan, feeds, self.programs.compute, steps)

    def result(self, progress: Progress = silent) -> DividedResult:
        """The figures that the command line prints."""
        plan, model, ms = self.plan, self.model, 1000 / self.machine.clock_hz
        times, volume = timing.layer_times(plan, model), plan.volume
        parts, programs = timing.program_times(plan, self.programs, progress)
        steps = sum(time.steps_cycles for time in times)
        peak = sum(time.compute_cycles for time in times)
        computed = sum(program.slowest.compute_cycles for program in programs)
        ends = []
        for number, (overlapped, own) in enumerate(((True, None), (False, None), (True, parts))):
            progress("put messages on links", number, 3)
            ends.append(finish_cycles(plan, model, overlapped=overlapped, times=own)[-1] * ms)
        progress("put messages on links", 3, 3)
        overlapped_ms, clocked_ms, programs_ms = ends
        return DividedResult(
            self.machine.name,
            self.network.name,
            self.element,
            plan.cores,
            plan.proven,
            plan.considered,
            model.multicasts,
            volume.total,
            None if self.weights.cycles else round(plan.bound),
            steps * ms,
            overlapped_ms,
            clocked_ms,
            (steps - peak + computed) * ms,
            programs_ms,
            self.weights.describe(),
            plan.cost,
            plan.bound,
            tuple(
                _layer(one, time, program, plan.cores, ms)
                for one, time, program in zip(plan.layers, times, programs, strict=True)
            ),
        )

    def layer_plans(self) -> list[LayerPlan]:
        """Every part and every move, as a runtime needs them."""
        return layer_plans(self.plan)

    def traffic(self) -> list[timing.LayerTraffic]:
        """For each layer, the traffic of each link and of each core."""
        return timing.layer_traffic(self.plan, self.model)


def _layer(
    planned: Planned, time: timing.LayerTime, program: timing.ProgramTime, cores: int, ms: float
) -> DividedLayer:
    layer, division, volume = planned.layer, planned.division, planned.volume
    parts = zip(planned.cores, division.parts, strict=True)
    busy = {core for core, part in parts if part.summed.size}
    largest = max(division.parts, key=lambda part: part.summed.size)
    reads = [box.shape for _, box in layer.needed(largest.summed, largest.terms)]
    return DividedLayer(
        layer.name,
        layer.op.describe(),
        division.strategy,
        division.grid.divides(),
        division.grid.describe(),
        division.tile,
        reads[0] if reads else (),
        len(busy),
        tuple(core for core in range(cores) if core not in busy),
        imbalance(layer, division.parts),
        volume.activations,
        volume.inputs,
        volume.weights,
        volume.sums,
        time.messages,
        time.busiest_link_bytes,
        time.compute_cycles * ms,
        time.exchange_cycles * ms,
        time.weights_cycles * ms,
        program.programs,
        program.slowest.compute_cycles * ms,
        program.slowest.streamed_cycles * ms,
    )
