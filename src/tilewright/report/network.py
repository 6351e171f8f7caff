"""The run of a whole network as a table: its stages one by one, the whole, how it compares.

layer      what               algorithm  ms (model)  ms (measured)  Gflop/s
conv1      conv2d 1x3x224...  direct          0.812          0.799    295.4
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table

from tilewright.common.limits import PAGE
from tilewright.network.explain import MeasuredExplanation, NetworkExplanation, StageTime
from tilewright.network.results import (
    Comparison,
    LayoutChange,
    LayoutChoice,
    NetworkRun,
    PlanBounds,
    StageResult,
)
from tilewright.report.explain import LEGEND, STAGE_HEAD, columns, stage_rows
from tilewright.report.table import (
    STUCK,
    Column,
    duration,
    simulated_on,
    stage_table,
    time_digits,
    wrapped_line,
)


def network_table(found: NetworkRun, width: int = PAGE) -> Table:
    """One line per stage, or two, within `width` columns."""
    title = (
        f"{found.network} on {found.machine}, {found.dtype}, {counted(len(found.stages), 'stage')}"
    )
    stages, columns = found.stages, _stage_columns(found, "layer")
    columns.append(Column("algorithm", tuple(s.algorithm for s in stages)))
    estimates = [stage.estimate_milliseconds for stage in found.stages]
    columns.append(_times(found, "model", estimates))
    if found.milliseconds is not None:
        times = [stage.measured_milliseconds or 0.0 for stage in stages]
        total = sum(times) or 1.0
        rates = [stage.gflops if stage.algorithm else None for stage in stages]
        columns += [
            _times(found, "measured", times),
            _figures("Gflop/s", [_figure(rate, 1) for rate in rates]),
            _figures("% of time", [f"{100 * own / total:.1f}" for own in times]),
        ]
    return stage_table(title, columns, width)


def plan_table(found: NetworkRun, width: int = PAGE) -> Table:
    """One line per stage of a simulated network, or two, within `width` columns."""
    groups = "" if found.groups in (None, 1) else f", each of {found.groups} core groups"
    title = (
        f"{found.network} on {found.machine}, {found.dtype}, "
        f"{counted(len(found.stages), 'stage')}{groups}"
    )
    parts = [(stage.cycles or 0) / max(1, found.cycles or 0) for stage in found.stages]
    times = [part * (found.milliseconds or 0.0) for part in parts]
    columns = [
        *_stage_columns(found, "stage"),
        Column("work", tuple(stage.work for stage in found.stages)),
        Column("algorithm", tuple(stage.algorithm for stage in found.stages), below=True),
        Column("bound", tuple(stage.bound for stage in found.stages)),
        _times(found, "model", [stage.estimate_milliseconds for stage in found.stages]),
        _times(found, "simulated", times),
        _figures("% of time", [f"{100 * part:.1f}" for part in parts]),
    ]
    if found.groups == 1 and any(stage.groups > 1 for stage in found.stages):
        columns.append(Column("core groups", tuple(map(_groups, found.stages))))
    return stage_table(title, columns, width)


def _stage_columns(found: NetworkRun, head: str) -> list[Column]:
    """Columns for the name and the work of each stage."""
    names = tuple(stage.name for stage in found.stages)
    labels = tuple(stage.label for stage in found.stages)
    return [Column(head, names), Column("what", labels, below=True)]


def _times(found: NetworkRun, source: str, milliseconds: Sequence[float | None]) -> Column:
    """Times with digits for a thousandth of the network's time, at least three."""
    total = found.milliseconds or sum(time or 0.0 for time in milliseconds)
    digits = time_digits(total)
    return _figures(f"ms ({source})", [_figure(time, digits) for time in milliseconds])


def _figures(head: str, texts: Sequence[str]) -> Column:
    return Column(head, tuple(texts), is_figure=True)


def _megabytes(count: int) -> str:
    """Bytes in MB, with more digits for small counts."""
    return f"{count / 1e6:.{1 if count >= 1e5 or not count else 4}f} MB"


def _groups(stage: StageResult) -> str:
    return f"{stage.groups} by {stage.divided}" if stage.groups > 1 else "1"


def _by_groups(found: NetworkRun) -> str:
    """Shares of the time by the number of groups that compute while the others wait."""
    cycles: dict[str, int] = {}
    for stage in sorted(found.stages, key=lambda s: -s.groups):
        key = str(stage.groups)
        cycles[key] = cycles.get(key, 0) + (stage.cycles or 0)
    return shares(cycles, max(1, found.cycles or 0))


