"""Results of a whole network, run or simulated: stages, totals, comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from msgspec import Struct, structs

from tilewright.codegen.artifact import Array, Arrays
from tilewright.common.dtypes import F32, F64
from tilewright.graph.rewrites.recompute import AGAIN

BOUNDS = {F32.numpy: 1e-4, F64.numpy: 1e-11}
"""The largest difference, relative to the largest magnitude of an output, that rounding may cause:
long sums in another order, and Winograd tiles, layer after layer."""


class StageResult(Struct, frozen=True):
    """One stage, as the model estimated it and as it was measured or simulated.

    `estimate_milliseconds` is set where the model chose the stage; `measured_milliseconds` is the
    median of its runs. In a simulation, `cycles` are one group's, `bound` is what takes most of
    them, `work` is the kind of work, and `groups` compute the stage together, `divided` along the
    named axis. `causes` sum to `cycles` if simulated, else they are the model's cycles. `nodes` are
    the network's nodes it computes. `moved_bytes` counts each tensor once on this computer, and one
    group's transfers in a simulation.
    """

    name: str
    label: str
    algorithm: str
    estimate_milliseconds: float | None
    measured_milliseconds: float | None = None
    gflops: float | None = None
    work: str = ""
    cycles: int | None = None
    bound: str = ""
    groups: int = 1
    divided: str = ""
    causes: dict[str, int] = {}
    nodes: tuple[str, ...] = ()
    moved_bytes: int | None = None


class LayoutChange(Struct, frozen=True):
    """A stage that moves a tensor from one memory order into another, or fills around its elements.

    `before` is empty where a stage fills places without an element.
    """

    stage: str
    tensor: str
    before: str
    after: str
    cycles: int


class LayoutChoice(Struct, frozen=True):
    """Layouts chosen for the whole network. `cycles` is their cost by the prices of the choice,
    `bound_cycles` a lower bound on any choice; `proven` if no other combination of the ways
    considered is cheaper. The plan uses them if `taken`, else the layouts of each product's fastest
    schedule.
    """

    cycles: int
    bound_cycles: int
    proven: bool
    taken: bool


class PlanBounds(Struct, frozen=True):
    """Lower bounds on a group's cycles for any plan of these operators: products at the cores'
    peak, and inputs, constants and outputs moved once. Beside them the model's cycles of the plan,
    and of its products each in their best layouts.
    """

    compute_cycles: int
    transfer_cycles: int
    estimate_cycles: int
    product_cycles: int


class Comparison(Struct, frozen=True):
    """Another computation of the same network: the largest difference relative to the largest
    magnitude of an output, and, where it was timed, its time and our speedup, round by round.

    `meaning` stands for the plan's own programs, which in fixed point state how often they round.
    `model` is the file that the other one read, empty where it received our network. Beyond
    `bound`, results differ by more than rounding. `images` counts the images computed; None for
    all.
    """

    other: Literal["reference", "onnxruntime", "meaning"]
    version: str
    largest_difference: float
    bound: float
    model: str = ""
    milliseconds: float | None = None
    speedup: float | None = None
    spread: float | None = None
    images: int | None = None

    @property
    def is_within_bound(self) -> bool:
        """True if the largest difference is within `bound`."""
        return self.largest_difference <= self.bound


class NetworkRun(Struct, frozen=True):
    """The `--json` form of a whole network's run.

    `milliseconds`, where measured, is the median of whole runs by `clock`. In a simulation,
    `cycles` are those of one of the `groups` that divide the images; `work` and `causes` sum to
    them. `unfused_cycles` price the plan with a stage for every operator. `layouts` lists layout
    changes; `bounds` and `layout_choice` say how far the plan is from optimal. `timings` are the
    seconds of each compilation step. `state_bytes` counts states written in place, `live_bytes` the
    most arena bytes live at once in a plan with states. `passes` has the milliseconds of a training
    step's passes, with layouts and recomputation apart, `images` the images per step. `saturated`
    counts by stage the elements that overflowed fixed point. `fitted_machine` is this machine's
    description with constants fitted to measured kernels; `refill_note` says how instruction-cache
    refills are priced where that is unusual.
    """

    network: str
    machine: str
    dtype: str
    stages: tuple[StageResult, ...]
    compile_seconds: float
    constant_bytes: int
    arena_bytes: int
    milliseconds: float | None = None
    gflops: float | None = None
    clock: Literal["wall", "processor"] = "wall"
    comparison: Comparison | None = None
    output: str | None = None
    groups: int | None = None
    cycles: int | None = None
    unfused_cycles: int | None = None
    work: dict[str, int] = {}
    causes: dict[str, int] = {}
    timings: dict[str, float] = {}
    layouts: tuple[LayoutChange, ...] = ()
    bounds: PlanBounds | None = None
    layout_choice: LayoutChoice | None = None
    passes: dict[str, float] = {}
    images: int = 0
    state_bytes: int = 0
    live_bytes: int = 0
    saturated: dict[str, int] = {}
    fitted_machine: str = ""
    refill_note: str = ""

    def with_passes(self, passes: Mapping[str, str], images: int) -> NetworkRun:
        """A copy with the time of each pass of a training step of so many images, as far as it is
        known; `passes` maps nodes to passes.
        """
        found: dict[str, float] = {}
        per_cycle = (self.milliseconds or 0.0) / (self.cycles or 1)
        for stage in self.stages:
            own = stage.measured_milliseconds or (stage.cycles or 0) * per_cycle
            known = (passes[node] for node in stage.nodes if node in passes)
            again = any(node.endswith(AGAIN) for node in stage.nodes)
            other = "computed again" if again else "layout"
            name = "layout" if stage.work == "layout" else next(known, other)
            found[name] = found.get(name, 0.0) + own
        return structs.replace(self, passes=found if any(found.values()) else {}, images=images)


def compared(
    other: Literal["reference", "onnxruntime", "meaning"],
    found: Arrays,
    expected: Arrays,
    bound: float | None,
) -> Comparison:
    """The comparison of both results. Without a `bound`, the bound of the coarsest element type
    among them applies; integers must be equal.
    """
    arrays = (*found.values(), *expected.values())
    limit = max(BOUNDS.get(array.dtype, 0.0) for array in arrays) if bound is None else bound
    return Comparison(other, "", largest_difference(found, expected), limit)


def largest_difference(found: Arrays, expected: Arrays) -> float:
    """The largest difference of an output, relative to its largest finite magnitude.

    Equal infinities do not differ, nor do two NaNs; any other pair with a non-finite member differs
    infinitely.
    """
    worst = 0.0
    for name, array in expected.items():
        magnitudes = np.abs(array[np.isfinite(array)].astype(np.float64))
        scale = float(magnitudes.max(initial=0.0)) or 1.0
        worst = max(worst, float(distances(found[name], array).max(initial=0.0)) / scale)
    return worst


def distances(found: Array, expected: Array) -> Array:
    """Distance of each element from the expected one: 0 for equal infinities and pairs of NaNs,
    infinite for other pairs with a non-finite member.
    """
    a, b = found.astype(np.float64), expected.astype(np.float64)
    alike = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(alike, 0.0, np.abs(a - b))
    return np.where(np.isnan(apart), np.inf, apart)
