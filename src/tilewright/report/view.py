"""Reports on one operator or one network, as plain values.

These values are the `--json` contract (docs/reference/json.md) and are stored in artifact folders;
the tables and texts of this package show them and compute nothing. Cycles are those of one core
group; milliseconds, Gflop/s and fractions of the peak are those of the whole machine.
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
    """The result of a check against the reference. Raises CheckFailed beyond the bound."""
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
    """One operator: the choice and its cost.

    `milliseconds`, `gflops` and `peak_fraction` follow the time by `timed_by`. `peak_fraction`
    counts the operations of the direct form, so Winograd may exceed one. `expected_error` assumes
    random operands (`tune.accuracy`). `artifact` is the folder of the generated code, relative to
    the written one; None if unwritten.
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
    """The generated code of one algorithm, run and compared on one operator; `images` and `rows` of
    an image are set if fewer ran than the layer has.
    """

    algorithm: str
    name: str
    shape: str
    check: CheckResult
    images: int | None = None
    rows: int | None = None


class NetworkResult(Struct, frozen=True, kw_only=True):
    """All operators of a run, in the order of the network; repeated layers are listed again.

    `fitted_machine` is this machine's description with constants fitted to measured kernels;
    `fitted_milliseconds` is the time of the same schedules there, if it is another machine.
    `refill_note` says how instruction-cache refills are priced where that is unusual.
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
        """Source of the layers' times."""
        return self.layers[0].timed_by if self.layers else "simulated"


class RunResult(Struct, frozen=True):
    """An operator's run: its figures, the reference's verdict, and the largest `error` relative to
    the largest value; `output` is the file of the result.
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
    """Copies by the groups' cores between a tensor in C order and the groups' tensors, beyond the
    operator's own time.

    `bytes` are those of all groups, or counted once if shared; none if the tensor needs no copy.
    `estimate_cycles` (model) and `cycles` (simulated) are the slowest group's. `least_milliseconds`
    is the bound at the memories' peak.
    """

    tensor: str
    direction: str
    shared: bool
    bytes: int
    least_milliseconds: float
    estimate_cycles: int
    cycles: int


class Adding(Struct, frozen=True):
    """Adding up of partial results: each group adds `elements` of every part, in `estimate_cycles`
    of the operator's cycles by the model.
    """

    elements: int
    estimate_cycles: int


class Rejected(Struct, frozen=True):
    """A candidate that lost: its modelled cycles, `waiting` ones not covered by computing."""

    algorithm: str
    partition: str
    schedule: str
    estimate_cycles: int
    compute_cycles: int
    waiting_cycles: int
    why: str


class Change(Struct, frozen=True):
    """One change of the machine and its simulated cycles; `retuned`, or with the same schedule."""

    settings: tuple[str, ...]
    cycles: int
    retuned: bool


class Explanation(Struct, frozen=True):
    """Time of one operator by cause.

    `causes` sum to `layer.simulated_cycles`, or are the model's if nothing was simulated. With
    several `threads`, causes and traffic are the busiest one's.
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
    """A tensor of a stage: its name in the program and in the network, its dimensions in memory
    (slowest first), and its bytes in one group.
    """

    name: str
    value: str
    form: str
    dtype: str
    size_bytes: int


class StageExplanation(Struct, frozen=True):
    """Time of one network stage without a kernel of its own: elementwise work, windows, copies.

    `computes` is its computation in words; the last of its `tensors` is written. `share` is of the
    network's time. In a simulation, `causes` sum to `cycles`, those of one of the `groups` that
    compute it. On this computer only time and `moved_bytes` are known.
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
    """One check: its subject and rule, and a `status` of ok, note or refused."""

    subject: str
    rule: str
    status: str
    message: str = ""
    fix: str = ""


class CheckReport(Struct, frozen=True):
    """The `--json` form of `check`; `roofline` is set if tiles of a product were given."""

    machine: str
    findings: tuple[Finding, ...]
    refused: int
    roofline: ProductRoofline | UnsetType = UNSET
