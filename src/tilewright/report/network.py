"""The run of a whole network as a table: its stages one by one, the whole, how it compares.

layer      what               algorithm  ms (model)  ms (measured)  Gflop/s
conv1      conv2d 1x3x224...  direct          0.812          0.799    295.4
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.table import Table

from tilewright.network.results import Comparison, NetworkRun, StageResult
from tilewright.report.table import duration, plain_table

_SHOWN_LABEL = 48


def network_table(found: NetworkRun) -> Table:
    """One line per stage."""
    title = (
        f"{found.network} on {found.machine}, {found.dtype}, {counted(len(found.stages), 'stage')}"
    )
    table, measured = plain_table(title), found.milliseconds is not None
    for column in ("layer", "what", "algorithm"):
        table.add_column(column, overflow="fold", min_width=9)
    for column in ("ms (model)", *(("ms (measured)", "Gflop/s") if measured else ())):
        table.add_column(column, justify="right", min_width=max(map(len, column.split())))
    for stage in found.stages:
        figures = [_figure(stage.estimate_milliseconds, 3)]
        if measured:
            rate = stage.gflops if stage.algorithm else None
            figures += [_figure(stage.measured_milliseconds, 3), _figure(rate, 1)]
        table.add_row(stage.name, _label(stage), stage.algorithm, *figures)
    return table


def plan_table(found: NetworkRun) -> Table:
    """One line per stage of a simulated network."""
    groups = "" if found.groups in (None, 1) else f", each of {found.groups} core groups"
    stages = counted(len(found.stages), "stage")
    table = plain_table(f"{found.network} on {found.machine}, {found.dtype}, {stages}{groups}")
    for column in ("stage", "what", "work", "algorithm", "bound"):
        table.add_column(column, overflow="fold", min_width=8)
    for column in ("ms (model)", "ms (simulated)", "% of time"):
        table.add_column(column, justify="right", min_width=max(map(len, column.split())))
    together = any(stage.groups > 1 for stage in found.stages)
    if together:
        table.add_column("core groups", min_width=8)
    for stage in found.stages:
        share = (stage.cycles or 0) / max(1, found.cycles or 0)
        milliseconds = share * (found.milliseconds or 0.0)
        figures = (
            _figure(stage.estimate_milliseconds, 3),
            _figure(milliseconds, 3),
            f"{100 * share:.1f}",
        )
        label = _label(stage)
        words = [stage.name, label, stage.work, stage.algorithm, stage.bound, *figures]
        table.add_row(*words, *([_groups(stage)] if together else []))
    return table


def _label(stage: StageResult) -> str:
    """What a stage does; an ellipsis stands for what does not fit."""
    text = stage.label
    return text if len(text) <= _SHOWN_LABEL else f"{text[: _SHOWN_LABEL - 3].rstrip()}..."


def _megabytes(count: int) -> str:
    """Bytes in MB, few ones as well."""
    return f"{count / 1e6:.{1 if count >= 1e5 or not count else 4}f} MB"


def _groups(stage: StageResult) -> str:
    return f"{stage.groups} by {stage.divided}" if stage.groups > 1 else "1"


def _by_groups(found: NetworkRun) -> str:
    """How many groups compute for what part of the time; the others wait."""
    cycles: dict[str, int] = {}
    for stage in sorted(found.stages, key=lambda s: -s.groups):
        key = str(stage.groups)
        cycles[key] = cycles.get(key, 0) + (stage.cycles or 0)
    return _shares(cycles, max(1, found.cycles or 0))


def plan_totals(found: NetworkRun) -> str:
    """The lines below the table: where the time goes by work and by cause, what fusion saved."""
    total = max(1, found.cycles or 0)
    beside = total - found.work.get("product", 0)
    lines = [
        f"total {duration(found.milliseconds or 0.0)} simulated, {total} cycles of a core group, "
        f"{found.gflops or 0.0:.1f} Gflop/s; "
        f"{100 * beside / total:.1f} % of it outside the products",
        "by work: " + _shares(found.work, total),
        "by cause: " + _shares(found.causes, total),
    ]
    if any(stage.groups > 1 for stage in found.stages):
        lines.append("by core groups that compute, the others wait: " + _by_groups(found))
    if found.unfused_cycles is not None:
        saved = found.unfused_cycles - total
        lines.append(
            f"a stage for every operator takes {found.unfused_cycles} cycles: fusing saves "
            f"{100 * saved / found.unfused_cycles:.1f} %"
        )
    lines.append(
        f"planned in {found.compile_seconds:.2f} s; {_megabytes(found.constant_bytes)} of "
        f"constants, {_megabytes(found.arena_bytes)} of arena in each group"
    )
    if found.comparison is not None:
        lines.append(comparison_text(found.comparison))
    return "\n".join(lines)


def _shares(parts: Mapping[str, int], total: int) -> str:
    return ", ".join(f"{name} {100 * cycles / total:.1f} %" for name, cycles in parts.items())


def counted(number: int, noun: str) -> str:
    """The number with the noun, in the plural where it is not one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


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
            f"products {duration(measured, whole)} of it, {duration(model, whole)} by the model"
        ]
    lines.append(
        f"compiled in {found.compile_seconds:.2f} s; {_megabytes(found.constant_bytes)} of "
        f"constants, {_megabytes(found.arena_bytes)} of arena"
    )
    if found.comparison is not None:
        lines.append(comparison_text(found.comparison))
    return "\n".join(lines)


def comparison_text(other: Comparison) -> str:
    """One line: with what, how far apart, and which is faster where both were timed."""
    name = f"{other.other} {other.version}".strip() + (f" on {other.model}" if other.model else "")
    images = "" if other.images is None else f" for {counted(other.images, 'image')}"
    text = (
        f"against {name}{images}: largest difference {other.largest_difference:.2e} of the largest "
    )
    text += f"magnitude, {'within' if other.is_within_bound else 'beyond'} {other.bound:g}"
    if other.milliseconds is None or other.speedup is None:
        return text
    text = f"{text}; {duration(other.milliseconds)}"
    if math.isnan(other.speedup):  # no round in which others disturbed neither
        return text
    text = f"{text}, ours is {other.speedup:.2f} times as fast"
    if other.spread is None or math.isnan(other.spread):  # of a single round there is none
        return text
    return f"{text} (spread {100 * other.spread:.1f} %)"
