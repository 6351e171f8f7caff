"""Explanation of one operator as text: time by cause, bounds, helpful changes.

In: an `Explanation`. Out: lines of text, at most 100 columns wide wherever names allow.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import assert_never

from tilewright.codegen.artifact import RoutineCycles
from tilewright.cost.roofline import Level, Roofline, Stream
from tilewright.report import view
from tilewright.report.table import clipped, duration, short_schedule, wrapped_line

_NAME_COLUMNS, _CALL_COLUMNS, _STAGE_COLUMNS = 34, 34, 24
_SHOWN_CALLS = 6
"""Calls shown per routine; the others are counted."""


def routine_rows(routines: Sequence[RoutineCycles]) -> list[tuple[str, ...]]:
    """A table of calls: each routine's most expensive ones in total, and a count of the others."""
    counted = any(r.calls is not None for r in routines)
    rows: list[tuple[str, ...]] = [
        ("routine", "call", *(["calls"] * counted), "priced", "simulated")
    ]
    for name in dict.fromkeys(r.name for r in routines):
        own = [r for r in routines if r.name == name]
        most = sorted(own, key=lambda r: -r.times * r.priced_cycles)[:_SHOWN_CALLS]
        for r in (r for r in own if r in most):
            simulated = "" if r.simulated_cycles is None else str(r.simulated_cycles)
            calls = [str(r.calls)] if counted else []
            words = clipped(name, _NAME_COLUMNS), clipped(r.call, _CALL_COLUMNS)
            rows.append((*words, *calls, str(r.priced_cycles), simulated))
        if len(own) > len(most):
            others = sum(r.times for r in own if r not in most)
            noun = f"{len(own) - len(most)} other shapes"
            rows.append(("", noun, *([str(others)] * counted), "", ""))
    return rows


LEGEND = (
    "priced: by the model, fitted constants included",
    "simulated: the routine alone, instruction by instruction, its code in the cache",
)
STAGE_HEAD = ("stage", "routine", "shapes", "calls", "priced", "simulated")


def stage_rows(stage: str, routines: Sequence[RoutineCycles]) -> list[tuple[str, ...]]:
    """A row for each routine of a stage: distinct calls, calls, and total cycles."""
    rows: list[tuple[str, ...]] = []
    for name in dict.fromkeys(r.name for r in routines):
        own = [(r, r.times) for r in routines if r.name == name]
        priced = sum(calls * r.priced_cycles for r, calls in own)
        exact = [calls * r.simulated_cycles for r, calls in own if r.simulated_cycles is not None]
        simulated = str(sum(exact)) if len(exact) == len(own) else ""
        numbers = map(str, (len(own), sum(calls for _, calls in own), priced))
        words = stage if not rows else "", clipped(name, _NAME_COLUMNS)
        rows.append((clipped(words[0], _STAGE_COLUMNS), words[1], *numbers, simulated))
    return rows


_WORTH_SAYING = 0.01
"""Gain below which no change is said to help."""

_COLUMNS, _LONG = 100, 60
"""Columns of a line, and of flags shown in a table."""

_LEAST_SHARE = 0.0005
"""Share below which causes are summed up, since they would be shown as 0.0 %."""


def explain_text(e: view.Explanation) -> str:
    """The whole explanation."""
    sections = [_head(e), _adding(e), _time(e), _traffic(e), _routines(e), _arranged(e)]
    sections += [_bounds(e), _changes(e), _rejected(e)]
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines) + "\n"


def _head(e: view.Explanation) -> Iterator[str]:
    layer = e.layer
    used = "one core group" if e.groups == 1 else f"{e.groups_used} of the {e.groups} core groups"
    used = used if e.threads == 1 else f"{e.threads} threads"
    divided = "" if layer.partition == "whole" else f", divided over {layer.partition}"
    yield f"{layer.name}: {layer.shape}"
    yield f"{layer.algorithm} on {used} of {e.machine}{divided}"
    yield _times(e)
    yield (
        f"{layer.gflops:.1f} Gflop/s, {100 * layer.peak_fraction:.1f} % of peak; "
        f"scratchpad {e.scratchpad_bytes} of {e.scratchpad_limit_bytes} bytes"
    )
    if e.refill_note:
        yield e.refill_note