def plan_totals(found: NetworkRun) -> str:
    """The lines below the table: time by work and by cause, cycles saved by fusion."""
    total = max(1, found.cycles or 0)
    beside = total - found.work.get("product", 0)
    lines = [
        f"total {duration(found.milliseconds or 0.0)} "
        f"{simulated_on(found.machine, found.fitted_machine)}, {total} cycles of a core group, "
        f"{found.gflops or 0.0:.1f} Gflop/s; "
        f"{100 * beside / total:.1f} % of it outside the products",
        shared("by work: ", found.work, total),
        *_passes(found, "simulated"),
        shared("by cause: ", found.causes, total),
    ]
    if found.refill_note:
        lines.append(found.refill_note)
    if found.groups == 1 and any(stage.groups > 1 for stage in found.stages):
        lines.append("by core groups that compute, the others wait: " + _by_groups(found))
    if found.unfused_cycles is not None:
        saved = found.unfused_cycles - total
        lines.append(
            f"a stage for every operator takes {found.unfused_cycles} cycles: fusing saves "
            f"{100 * saved / found.unfused_cycles:.1f} %"
        )
    if found.bounds is not None:
        lines += _best(found, found.bounds)
    lines.append(
        f"planned in {found.compile_seconds:.2f} s; {_megabytes(found.constant_bytes)} of "
        f"constants, {_states(found)}{_megabytes(found.arena_bytes)} of arena in each group"
        f"{_live(found)}"
    )
    lines = [line if "\n" in line else wrapped_line(line) for line in lines]
    if found.comparison is not None:
        lines.append(comparison_text(found.comparison))
    if found.saturated:
        lines.append(wrapped_line(f"saturated {saturated_text(found.saturated)}"))
    return "\n".join(lines)


def _passes(found: NetworkRun, how: str) -> list[str]:
    """The lines of a training step: its speed, measured or simulated, and its passes."""
    if not (found.passes and found.milliseconds):
        return []
    speed = f"{1e3 * found.images / found.milliseconds:.2f} images/s {how}"
    return [speed, shared("by pass: ", found.passes, sum(found.passes.values()))]


def _states(found: NetworkRun) -> str:
    return f"{_megabytes(found.state_bytes)} of states, " if found.state_bytes else ""


def _live(found: NetworkRun) -> str:
    """The most arena bytes that a training step has live at once."""
    return f", of which {_megabytes(found.live_bytes)} live at once" if found.live_bytes else ""


def _best(found: NetworkRun, bounds: PlanBounds) -> Iterator[str]:
    """Lines that compare the plan with its lower bounds."""
    bound = max(bounds.compute_cycles, bounds.transfer_cycles, 1)
    yield (
        f"lower bounds: {bounds.compute_cycles} cycles to compute the products at the peak, "
        f"{bounds.transfer_cycles} to move inputs, weights and outputs once; the plan takes "
        f"{(found.cycles or 0) / bound:.2f} times the larger"
    )
    yield (
        f"the model: {bounds.estimate_cycles} cycles; the products, each in its best layouts, take "
        f"{bounds.product_cycles} of them or more"
    )
    if found.layout_choice is not None:
        yield _layouts(found.layout_choice)


def _layouts(choice: LayoutChoice) -> str:
    least = f"not proven the least, which is {choice.bound_cycles} or more"
    if choice.proven:
        least = "proven the least of the ways considered"
    taken = "" if choice.taken else "; those of each product's fastest schedule are taken instead"
    return (
        f"layouts for the whole network: {choice.cycles} cycles by the prices of that choice, "
        f"{least}{taken}"
    )


def shared(head: str, parts: Mapping[str, float], total: float) -> str:
    """Shares of a total after a head, on lines that break only between shares."""
    return wrapped_line(head + shares(parts, total).replace(" ", STUCK).replace("," + STUCK, ", "))


def shares(parts: Mapping[str, float], total: float) -> str:
    return ", ".join(f"{name} {100 * cycles / total:.1f} %" for name, cycles in parts.items())


def counted(number: int, noun: str, several: str = "") -> str:
    """The number with its noun, in the plural unless it is one."""
    return f"{number} {noun if number == 1 else several or noun + 's'}"


