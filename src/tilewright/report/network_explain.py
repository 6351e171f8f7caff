"""Time of a network: the stages that take it, their causes, layouts, fusion."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.network.explain import MeasuredExplanation, NetworkExplanation, StageTime
from tilewright.network.results import LayoutChange, NetworkRun, StageResult
from tilewright.report.explain import columns
from tilewright.report.network import counted, network_totals, plan_totals, shared, shares, wrapped
from tilewright.report.routines import LEGEND, STAGE_HEAD, stage_rows

_SLOWEST = 10
_DEAREST = 10
_CAUSES = 3
_LEAST = 0.005
"""Causes of less are left out where the largest of a stage are listed: they are shown as 0 %."""


def network_explanation_text(e: NetworkExplanation) -> str:
    """Lines below the table of the stages of a simulated network."""
    called = list(_routines(e))
    called += [""] * bool(called)
    return "\n".join((*_stages(e), "", *called, *_layouts(e), "", *_whole(e.run, e.rewrites)))


def measured_explanation_text(e: MeasuredExplanation) -> str:
    """Lines below the table of the stages of a network on this computer."""
    return "\n".join((*_measured_stages(e.run), *_summary(e)))


def _slowest(e: NetworkExplanation) -> list[StageTime]:
    return sorted(e.stages, key=lambda stage: -stage.cycles)[:_SLOWEST]


def _stages(e: NetworkExplanation) -> Iterator[str]:
    """The slowest stages with what takes most of each."""
    total = max(1, e.run.cycles or 0)
    slowest = _slowest(e)
    yield f"{_how_many(len(slowest), len(e.stages))}, and what takes their time:"
    width = max(len(stage.stage) for stage in slowest)
    for stage in slowest:
        causes = dict(list(stage.causes.items())[:_CAUSES])
        parts = _shares_of(causes, max(1, stage.cycles)) or "causes are not known"
        yield f"  {stage.stage:{width}}  {100 * stage.cycles / total:4.1f} %: {parts}"


def _how_many(shown: int, count: int) -> str:
    if shown == count:
        return f"the {f'{count} ' if count > 1 else ''}stage{'s' * (count > 1)}, the slowest first"
    return f"the {shown} slowest of {count} stages"


def _shares_of(causes: dict[str, int], whole: int) -> str:
    shown = {kind: cycles / whole for kind, cycles in causes.items() if cycles >= _LEAST * whole}
    return ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in shown.items())


def _measured_stages(run: NetworkRun) -> Iterator[str]:
    """The slowest stages: of a product the causes of its estimate, of others how fast they move
    what they read and write.
    """
    if run.milliseconds is None:
        return
    total = sum(stage.measured_milliseconds or 0.0 for stage in run.stages) or 1.0
    slowest = sorted(run.stages, key=lambda s: -(s.measured_milliseconds or 0.0))[:_SLOWEST]
    yield f"{_how_many(len(slowest), len(run.stages))}:"
    width = max(len(stage.name) for stage in slowest)
    for stage in slowest:
        milliseconds = stage.measured_milliseconds or 0.0
        yield f"  {stage.name:{width}}  {100 * milliseconds / total:4.1f} %: {_why(stage)}"
    yield ""


def _why(stage: StageResult) -> str:
    if stage.causes:
        return f"product, by the model {_shares_of(stage.causes, sum(stage.causes.values()))}"
    seconds, moved = 1e-3 * (stage.measured_milliseconds or 0.0), stage.moved_bytes or 0
    if not (seconds and moved):
        return stage.work
    return f"{stage.work}, {moved} bytes at {moved / seconds / 1e9:.2f} GB/s"


def _summary(e: MeasuredExplanation) -> Iterator[str]:
    """Where the time of the whole goes, and the lines of `run`."""
    total = sum(e.work_milliseconds.values())
    if total:
        beside = total - e.work_milliseconds.get("product", 0.0)
        yield (
            f"by work: {shares(e.work_milliseconds, total)}; "
            f"{100 * beside / total:.1f} % outside the products"
        )
    if cycles := sum(e.product_causes.values()):
        yield shared("products by cause (model): ", e.product_causes, cycles)
    if e.elementwise:
        yield wrapped(
            f"fusing: {counted(e.elementwise, 'elementwise operator')} in "
            f"{counted(e.passes, 'pass', 'passes')} of their own; {e.in_products} in the kernels "
            f"of products and {e.merged} in the pass of another one, which saves as many passes"
        )
    yield from _rewritten(e.rewrites)
    yield network_totals(e.run)


def _routines(e: NetworkExplanation) -> Iterator[str]:
    """Lines on the routines that the code of the slowest stages calls."""
    slowest = [stage for stage in _slowest(e) if stage.routines]
    if not slowest:
        return
    yield "their routines: calls of a core, and the cycles of all of them"
    rows = [row for stage in slowest for row in stage_rows(stage.stage, stage.routines)]
    yield from columns([STAGE_HEAD, *rows])
    yield from LEGEND


def _layouts(e: NetworkExplanation) -> Iterator[str]:
    """The changes of layout with their prices, the dearest first."""
    total = max(1, e.run.cycles or 0)
    cycles = sum(change.cycles for change in e.layouts)
    if not e.layouts:
        yield "no stage changes a layout"
        return
    dearest = sorted(e.layouts, key=lambda change: -change.cycles)
    shown, others = dearest[:_DEAREST], dearest[_DEAREST:]
    which = f", the {_DEAREST} dearest" if others else ""
    yield (
        f"{counted(len(e.layouts), 'change')} of layout, {cycles} cycles, "
        f"{100 * cycles / total:.1f} % of the time{which}:"
    )
    rows = [_row(change) for change in shown]
    if others:
        rest = sum(change.cycles for change in others)
        rows.append((f"  {counted(len(others), 'other')}", "", "", f"{rest} cycles"))
    yield from columns(rows)


def _row(change: LayoutChange) -> tuple[str, ...]:
    if not change.before:
        how = f"around ({change.after})"
    elif change.before == change.after:
        how = f"copied ({change.after})"
    else:
        how = f"({change.before}) -> ({change.after})"
    return f"  {change.stage}", change.tensor, how, f"{change.cycles} cycles"


def _whole(run: NetworkRun, rewrites: tuple[str, ...]) -> Iterator[str]:
    yield plan_totals(run)
    yield from _rewritten(rewrites)


def _rewritten(rewrites: tuple[str, ...]) -> Iterator[str]:
    if rewrites:
        yield wrapped(f"the graph was rewritten by {', '.join(dict.fromkeys(rewrites))}")
