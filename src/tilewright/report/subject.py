"""Subject of a report: the contents of one folder of `compile -o`, in lines of one form.

In: the layers of a folder with their explanations, or the stages of a whole network. Out: a
`Subject`, which all reports show alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tilewright.common.modules import titles_below
from tilewright.network.results import NetworkRun, StageResult
from tilewright.report.explain import columns, explain_text
from tilewright.report.network import counted, network_totals, plan_totals
from tilewright.report.table import time_digits
from tilewright.report.view import CauseRow, Explanation, LayerResult, TimedBy


@dataclass(frozen=True)
class Line:
    """One layer or stage: its time by `timed_by`, its cycles by cause from `causes_by`.

    `time` and `note` are shown beside its bar, `figures` in the table; `details` is everything
    else.
    """

    name: str
    what: str
    milliseconds: float
    time: str
    timed_by: TimedBy
    note: str
    bound: str
    causes: tuple[CauseRow, ...]
    causes_by: TimedBy
    figures: tuple[str, ...]
    details: str


@dataclass(frozen=True)
class Subject:
    """An operator, the layers of a network, or the stages of a whole network, in order.

    `heads` name the columns of the lines' names and figures; `totals` describes the whole.
    """

    name: str
    machine: str
    facts: tuple[str, ...]
    heads: tuple[str, ...]
    lines: tuple[Line, ...]
    total_milliseconds: float
    totals: str = ""


def subject_of_layers(
    name: str,
    machine: str,
    facts: Sequence[str],
    layers: Sequence[LayerResult],
    total_milliseconds: float,
    explanations: Mapping[str, Explanation],
    totals: str = "",
) -> Subject:
    """Layers, or one operator; `explanations` are keyed by the kernels' folders."""
    heads = ("layer", "what", "algorithm", "ms", "Gflop/s", "% of peak", "candidates priced")
    digits = time_digits(total_milliseconds)
    lines = tuple(_of_layer(x, explanations.get(x.artifact or ""), digits) for x in layers)
    counts = (*facts, counted(len(layers), "layer"))
    return Subject(name, machine, counts, heads, lines, total_milliseconds, totals)


def _of_layer(layer: LayerResult, found: Explanation | None, digits: int) -> Line:
    peak, time = f"{100 * layer.peak_fraction:.1f}", f"{layer.milliseconds:.{digits}f}"
    return Line(
        layer.name,
        layer.shape,
        layer.milliseconds,
        f"{time} ms",
        layer.timed_by,
        f"{peak} % of peak",
        layer.bound,
        found.causes if found else (),
        "model" if layer.simulated_cycles is None else "simulated",
        (layer.algorithm, time, f"{layer.gflops:.1f}", peak, str(layer.candidates_priced)),
        f"{explain_text(found)}\n{layer.schedule}" if found else layer.shape,
    )


def subject_of_stages(run: NetworkRun) -> Subject:
    """The stages of a whole network: simulated, measured, or else by the model."""
    heads = ("stage", "what", "work", "algorithm", "ms", "% of time")
    times = [_milliseconds(stage, run) for stage in run.stages]
    total = sum(times)
    lines = tuple(
        _of_stage(stage, run, time, time / (total or 1.0))
        for stage, time in zip(run.stages, times, strict=True)
    )
    facts = (run.dtype, counted(len(run.stages), "stage"))
    whole = total if run.milliseconds is None else run.milliseconds
    totals = network_totals(run) if run.cycles is None else plan_totals(run)
    return Subject(run.network, run.machine, facts, heads, lines, whole, totals)


def _milliseconds(stage: StageResult, run: NetworkRun) -> float:
    """The stage's share of a simulated time, else its measured or estimated time."""
    if run.cycles is not None:
        return (stage.cycles or 0) / max(1, run.cycles) * (run.milliseconds or 0.0)
    return stage.measured_milliseconds or stage.estimate_milliseconds or 0.0


def _of_stage(stage: StageResult, run: NetworkRun, milliseconds: float, share: float) -> Line:
    simulated = run.cycles is not None
    measured: TimedBy = "model" if run.milliseconds is None else "measured"
    part, time = f"{100 * share:.1f}", f"{milliseconds:.{time_digits(run.milliseconds or 0.0)}f}"
    return Line(
        stage.name,
        stage.label,
        milliseconds,
        f"{time} ms",
        "simulated" if simulated else measured,
        f"{part} % of time",
        stage.bound or stage.work,
        tuple(CauseRow(kind, "", cycles) for kind, cycles in stage.causes.items()),
        "simulated" if simulated else "model",
        (stage.work, stage.algorithm, time, part),
        "\n".join(_details(stage)),
    )


def _details(stage: StageResult) -> Iterator[str]:
    """Details of a stage: nodes, groups, bytes and causes."""
    yield stage.label
    if stage.nodes:
        yield f"computes {', '.join(stage.nodes)}"
    if stage.groups > 1:
        yield f"on {stage.groups} core groups, divided by {stage.divided}"
    if stage.moved_bytes is not None:
        yield f"moves {stage.moved_bytes} bytes"
    whole = sum(stage.causes.values())
    if whole:
        rows = [(k, str(c), f"{100 * c / whole:.1f} %") for k, c in stage.causes.items()]
        yield from ("", *columns([("cause", "cycles", "share"), *rows]))


# Reports by name: a module `report/reports/NAME.py` with TITLE, SUFFIX and a function `text`.

_FOLDER = Path(__file__).parent / "reports"


@dataclass(frozen=True)
class _Report:
    """One kind of report; `suffix` is its files'."""

    name: str
    suffix: str
    text: Callable[[Subject], str]


def report_titles() -> dict[str, str]:
    """Name -> title of every report, sorted, read without importing any."""
    return titles_below(_FOLDER)


def load_report(name: str) -> _Report:
    """Import one report of `report_titles()`."""
    module = import_module(f"tilewright.report.reports.{name}")
    return _Report(name, module.SUFFIX, module.text)
