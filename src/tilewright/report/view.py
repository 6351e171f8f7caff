"""Reports on one operator or one network, as plain values.

These values are the `--json` contract (docs/reference/json.md) and what an artifact folder stores;
the tables and texts of this package show them and compute nothing. Cycles are those of one core
group; milliseconds, Gflop/s and the fraction of the peak are those of the whole machine.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from tilewright.codegen.artifact import RoutineCycles
from tilewright.common.errors import CheckFailed
from tilewright.cost.product_bounds import ProductRoofline
from tilewright.cost.roofline import Roofline
from tilewright.network.results import Comparison

CheckResult = Literal["exact", "within bound", "not run"]
TimedBy = Literal["simulated", "measured", "model"]
"""Sources of a time: the simulator, this computer, or the model if nothing was run."""


def checked_by(other: Comparison | None) -> CheckResult:
    """The result of a check by a comparison with the reference; CheckFailed beyond its bound."""
    if other is None:
        return "not run"
    if not other.is_within_bound:
        raise difference(other)
    return "exact" if not other.largest_difference else "within bound"


def difference(other: Comparison) -> CheckFailed:
    """The error for outputs that differ by more than the bound of a comparison."""
    theirs = other.other == "onnxruntime"
    whose = "onnxruntime's" if theirs else "those of the reference"
    return CheckFailed(
        f"outputs differ from {whose} by "
        f"{other.largest_difference:.2e} of the largest magnitude, beyond {other.bound:g}",
        fix="--compare reference shows which of both is right" if theirs else "",
    )


class LayerResult(Struct, frozen=True):
    """One operator: what was chosen and what it costs.

    `milliseconds`, `gflops` and `peak_fraction` are of the time by `timed_by`. `peak_fraction`
    counts the operations of the direct form, so Winograd may exceed one. `expected_error` is that
    of random operands (`tune.accuracy`). `artifact` is the folder of the generated code, relative
    to the written one; None if unwritten.
    """

    name: str
    op: str
    shape: str
    algorithm: str
    partition: str
    schedule: str
    candidates: int
    estimate_cycles: int
    simulated_cycles: int | None
    milliseconds: float
    gflops: float
    peak_fraction: float
    bound: str
    lower_bound_cycles: int
    check: CheckResult = "not run"
    artifact: str | None = None
    timed_by: TimedBy = "simulated"
    measured_seconds: float | None = None
    expected_error: float | None = None
    candidates_fitting: int = 0
    candidates_priced: int = 0


class AlgorithmCheck(Struct, frozen=True):
    """The generated code of one algorithm, run and compared on one operator; with so many `images`
    and `rows` of an image where that are fewer than the layer's.
    """

    algorithm: str
    name: str
    shape: str
    check: CheckResult
    images: int | None = None
    rows: int | None = None


class NetworkResult(Struct, frozen=True, kw_only=True):
    """All operators of a run, in the order of the network; repeated layers are listed again.

    `fitted_machine` is the description of this machine with constants fitted to measured kernels;
    `fitted_milliseconds` is what the same schedules take there, where it is another one.
    `refill_note` says how refills of the instruction cache are priced where that is not as usual.
    """

    machine: str
    batch: int | None
    dtype: str
    layers: tuple[LayerResult, ...]
    tuning_seconds: float
    candidates_total: int
    total_milliseconds: float
    checks: tuple[AlgorithmCheck, ...] = ()
    timings: dict[str, float] = {}
    candidates_fitting_total: int
    candidates_priced_total: int
    fitted_machine: str = ""
    fitted_milliseconds: float | None = None
    refill_note: str = ""

    @property
    def timed_by(self) -> TimedBy:
        """Whose the times of the layers are."""
        return self.layers[0].timed_by if self.layers else "simulated"


class RunResult(Struct, frozen=True):
    """An operator that was run: its figures, what the reference says of its result, and the largest
    `error` over the largest value; `output` is the file of the result.
    """

    layer: LayerResult
    machine: str
    check: CheckResult
    output: str | None = None
    error: float | None = None


class CauseRow(Struct, frozen=True):
    """Cycles charged to one cause."""

    kind: str
    subject: str
    cycles: int


class TrafficRow(Struct, frozen=True):
    """The transfers of one tensor in one direction, all cores of a group together."""

    tensor: str
    direction: str
    asked_bytes: int
    moved_bytes: int
    requests: int
    engine_cycles: int


class Arranged(Struct, frozen=True):
    """Copies by the groups' cores between a tensor in C order and those of the groups, beside the
    operator's own time: `bytes` in all groups, or once for what they share, none if the tensor lies
    as the groups take it. `estimate_cycles` by the model and `cycles` simulated are those of the
    slowest group; no copy takes less than `least_milliseconds` at the memories' peak.
    """

    tensor: str
    direction: str
    shared: bool
    bytes: int
    least_milliseconds: float
    estimate_cycles: int
    cycles: int


class Adding(Struct, frozen=True):
    """How partial results are added up: each group takes `elements` of every one, in so many cycles
    by the model, which are part of the operator's.
    """

    elements: int
    estimate_cycles: int


class Rejected(Struct, frozen=True):
    """A candidate that lost: the model's cycles, of which `waiting` not covered by computing."""

    algorithm: str
    partition: str
    schedule: str
    estimate_cycles: int
    compute_cycles: int
    waiting_cycles: int
    why: str