def _adding(e: view.Explanation) -> Iterator[str]:
    if e.adding is None:
        return
    yield (
        f"each group has a part of every sum; behind a barrier each adds up {e.adding.elements} "
        f"elements of all {e.groups_used}"
    )
    yield f"parts: {e.adding.estimate_cycles} of the cycles by the model, `sums` below"


def _times(e: view.Explanation) -> str:
    layer, estimated = e.layer, e.layer.estimate_cycles
    model = f"{estimated} by the model ({_signed(estimated, e)})"
    match layer.timed_by:
        case "simulated":
            return f"{_cycles(e)} cycles simulated ({duration(layer.milliseconds)}), {model}"
        case "measured":
            clock = f"{_cycles(e)} cycles at {e.clock_hz / 1e9:.2f} GHz"
            return f"{duration(layer.milliseconds)} measured, {clock}, {model}"
        case "model":
            return f"{duration(layer.milliseconds)} by the model ({estimated} cycles), not measured"
        case _:
            assert_never(layer.timed_by)


def _cycles(e: view.Explanation) -> int:
    """Cycles that all others are compared with: simulated, else the time at the clock."""
    if e.layer.simulated_cycles is not None:
        return e.layer.simulated_cycles
    return max(1, round(e.layer.milliseconds * 1e-3 * e.clock_hz))


def _source(e: view.Explanation) -> str:
    """Source of the causes and the traffic."""
    return "simulated" if e.layer.timed_by == "simulated" else "model"


def _time(e: view.Explanation) -> Iterator[str]:
    whose = "" if e.threads == 1 else " of the thread with most to do"
    yield f"time by cause{whose} ({_source(e)})"
    yield from cause_lines(e.causes)


def cause_lines(causes: Sequence[view.CauseRow]) -> Iterator[str]:
    """Cycles by cause, rare ones summed up, and the total."""
    total = sum(cause.cycles for cause in causes)
    shown = [cause for cause in causes if cause.cycles >= _LEAST_SHARE * total]
    rows = [
        (f"{cause.kind} {cause.subject}".strip(), str(cause.cycles), _percent(cause.cycles, total))
        for cause in shown
    ]
    rest = total - sum(cause.cycles for cause in shown)
    if rest:
        others = len(causes) - len(shown)
        noun = "other cause" if others == 1 else "other causes"
        rows.append((f"{others} {noun}", str(rest), _percent(rest, total)))
    yield from columns([*rows, ("total", str(total), _percent(total, total))])


def _traffic(e: view.Explanation) -> Iterator[str]:
    if not e.traffic:
        return
    yield f"traffic of {'one core group' if e.threads == 1 else 'that thread'} ({_source(e)})"
    yield from traffic_lines(e.traffic, sum(cause.cycles for cause in e.causes))


def traffic_lines(traffic: Sequence[view.TrafficRow], total: int) -> Iterator[str]:
    """Traffic of each tensor, and its share of the time."""
    head = ("tensor", "bytes asked", "bytes moved", "requests", "engine cycles", "of the time")
    rows = [
        (
            f"{row.tensor} {row.direction}",
            str(row.asked_bytes),
            str(row.moved_bytes),
            str(row.requests),
            str(row.engine_cycles),
            _percent(row.engine_cycles, total),
        )
        for row in traffic
    ]
    yield from columns([head, *rows])


def _routines(e: view.Explanation) -> Iterator[str]:
    if e.routines:
        yield from routine_lines(e.routines)


def routine_lines(routines: Sequence[RoutineCycles]) -> Iterator[str]:
    """The routines, each with its calls."""
    yield "routines of the code (cycles of one call)"
    yield from columns(routine_rows(routines))
    yield from LEGEND


def _arranged(e: view.Explanation) -> Iterator[str]:
    if not e.arranged:
        return
    yield "arranged by the groups' cores, from and to C order (not in the time above)"
    head = ("tensor", "bytes", "for", "cycles", "by the model", "ms", "least ms")
    rows = [
        (
            f"{row.tensor} {row.direction}",
            str(row.bytes),
            "all groups" if row.shared else "each group",
            str(row.cycles),
            str(row.estimate_cycles),
            _milliseconds(row.cycles, e),
            f"{row.least_milliseconds:.3f}",
        )
        for row in e.arranged
    ]
    total = sum(row.cycles for row in e.arranged)
    yield from columns(
        [head, *rows, ("together", "", "", str(total), "", _milliseconds(total, e), "")]
    )


