"""A network divided over the cores of a machine.

In: what a family makes of a network. Out: a `DividedNetwork`: its plan, the time of each layer, and
the forms that the command line prints and writes (docs/reference/partition.md). A `LayerPlan` is
that of `plan.json`, who reads, computes and keeps what of a layer and who sends what to whom: with
the network, all that a runtime needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from msgspec import Struct, field

from tilewright.common.progress import Progress, silent
from tilewright.graph import Network
from tilewright.machine import Machine
from tilewright.ops.box import Box
from tilewright.ops.op import Array
from tilewright.partition.clock import finish_cycles
from tilewright.partition.core_model import CoreModel
from tilewright.partition.execute import SUMS, execute
from tilewright.partition.layers import Layer
from tilewright.partition.moves import Exchanges, Move
from tilewright.partition.objective import Weights
from tilewright.partition.parts import Part, Programs, imbalance
from tilewright.partition.plan import PartitionPlan, Planned
from tilewright.partition.timing import (
    LayerTime,
    LayerTraffic,
    ProgramTime,
    layer_times,
    layer_traffic,
    program_times,
)

Region = tuple[tuple[int, int], ...]
"""[first, one past the last] of each dimension."""


class PartPlan(Struct, frozen=True):
    """One core's part of a layer: it `reads` regions of tensors that it has or gets, takes regions
    of `weights` in the operator's shape, adds up some or all terms of the first operator's result,
    and keeps a region of the layer's.
    """

    core: int
    keeps: Region
    adds_up: Region
    terms: Region | None
    reads: Mapping[str, Region]
    weights: Mapping[str, Region]


class MovePlan(Struct, frozen=True):
    """A region of a `tensor` sent to several cores, to each in a round of its own: `rounds` has
    that of each target. Of each tensor what is of one round is sent together, lower rounds first.
    """

    tensor: str
    source: int
    targets: tuple[int, ...]
    rounds: tuple[int, ...]
    region: Region
    adds: bool


class LayerPlan(Struct, frozen=True):
    """Plan of one layer: the part of each core, the moves before it and, for sums, those behind
    it.
    """

    name: str
    result: str
    strategy: str
    parts: tuple[PartPlan, ...] = field(name="shares")
    moves: tuple[MovePlan, ...]


def layer_plans(plan: PartitionPlan) -> list[LayerPlan]:
    """Every part and every move, the layers in the order in which they are computed."""
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
    """One layer. `divides` names what the grid cuts, `tile` is the largest region of its sums that
    a core has; `imbalance` what the busiest core computes over the average of all cores that
    compute. Values are counted once for each core that gets them, or once in all where the fabric
    multicasts. The busiest core takes `compute_ms` at its peak. The slowest of the cores'
    `programs` computes for `program_ms`; one takes `streamed_ms` whose inputs, weights and results
    pass its ports meanwhile, tile by tile.
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
    """The whole network. The plan's `cost` is that of its objective, values, cycles, or values and
    cycles as values; `bound` is below that of any plan of these grids, and none costs less than
    this one where it is `proven`. `bound_values` is the bound where values are all that counts.
    Of all layers together `considered` grids were there to choose from. `moved_values` are of all
    kinds; where the fabric is a `multicast` one each counts once, however many cores get it.

    Times are the model's: `steps_ms` is the sum of the layers' parts, one after the other;
    `clocked_ms` the same with every message on its links; `overlapped_ms` is that of cores that go
    on as soon as they have what they need. Cores compute at their peak in these; `program_ms` and
    `program_overlapped_ms` are step by step and overlapped with what their programs take.
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

    def run(self, feeds: Mapping[str, Array], progress: Progress = silent) -> dict[str, Array]:
        """The outputs, computed by the programs of cores that each see their own memory alone."""
        steps = partial(progress, "compute")
        return execute(self.network, self.plan, feeds, self.programs.compute, steps)

    def result(self, progress: Progress = silent) -> DividedResult:
        """The figures that the command line prints."""
        plan, model, ms = self.plan, self.model, 1000 / self.machine.clock_hz
        times, volume = layer_times(plan, model), plan.volume
        parts, programs = program_times(plan, self.programs, progress)
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
        """Every part and every move: what a runtime needs."""
        return layer_plans(self.plan)

    def traffic(self) -> list[LayerTraffic]:
        """For each layer, the traffic of each link and of each core."""
        return layer_traffic(self.plan, self.model)


def _layer(
    planned: Planned, time: LayerTime, program: ProgramTime, cores: int, ms: float
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
