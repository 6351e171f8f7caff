"""What a whole network gives, run or simulated: its stages, the whole, how it compares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from msgspec import Struct

from tilewright.codegen.artifact import Array
from tilewright.common.dtypes import F32, F64

BOUNDS = {F32.numpy: 1e-4, F64.numpy: 1e-11}
"""The largest difference, over the largest magnitude of an output, that rounding may make: sums of
many terms in another order, and tiles of Winograd's algorithm, layer after layer."""


class StageResult(Struct, frozen=True):
    """One stage: `estimate_milliseconds` where the model chose it, and where it was measured the
    median of its runs. Where it was simulated `cycles` are those of one group, `bound` is what
    takes most of them, and `work` says what the stage does; `groups` compute it together, `divided`
    by what is named.
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


class Comparison(Struct, frozen=True):
    """Another computation of the same: the largest difference over the largest magnitude of an
    output, and where it was timed its time and how many times faster ours is, round by round.

    `model` is the file that the other one read, empty where it was given our network. Beyond
    `bound` the results differ by more than rounding. `images` is how many of the network's were
    computed, None for all.
    """

    other: Literal["reference", "onnxruntime"]
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
        """Whether both computed the same."""
        return self.largest_difference <= self.bound


class NetworkRun(Struct, frozen=True):
    """The `--json` form of a whole network; `milliseconds`, where measured, is the median of whole
    runs by `clock`.

    Of a simulated one `cycles` are those of one of the `groups` that divide the images; `work` and
    `causes` sum to them. `unfused_cycles` are those of the plan with a stage for every operator.
    `timings` are the seconds of each step of compiling.
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


def compared(
    other: Literal["reference", "onnxruntime"],
    found: Mapping[str, Array],
    expected: Mapping[str, Array],
    bound: float | None,
) -> Comparison:
    """The comparison of both results; without a `bound` that of the coarser element type among them
    holds. Integers are equal or differ.
    """
    arrays = (*found.values(), *expected.values())
    limit = max(BOUNDS.get(array.dtype, 0.0) for array in arrays) if bound is None else bound
    return Comparison(other, "", largest_difference(found, expected), limit)


def largest_difference(found: Mapping[str, Array], expected: Mapping[str, Array]) -> float:
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
    """How far each element is from what is expected: 0 for equal infinities and for two that are no
    numbers, infinite for any other pair of which one is not finite.
    """
    a, b = found.astype(np.float64), expected.astype(np.float64)
    alike = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(alike, 0.0, np.abs(a - b))
    return np.where(np.isnan(apart), np.inf, apart)