def _milliseconds(cycles: int, e: view.Explanation) -> str:
    return f"{1e3 * cycles / e.clock_hz:.3f}"


def _bounds(e: view.Explanation) -> Iterator[str]:
    layer = e.layer
    yield f"bound by {layer.bound}"
    yield (
        f"no schedule of this algorithm takes less than {layer.lower_bound_cycles} cycles: "
        f"{e.lower_bound_compute_cycles} at the cores' peak, {e.lower_bound_transfer_cycles} to "
        f"move each operand once"
    )
    distance = _cycles(e) / max(1, layer.lower_bound_cycles)
    which = {"simulated": "simulated", "measured": "measured", "model": "estimated"}
    yield f"the {which[layer.timed_by]} time is {distance:.2f} times that"


def _changes(e: view.Explanation) -> Iterator[str]:
    if not e.changes:
        return
    best = min(e.changes, key=lambda change: change.cycles)
    gain = 1 - best.cycles / _cycles(e)
    yield "what would help (simulated)"
    if gain < _WORTH_SAYING:
        yield "  none of the changes tried gains 1 % of the time"
    else:
        yield f"  most: {_called(best, e)}, {100 * gain:.1f} % less time"
    yield from columns(
        [
            (_called(change, e), str(change.cycles), _signed(change.cycles, e), _tuned(change))
            for change in e.changes
        ]
    )
    for change in filter(_is_long, e.changes):
        yield from _listed(_called(change, e), change.settings)


def _rejected(e: view.Explanation) -> Iterator[str]:
    if not e.rejected:
        return
    yield "best rejected candidates (model)"
    for rejected in e.rejected:
        how = f"{rejected.algorithm} over {rejected.partition}, {short_schedule(rejected.schedule)}"
        yield f"  {how}: {rejected.estimate_cycles} cycles"
        yield from _other_lines(rejected, e)
        yield f"    {rejected.why}"


def _other_lines(rejected: view.Rejected, e: view.Explanation) -> Iterator[str]:
    """Lines where a candidate's schedule differs from the pick's, if both have the same algorithm,
    division and short form.
    """
    pick, own = e.layer, rejected.schedule.splitlines()
    same = (pick.algorithm, pick.partition) == (rejected.algorithm, rejected.partition)
    if same and short_schedule(pick.schedule) == short_schedule(rejected.schedule):
        for before, after in zip_longest(pick.schedule.splitlines(), own, fillvalue="nothing"):
            if before != after:
                yield f"    {after} where the pick has {before}"


def _listed(name: str, settings: Sequence[str]) -> Iterator[str]:
    """The flags of a change, on as many lines as they need."""
    flags = [f"--set\0{setting}" for setting in settings]  # a flag stays in one line
    text = f"{name}: {' '.join(flags)}"
    lines = textwrap.wrap(text, _COLUMNS, initial_indent="  ", subsequent_indent="    ")
    yield from (line.replace("\0", " ") for line in lines)


def _called(change: view.Change, e: view.Explanation) -> str:
    """The flags of a change, or its letter where they are too long for the table."""
    if not _is_long(change):
        return _flags(change)
    letter = "abcdefghij"[[c for c in e.changes if _is_long(c)].index(change)]
    keys = [setting.partition("=")[0].rpartition(".")[0] for setting in change.settings]
    return f"({letter}) {len(keys)} numbers of {', '.join(dict.fromkeys(keys))}"


def _is_long(change: view.Change) -> bool:
    return len(change.settings) > 1 and len(_flags(change)) > _LONG


def _flags(change: view.Change) -> str:
    return " ".join(f"--set {setting}" for setting in change.settings)


def _tuned(change: view.Change) -> str:
    return "tuned again" if change.retuned else "same schedule"


def _signed(cycles: int, e: view.Explanation) -> str:
    total = _cycles(e)
    return f"{100 * (cycles - total) / max(1, total):+z.1f} %"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.1f} %"


def columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Lines of a table, indented by two; the first column is left-aligned, others right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for first, *rest in rows:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        yield "  " + "  ".join(cells).rstrip()


_HEAD = ("level", "block", "required GB/s", "available GB/s", "share", "Gflop/s", "squared")


