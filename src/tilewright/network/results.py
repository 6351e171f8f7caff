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
"""The largest difference, over the largest magnitude of an output, that rounding may make: sums of
many terms in another order, and tiles of Winograd's algorithm, layer after layer."""


class StageResult(Struct, frozen=True):
    """One stage: `estimate_milliseconds` where the model chose it, and where it was measured the
    median of its runs. Where it was simulated `cycles` are those of one group, `bound` is what
    takes most of them, and `work` says what the stage does; `groups` compute it together, `divided`
    by what is named. `causes` are cycles, of the model where it was not simulated, and sum to
    `cycles` where it was. `nodes` are those of the network that it computes, `moved_bytes` what it
    moves: each tensor once on this computer, the transfers of one group where it was simulated.
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
    """A stage that moves a tensor: from one order of memory into another, or around its elements.

    `before` is empty where a stage fills places that hold no element.
    """

    stage: str
    tensor: str
    before: str
    after: str
    cycles: int


class LayoutChoice(Struct, frozen=True):
    """Layouts chosen for the whole network: `cycles` by the prices of the choice, below which
    `bound_cycles` no other one is; `proven` where no other one of the ways considered is cheaper.
    The plan has them where they are `taken`, else those of the fastest schedule of each product.
    """

    cycles: int
    bound_cycles: int
    proven: bool
    taken: bool


class PlanBounds(Struct, frozen=True):
    """Cycles of a group that no plan of these operators is below: the products at the cores' peak,
    and what is given, known and asked for moved once. Beside them the plan by the model, and the
    least that its products take, each in the layouts that suit it best.
    """

    compute_cycles: int
    transfer_cycles: int
    estimate_cycles: int
    product_cycles: int


class Comparison(Struct, frozen=True):
    """Another computation of the same: the largest difference over the largest magnitude of an
    output, and where it was timed its time and how many times faster ours is, round by round.

    The `meaning` is that of the plan's own programs: in fixed point they say how often they round.
    `model` is the file that the other one read, empty where it was given our network. Beyond
    `bound` the results differ by more than rounding. `images` is how many of the network's were
    computed, None for all.
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
    """The `--json` form of a whole network; `milliseconds`, where measured, is the median of whole
    runs by `clock`.

    Of a simulated one `cycles` are those of one of the `groups` that divide the images; `work` and
    `causes` sum to them. `unfused_cycles` are those of the plan with a stage for every operator.
    `layouts` are changes of layout, `bounds` and `layout_choice` say how far the plan is from the
    best. `timings` are the seconds of each step of compiling. `state_bytes` are those of states
    written in place, `live_bytes` those of the arena that live at once in a plan with states,
    `passes` the milliseconds of a training step's passes, layouts and what is computed again apart,
    `images` those of a step.
    `saturated` are the elements that did not fit fixed point in a run by stage. `fitted_machine` is
    the description of this machine with constants fitted to measured kernels; `refill_note` says
    how refills of the instruction cache are priced where that is not as usual.
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
        """With the time of each pass of a step of so many images, as far as it is known; `passes`
        are those of its nodes.
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
    """The comparison of both results; without a `bound` that of the coarser element type among them
    holds. Integers are equal or differ.
    """
    arrays = (*found.values(), *expected.values())
    limit = max(BOUNDS.get(array.dtype, 0.0) for array in arrays) if bound is None else bound
    return Comparison(other, "", largest_difference(found, expected), limit)


def largest_difference(found: Arrays, expected: Arrays) -> float:
    """The largest difference of an output over its largest finite magnitude.

    Equal infinities do not differ, nor do two numbers that are none; any other pair of which one is
    not finite differs infinitely.
    """
    worst = 0.0
    for name, array in expected.items():
        magnitudes = np.abs(array[np.isfinite(array)].astype(np.float64))
        scale = float(magnitudes.max(initial=0.0)) or 1.0
        worst = max(worst, float(distances(found[name], array).max(initial=0.0)) / scale)
    return worst


def distances(found: Array, expected: Array) -> Array:
    """Distance of each element from the expected one: 0 for equal infinities and pairs of NaNs,
    infinite for other pairs in which one is not finite.
    """
    a, b = found.astype(np.float64), expected.astype(np.float64)
    alike = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(alike, 0.0, np.abs(a - b))
    return np.where(np.isnan(apart), np.inf, apart)
