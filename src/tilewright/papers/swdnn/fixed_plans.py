"""swDNN's two loop plans with block sizes by the paper's rule, priced and simulated.

In: a convolution, the plan, and whether its transfer is promoted to an outer loop. Out: the
candidate of the plan's space that the rule of swDNN IV-A selects, with its price by the paper's own
model and by the simulator. The rule: both operands are double-buffered, channels are blocked only
where they do not fit, and the block of output columns is as large as the scratchpad allows. The
paper gives no rule for blocks of channels, so its model decides: Eqs. 1 and 2 and the execution
efficiency, with blocks in place of N_i and N_o. It also decides which plan is "the" plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from tilewright.common.errors import CapacityError, ScheduleError
from tilewright.cost.calls import Costs
from tilewright.cost.roofline import MEMORY, Level, Roofline, roofline
from tilewright.cost.timing import TransferShape, stream_bytes_per_second
from tilewright.machine import Machine
from tilewright.ops import Conv2d, conv2d
from tilewright.seeds.convolution.implicit import BATCH_BLOCK, IMAGE_BLOCK, LANES
from tilewright.seeds.steps import Stage
from tilewright.simulate.kernel.level import simulate
from tilewright.tune.candidate import Candidate
from tilewright.tune.choose import choose

Plan = Literal["img", "batch"]
SEEDS: dict[Plan, str] = {"img": "swdnn_image", "batch": "swdnn_batch"}
"""Algorithm 1, whose blocks of output columns are printed as b_Co; Algorithm 2."""

_PROMOTED: dict[Plan, str] = {"img": "x", "batch": "w"}
"""The operand whose transfer swDNN IV-A promotes to the loop over kernel rows."""

_BLOCKS: dict[Plan, dict[str, int]] = {
    "img": {"image_block_tile": IMAGE_BLOCK // LANES},
    "batch": {"image_tile": BATCH_BLOCK},
}
_EVERY = 1 << 20
_DOUBLE = 8


class PlanOutcome(Struct, frozen=True):
    """One program on one group; bandwidths in GB/s, performances in Gflop/s.

    `required` and `available` are RBW and MBW of the gets alone, as in swDNN Eqs. 1 and 2;
    `squared` is the performance they allow by swDNN's form, `bound` that of the plain roofline of
    all transfers.
    """

    block_cols: int
    required: float
    available: float
    execution_efficiency: float
    squared: float
    bound: float
    simulated: float


def layer(*, batch: int, channels: tuple[int, int], rows: int, cols: int, kernel: int) -> Conv2d:
    """A convolution with `rows` x `cols` outputs and no border."""
    return conv2d(
        batch=batch,
        in_channels=channels[0],
        out_channels=channels[1],
        height=rows + kernel - 1,
        width=cols + kernel - 1,
        kernel=kernel,
    )


def swdnn_plan(
    op: Conv2d,
    plan: Plan,
    machine: Machine,
    *,
    promoted: bool,
    tiles: Mapping[str, int] | None = None,
) -> Candidate | None:
    """The plan with block sizes by the rule, or those in `tiles`, by factor name.

    For several groups it is the plan of one, with the output rows divided. None where the plan does
    not apply or nothing fits.
    """
    wanted = {**_BLOCKS[plan], **(tiles or {})}
    fitting = [
        candidate
        for candidate in _every_candidate(op, plan, machine)
        if _is_promoted(candidate, plan) == promoted
        and wanted.items() <= candidate.nests[0].factors.items()
    ]
    return max(fitting, key=lambda c: _preference(c, promoted, machine), default=None)


@lru_cache(maxsize=4)
def _every_candidate(op: Conv2d, plan: Plan, machine: Machine) -> tuple[Candidate, ...]:
    partition = "rows" if machine.groups.count > 1 else None
    try:
        (choice,) = choose([op], machine, algorithm=SEEDS[plan], partition=partition, keep=_EVERY)
    except (CapacityError, ScheduleError):
        return ()
    return tuple(option.candidate for option in choice.options)


def best_swdnn_plan(op: Conv2d, machine: Machine) -> Candidate | None:
    """The plan that is fastest by swDNN's model, among both plans as printed and promoted."""
    ways = [(plan, promoted) for plan in SEEDS for promoted in (False, True)]
    plans = (swdnn_plan(op, plan, machine, promoted=promoted) for plan, promoted in ways)
    found = (plan for plan in plans if plan is not None)
    return max(found, key=lambda plan: modelled(plan, machine), default=None)