def _figure(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def network_totals(found: NetworkRun) -> str:
    """The lines below the table."""
    chosen = [stage for stage in found.stages if stage.algorithm]
    model = sum(stage.estimate_milliseconds or 0.0 for stage in chosen)
    lines = [f"products {duration(model)} by the model"]
    if found.milliseconds is not None:
        whole = found.milliseconds
        measured = sum(stage.measured_milliseconds or 0.0 for stage in chosen)
        clock = "" if found.clock == "wall" else " (processor time: the computer is busy)"
        lines = [
            f"total {duration(whole)} measured{clock}, {found.gflops:.1f} Gflop/s; "
            f"products {duration(measured, whole)} in runs that time each stage, "
            f"{duration(model, whole)} by the model",
            *_passes(found, "measured"),
        ]
    lines.append(
        f"compiled in {found.compile_seconds:.2f} s; {_megabytes(found.constant_bytes)} of "
        f"constants, {_states(found)}{_megabytes(found.arena_bytes)} of arena{_live(found)}"
    )
    lines = list(map(wrapped_line, lines))
    if found.comparison is not None:
        lines.append(comparison_text(found.comparison))
    return "\n".join(lines)


def saturated_text(saturated: Mapping[str, int]) -> str:
    """The elements that saturated, by stage, most first."""
    order = sorted(saturated.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{counted(count, 'element')} in {stage}" for stage, count in order)


def comparison_text(other: Comparison) -> str:
    """One line: the other computation, the difference, and the speedup if both were timed."""
    name = f"{other.other} {other.version}".strip() + (f" on {other.model}" if other.model else "")
    images = "" if other.images is None else f" for {counted(other.images, 'image')}"
    text = (
        f"against {name}{images}: largest difference {other.largest_difference:.2e} of the largest "
    )
    text += f"magnitude, {'within' if other.is_within_bound else 'beyond'} {other.bound:g}"
    if other.milliseconds is None or other.speedup is None:
        return text
    text = f"{text}; {duration(other.milliseconds)}"
    if math.isnan(other.speedup):  # other load disturbed every round
        return text
    text = f"{text}, ours is {other.speedup:.2f} times as fast"
    if other.spread is None or math.isnan(other.spread):  # a single round has no spread
        return text
    return f"{text} (spread {100 * other.spread:.1f} %)"


# Time of a network: its slowest stages, their causes, layouts, fusion.

_SLOWEST = 10
_DEAREST = 10
_CAUSES = 3


def network_explanation_text(e: NetworkExplanation) -> str:
    """Lines below the table of a simulated network's stages."""
    called = list(_routine_rows(e))
    called += [""] * bool(called)
    whole = (plan_totals(e.run), *_rewritten(e.rewrites))
    return "\n".join((*_stages(e), "", *called, *_layout_rows(e), "", *whole))


def measured_explanation_text(e: MeasuredExplanation) -> str:
    """Lines below the table of the stages of a network on this computer."""
    return "\n".join((*_measured_stages(e.run), *_summary(e)))


def _slowest(e: NetworkExplanation) -> list[StageTime]:
    return sorted(e.stages, key=lambda stage: -stage.cycles)[:_SLOWEST]


def _stages(e: NetworkExplanation) -> Iterator[str]:
    """The slowest stages with their largest causes."""
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


def some(names: Sequence[str], most: int) -> str:
    """The first `most` names, and the number of others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _shares_of(causes: dict[str, int], whole: int) -> str:
    """Shares in whole per cents, without those that round to 0."""
    shares = {kind: f"{100 * cycles / whole:.0f}" for kind, cycles in causes.items()}
    return ", ".join(f"{kind} {share} %" for kind, share in shares.items() if share != "0")


def _measured_stages(run: NetworkRun) -> Iterator[str]:
    """The slowest stages: for a product its estimate's causes, for others their data rate."""
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
    """Time of the whole by work and cause, and the lines of `run`."""
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
        yield wrapped_line(
            f"fusing: {counted(e.elementwise, 'elementwise operator')} in "
            f"{counted(e.passes, 'pass', 'passes')} of their own; {e.in_products} in the kernels "
            f"of products and {e.merged} in the pass of another one, which saves as many passes"
        )
    yield from _rewritten(e.rewrites)
    yield network_totals(e.run)


def _routine_rows(e: NetworkExplanation) -> Iterator[str]:
    """Lines on the routines that the slowest stages call."""
    slowest = [stage for stage in _slowest(e) if stage.routines]
    if not slowest:
        return
    yield "their routines: calls of a core, and the cycles of all of them"
    rows = [row for stage in slowest for row in stage_rows(stage.stage, stage.routines)]
    yield from columns([STAGE_HEAD, *rows])
    yield from LEGEND


def _layout_rows(e: NetworkExplanation) -> Iterator[str]:
    """The layout changes with their prices, most expensive first."""
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


def _rewritten(rewrites: tuple[str, ...]) -> Iterator[str]:
    if rewrites:
        yield wrapped_line(f"the graph was rewritten by {', '.join(dict.fromkeys(rewrites))}")
