"""One operator explained in text: where the time goes, what bounds it, what would help.

In: an `Explanation`. Out: lines of text, at most 100 columns wide wherever names allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.report.table import short_schedule
from tilewright.report.view import Change, Explanation, LayerResult, Rejected

_WORTH_SAYING = 0.01
"""A change that gains less is not said to help."""


def explain_text(e: Explanation) -> str:
    """The whole explanation."""
    sections = [_head(e), _time(e), _traffic(e), _bounds(e), _changes(e), _rejected(e)]
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines) + "\n"


def _head(e: Explanation) -> Iterator[str]:
    layer = e.layer
    used = "one core group" if e.groups == 1 else f"{e.groups_used} of the {e.groups} core groups"
    divided = "" if layer.partition == "whole" else f", divided over {layer.partition}"
    yield f"{layer.name}: {layer.shape}"
    yield f"{layer.algorithm} on {used} of {e.machine}{divided}"
    yield (
        f"{layer.simulated_cycles} cycles simulated ({layer.milliseconds:.3f} ms), "
        f"{layer.estimate_cycles} by the model ({_signed(layer.estimate_cycles, layer)})"
    )
    yield (
        f"{layer.gflops:.1f} Gflop/s, {100 * layer.peak_fraction:.1f} % of peak; "
        f"scratchpad {e.scratchpad_bytes} of {e.scratchpad_limit_bytes} bytes"
    )


def _time(e: Explanation) -> Iterator[str]:
    yield "time by cause (simulated)"
    total = e.layer.simulated_cycles
    rows = [
        (f"{cause.kind} {cause.subject}".strip(), str(cause.cycles), _percent(cause.cycles, total))
        for cause in e.causes
    ]
    yield from _columns([*rows, ("total", str(total), _percent(total, total))])


def _traffic(e: Explanation) -> Iterator[str]:
    yield "traffic of one core group (simulated)"
    head = ("tensor", "bytes asked", "bytes moved", "requests", "engine cycles", "of the time")
    rows = [
        (
            f"{row.tensor} {row.direction}",
            str(row.asked_bytes),
            str(row.moved_bytes),
            str(row.requests),
            str(row.engine_cycles),
            _percent(row.engine_cycles, e.layer.simulated_cycles),
        )
        for row in e.traffic
    ]
    yield from _columns([head, *rows])


def _bounds(e: Explanation) -> Iterator[str]:
    layer = e.layer
    yield f"bound by {layer.bound}"
    yield (
        f"no schedule of this algorithm takes less than {layer.lower_bound_cycles} cycles: "
        f"{e.lower_bound_compute_cycles} at the cores' peak, {e.lower_bound_transfer_cycles} to "
        f"move each operand once"
    )
    distance = layer.simulated_cycles / max(1, layer.lower_bound_cycles)
    yield f"the simulated time is {distance:.2f} times that"


def _changes(e: Explanation) -> Iterator[str]:
    if not e.changes:
        return
    best = min(e.changes, key=lambda change: change.cycles)
    gain = 1 - best.cycles / e.layer.simulated_cycles
    yield "what would help (simulated)"
    if gain < _WORTH_SAYING:
        yield "  none of the changes tried gains 1 % of the time"
    else:
        yield f"  most: {_flags(best)}, {100 * gain:.1f} % less time"
    yield from _columns(
        [
            (_flags(change), str(change.cycles), _signed(change.cycles, e.layer), _tuned(change))
            for change in e.changes
        ]
    )


def _rejected(e: Explanation) -> Iterator[str]:
    if not e.rejected:
        return
    yield "best rejected candidates (model)"
    for rejected in e.rejected:
        yield f"  {_option(rejected)}: {rejected.estimate_cycles} cycles"
        yield f"    {rejected.why}"


def _option(rejected: Rejected) -> str:
    schedule = short_schedule(rejected.schedule)
    return f"{rejected.algorithm} over {rejected.partition}, {schedule}"


def _flags(change: Change) -> str:
    return " ".join(f"--set {setting}" for setting in change.settings)


def _tuned(change: Change) -> str:
    return "tuned again" if change.retuned else "same schedule"


def _signed(cycles: int, layer: LayerResult) -> str:
    total = layer.simulated_cycles
    return f"{100 * (cycles - total) / max(1, total):+.1f} %"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.1f} %"


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Two spaces in front, the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for first, *rest in rows:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        yield "  " + "  ".join(cells).rstrip()