def roofline_text(r: Roofline, threads: int = 1) -> str:
    """The bandwidth required and available at each level, with its streams, ended by the program's
    bound; for several threads, that of each.
    """
    return (
        "\n".join([*_roofline_head(r, threads), *columns([_HEAD, *_levels(r)]), *_verdict(r)])
        + "\n"
    )


def _roofline_head(r: Roofline, threads: int) -> Iterator[str]:
    whose = "one core group" if threads == 1 else f"one of {threads} threads"
    yield (
        f"roofline of {whose} (model): peak {r.peak_flops / 1e9:.1f} Gflop/s, "
        f"execution efficiency {100 * r.execution_efficiency:.1f} %"
    )


def _levels(r: Roofline) -> Iterator[tuple[str, ...]]:
    for level in r.levels:
        yield _level_row(level)
        if len(level.streams) > 1:
            yield from map(_stream, level.streams)
    yield _level_row(r.direct)


def _level_row(level: Level) -> tuple[str, ...]:
    return (
        level.name,
        "",
        _giga(level.required_bytes_per_second),
        _giga(level.available_bytes_per_second),
        f"{level.share:.3g}",
        _giga(level.roofline_flops),
        _giga(level.squared_flops),
    )


def _stream(stream: Stream) -> tuple[str, ...]:
    return (
        f"  {stream.name}",
        f"{stream.block_bytes:.0f}" if stream.block_bytes else "",
        _giga(stream.required_bytes_per_second),
        _giga(stream.available_bytes_per_second),
        *[""] * 3,
    )


def _verdict(r: Roofline) -> Iterator[str]:
    least = min(r.levels, key=lambda level: level.share)
    computing = least.share > r.execution_efficiency
    cause = "the primitives" if computing else f"the bandwidth of {least.name}"
    yield f"bound by {cause}: {_giga(r.roofline_flops)} Gflop/s if all overlaps, " + (
        f"{_giga(r.squared_flops)} by the squared shares of swDNN III-D"
    )
    if r.useful_fraction < 1:
        yield f"{100 * (1 - r.useful_fraction):.1f} % of the operations are padding, not counted"


def _giga(value: float) -> str:
    return f"{value / 1e9:.1f}" if value >= 1e8 else f"{value / 1e9:.2g}"


def stage_text(e: view.StageExplanation) -> str:
    """The explanation of a stage: its computation, tensors and time."""
    sections = [[*_stage_head(e)], [*_tensors(e)]]
    if e.causes:
        sections.append(["time by cause (simulated)", *cause_lines(e.causes)])
    if e.traffic:
        title, cycles = "traffic of one core group (simulated)", sum(c.cycles for c in e.causes)
        sections.append([title, *traffic_lines(e.traffic, cycles)])
    if e.routines:
        sections.append([*routine_lines(e.routines)])
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _stage_head(e: view.StageExplanation) -> Iterator[str]:
    groups = f"{e.groups} core groups of " if e.groups > 1 else ""
    divided = f", divided by {e.divided}" if e.divided else ""
    yield f"{e.stage}: {e.label}"
    yield f"{e.work} on {groups}{e.machine}, {e.dtype}{divided}"
    if e.nodes and e.nodes != (e.stage,):
        several = "operators" if len(e.nodes) > 1 else "operator"
        yield wrapped_line(f"{several} {', '.join(e.nodes)}")
    share = f"{100 * e.share:.1f} % of the network's time"
    if e.cycles is not None:
        yield (
            f"{e.cycles} cycles simulated ({duration(e.milliseconds)}), "
            f"{e.estimate_cycles} by the model; {share}"
        )
    elif e.timed_by == "measured":
        yield f"{duration(e.milliseconds)} measured, {share}; {_moved(e)}"
    else:
        yield f"not measured; moves {e.moved_bytes} bytes"


def _moved(e: view.StageExplanation) -> str:
    rate = e.moved_bytes / max(1e-9, 1e-3 * e.milliseconds) / 1e9
    return f"moves {e.moved_bytes} bytes, {rate:.2f} GB/s"


def _tensors(e: view.StageExplanation) -> Iterator[str]:
    if not e.tensors:
        return
    yield wrapped_line(e.computes)
    rows = [("", "tensor", "in memory", "bytes")]
    rows += [(t.name, t.value, f"{t.dtype} ({t.form})", str(t.size_bytes)) for t in e.tensors]
    yield from columns(rows)