def _is_promoted(candidate: Candidate, plan: Plan) -> bool:
    stages = (s.tensor for s in candidate.nests[0].structure.steps if isinstance(s, Stage))
    return _PROMOTED[plan] in stages


def _preference(
    candidate: Candidate, promoted: bool, machine: Machine
) -> tuple[int, bool, float, float, float]:
    """Order of preference: double buffering, whole channels, swDNN's model, few fetches, speed."""
    factors, op = candidate.nests[0].factors, candidate.op.convolution
    assert op is not None
    copies = factors["x_copies"] * factors["w_copies"]
    tiles = factors["in_channel_tile"], factors["out_channel_tile"]
    whole = tiles[0] >= op.in_channels // op.groups and tiles[1] >= op.out_channels // op.groups
    fetched = _elements_per_operation(candidate, promoted)
    share = min(1.0, _available(candidate, machine) / (fetched * _DOUBLE * machine.peak_flops))
    efficiency = execution_efficiency(tiles[0])
    return copies, whole, share**2 * efficiency, -fetched, -candidate.cycles


def execution_efficiency(in_channels: int) -> float:
    """swDNN VI-B: n iterations of 16 multiply-adds take 5 + 17 (n - 1) + 16 cycles."""
    n = in_channels / 8
    return 16 * n / (5 + 17 * (n - 1) + 16)


def _available(candidate: Candidate, machine: Machine) -> float:
    """Bytes per second of all groups at the block size of the images (Table II)."""
    factors = candidate.nests[0].factors
    pixels = LANES * factors["out_col_tile"]
    if candidate.seed.name == SEEDS["batch"]:
        pixels = factors["image_tile"] // machine.mesh.columns
    block = TransferShape(pixels * _DOUBLE)
    return machine.groups.count * float(stream_bytes_per_second(machine, "get", block))


def _elements_per_operation(candidate: Candidate, promoted: bool) -> float:
    """Elements fetched per operation of a column block, for a kernel row (Eqs. 1 and 2)."""
    factors, op = candidate.nests[0].factors, candidate.op.convolution
    assert op is not None
    cols, taps = factors["out_col_tile"], op.kernel[1]
    ins, outs = factors["in_channel_tile"], factors["out_channel_tile"]
    row = cols + taps - 1
    if candidate.seed.name == SEEDS["img"]:
        pixels = factors["image_block_tile"] * LANES
        images, filters = ins * pixels * (row if promoted else cols * taps), ins * outs * taps
    else:
        pixels = factors["image_tile"]
        images, filters = ins * pixels * row, ins * outs * taps * (1 if promoted else row)
    return (images + filters) / (2 * ins * outs * taps * pixels * cols)


def modelled(candidate: Candidate, machine: Machine) -> float:
    """Performance by swDNN's model in operations per second of a group, for gets alone, as there.
    Operations on padding do not count.
    """
    roof = roofline(candidate.program(machine), machine, candidate.op.flops)
    return roof.useful_fraction * _gets(roof).squared_flops


def outcome(candidate: Candidate, machine: Machine, *, costs: Costs | None = None) -> PlanOutcome:
    """The candidate's roofline and simulated run, with `costs` in place of the family's."""
    program = candidate.program(machine)
    run = simulate(program, machine, costs=costs)
    roof = roofline(program, machine, run.useful_flops)
    gets = _gets(roof)
    return PlanOutcome(
        block_cols=candidate.nests[0].factors["out_col_tile"],
        required=gets.required_bytes_per_second / 1e9,
        available=gets.available_bytes_per_second / 1e9,
        execution_efficiency=roof.execution_efficiency,
        squared=roof.useful_fraction * gets.squared_flops / 1e9,
        bound=roof.roofline_flops / 1e9,
        simulated=candidate.op.flops / run.seconds / 1e9,
    )


def _gets(roof: Roofline) -> Level:
    return roof.level(MEMORY, [s for s in roof.levels[0].streams if s.name.endswith("get")])
