"""Where the time of a simulated network goes: the stages that take it, their causes, layouts."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.network.explain import LayoutChange, NetworkExplanation, StageTime
from tilewright.report.explain import columns
from tilewright.report.network import counted, plan_totals
from tilewright.report.routines import STAGE_HEAD, stage_rows

_SLOWEST = 10
_CAUSES = 3


def network_explanation_text(e: NetworkExplanation) -> str:
    """Lines below the table of stages."""
    routines = list(_routines(e))
    return "\n".join(
        (*_stages(e), "", *routines, *[""] * bool(routines), *_layouts(e), "", *_whole(e))
    )


def _slowest(e: NetworkExplanation) -> list[StageTime]:
    return sorted(e.stages, key=lambda stage: -stage.cycles)[:_SLOWEST]


def _stages(e: NetworkExplanation) -> Iterator[str]:
    """The slowest stages with what takes most of each."""
    total = max(1, e.run.cycles or 0)
    slowest = _slowest(e)
    whole = counted(len(e.stages), "stage")
    yield f"the {len(slowest)} slowest of {whole}, and what takes their time:"
    width = max(len(stage.stage) for stage in slowest)
    for stage in slowest:
        causes = list(stage.causes.items())[:_CAUSES]
        shares = ", ".join(f"{k} {100 * c / max(1, stage.cycles):.0f} %" for k, c in causes)
        yield f"  {stage.stage:{width}}  {100 * stage.cycles / total:4.1f} %: {shares}"


def _routines(e: NetworkExplanation) -> Iterator[str]:
    """What the code of these stages calls."""
    slowest = [stage for stage in _slowest(e) if stage.routines]
    if not slowest:
        return
    yield "their routines: calls of a core, and the cycles of all of them"
    rows = [row for stage in slowest for row in stage_rows(stage.stage, stage.routines)]
    yield from columns([STAGE_HEAD, *rows])


def _layouts(e: NetworkExplanation) -> Iterator[str]:
    """Every change of layout with its price, the dearest first."""
    total = max(1, e.run.cycles or 0)
    cycles = sum(change.cycles for change in e.layouts)
    if not e.layouts:
        yield "no stage changes a layout"
        return
    yield (
        f"{counted(len(e.layouts), 'change')} of layout, {cycles} cycles, "
        f"{100 * cycles / total:.1f} % of the time:"
    )
    dearest = sorted(e.layouts, key=lambda change: -change.cycles)
    yield from columns([_row(change) for change in dearest])


def _row(change: LayoutChange) -> tuple[str, ...]:
    if not change.before:
        how = f"around ({change.after})"
    elif change.before == change.after:
        how = f"copied ({change.after})"
    else:
        how = f"({change.before}) -> ({change.after})"
    return f"  {change.stage}", change.tensor, how, f"{change.cycles} cycles"


def _whole(e: NetworkExplanation) -> Iterator[str]:
    yield plan_totals(e.run)
    bound = max(e.lower_bound_compute_cycles, e.lower_bound_transfer_cycles, 1)
    yield (
        f"lower bounds: {e.lower_bound_compute_cycles} cycles to compute the products at the peak, "
        f"{e.lower_bound_transfer_cycles} to move inputs, weights and outputs once; the plan takes "
        f"{(e.run.cycles or 0) / bound:.2f} times the larger"
    )
    yield (
        f"layouts: the plan takes {e.estimate_cycles} cycles by the model, of which the products "
        f"take at least {e.lower_bound_product_cycles}, each in the layouts that suit it best"
    )
    if e.rewrites:
        yield f"the graph was rewritten by {', '.join(dict.fromkeys(e.rewrites))}"
