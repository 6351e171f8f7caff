"""What running a whole network gives: its stages one by one, the whole, how it compares."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class StageResult(Struct, frozen=True):
    """One stage: `estimate_milliseconds` where the model chose it, and where it was measured the
    median of its runs.
    """

    name: str
    label: str
    algorithm: str
    estimate_milliseconds: float | None
    measured_milliseconds: float | None = None
    gflops: float | None = None


class Comparison(Struct, frozen=True):
    """Another computation of the same: the largest difference over the largest magnitude of an
    output, and where it was timed its time and how many times faster ours is, round by round.

    `model` is the file that the other one read, empty where it was given our network. Beyond
    `bound` the results differ by more than rounding.
    """

    other: Literal["reference", "onnxruntime"]
    version: str
    largest_difference: float
    bound: float
    model: str = ""
    milliseconds: float | None = None
    speedup: float | None = None
    spread: float | None = None

    @property
    def is_within_bound(self) -> bool:
        """Whether both computed the same."""
        return self.largest_difference <= self.bound


class NetworkRun(Struct, frozen=True):
    """The `--json` form of a network on this computer; `milliseconds`, where measured, is the
    median of whole runs by `clock`.
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
