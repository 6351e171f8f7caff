"""A network divided over the cores of a machine.

In: what a family makes of a network. Out: a `DividedNetwork`: its plan, the time of each layer, and
the forms that the command line prints and writes (docs/reference/partition.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from msgspec import Struct

from tilewright.common.progress import Progress, silent
from tilewright.graph import Network
from tilewright.machine import Machine
from tilewright.ops.op import Array
from tilewright.partition.clock import finish_cycles
from tilewright.partition.core_model import CoreModel
from tilewright.partition.execute import execute
from tilewright.partition.layer_plans import LayerPlan, layer_plans
from tilewright.partition.objective import Weights
from tilewright.partition.parts import Programs, imbalance
from tilewright.partition.plan import PartitionPlan, Planned
from tilewright.partition.timing import LayerTime, ProgramTime, layer_times, program_times
from tilewright.partition.traffic import LayerTraffic, layer_traffic


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
        """Every share and every move: what a runtime needs."""
        return layer_plans(self.plan)

    def traffic(self) -> list[LayerTraffic]:
        """For each layer, the traffic of each link and of each core."""
        return layer_traffic(self.plan, self.model)


def _layer(
    planned: Planned, time: LayerTime, program: ProgramTime, cores: int, ms: float
) -> DividedLayer:
    layer, division, volume = planned.layer, planned.division, planned.volume
    shares = zip(planned.cores, division.shares, strict=True)
    busy = {core for core, share in shares if share.summed.size}
    largest = max(division.shares, key=lambda share: share.summed.size)
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
        imbalance(layer, division.shares),
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