class Change(Struct, frozen=True):
    """One changed number of the machine and what it would bring; `retuned` or the same schedule."""

    settings: tuple[str, ...]
    cycles: int
    retuned: bool


class Explanation(Struct, frozen=True):
    """Where the time of one operator goes.

    `causes` sum to `layer.simulated_cycles`; where nothing was simulated they are the model's. Of
    several `threads` causes and traffic are those of the one with most to do.
    """

    layer: LayerResult
    machine: str
    groups: int
    groups_used: int
    clock_hz: int
    causes: tuple[CauseRow, ...]
    traffic: tuple[TrafficRow, ...]
    scratchpad_bytes: int
    scratchpad_limit_bytes: int
    lower_bound_compute_cycles: int
    lower_bound_transfer_cycles: int
    rejected: tuple[Rejected, ...] = ()
    changes: tuple[Change, ...] = ()
    roofline: Roofline | None = None
    threads: int = 1
    routines: tuple[RoutineCycles, ...] = ()
    arranged: tuple[Arranged, ...] = ()
    adding: Adding | None = None
    refill_note: str = ""


class StageTensor(Struct, frozen=True):
    """A tensor of a stage: its name in the program and in the network, its dimensions in memory,
    slowest first, and its bytes in one group.
    """

    name: str
    value: str
    form: str
    dtype: str
    size_bytes: int


class StageExplanation(Struct, frozen=True):
    """Where the time of one stage of a network goes, of a kind that no kernel has: elementwise
    work, windows, copies. `computes` says what of its `tensors`, of which the last is written.

    `share` is of the network's time. `causes` sum to `cycles`, those of one of the `groups` that
    compute it, where it was simulated. On this computer only time and `moved_bytes` are known.
    """

    network: str
    machine: str
    dtype: str
    stage: str
    label: str
    work: str
    nodes: tuple[str, ...]
    timed_by: TimedBy
    milliseconds: float
    share: float
    moved_bytes: int
    groups: int = 1
    divided: str = ""
    computes: str = ""
    tensors: tuple[StageTensor, ...] = ()
    cycles: int | None = None
    estimate_cycles: int | None = None
    causes: tuple[CauseRow, ...] = ()
    traffic: tuple[TrafficRow, ...] = ()
    routines: tuple[RoutineCycles, ...] = ()


# Findings of `check`, as values.


class Finding(Struct, frozen=True):
    """One thing that was checked: `status` is ok, note or refused."""

    subject: str
    rule: str
    status: str
    message: str = ""
    fix: str = ""


class CheckReport(Struct, frozen=True):
    """The `--json` form of `check`; `roofline` where tiles of a product were asked for."""

    machine: str
    findings: tuple[Finding, ...]
    refused: int
    roofline: ProductRoofline | UnsetType = UNSET
