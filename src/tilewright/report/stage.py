"""One stage of a network explained in text: what it computes of which tensors, where its time goes.

In: a `StageExplanation`. Out: lines of text.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.report.explain import cause_lines, columns, routine_lines, traffic_lines
from tilewright.report.network import wrapped
from tilewright.report.table import duration
from tilewright.report.view import StageExplanation


def stage_text(e: StageExplanation) -> str:
    """The whole explanation."""
    sections = [_head(e), _tensors(e), _causes(e), _traffic(e), _routines(e)]
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines)


def _head(e: StageExplanation) -> Iterator[str]:
    groups = f"{e.groups} core groups of " if e.groups > 1 else ""
    divided = f", divided by {e.divided}" if e.divided else ""
    yield f"{e.stage}: {e.label}"
    yield f"{e.work} on {groups}{e.machine}, {e.dtype}{divided}"
    if e.nodes and e.nodes != (e.stage,):
        several = "operators" if len(e.nodes) > 1 else "operator"
        yield wrapped(f"{several} {', '.join(e.nodes)}")
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


def _moved(e: StageExplanation) -> str:
    rate = e.moved_bytes / max(1e-9, 1e-3 * e.milliseconds) / 1e9
    return f"moves {e.moved_bytes} bytes, {rate:.2f} GB/s"


def _tensors(e: StageExplanation) -> Iterator[str]:
    if not e.tensors:
        return
    yield wrapped(e.computes)
    rows = [("", "tensor", "in memory", "bytes")]
    rows += [(t.name, t.value, f"{t.dtype} ({t.form})", str(t.size_bytes)) for t in e.tensors]
    yield from columns(rows)


def _causes(e: StageExplanation) -> Iterator[str]:
    if e.causes:
        yield "time by cause (simulated)"
        yield from cause_lines(e.causes)


def _traffic(e: StageExplanation) -> Iterator[str]:
    if e.traffic:
        yield "traffic of one core group (simulated)"
        yield from traffic_lines(e.traffic, sum(cause.cycles for cause in e.causes))


def _routines(e: StageExplanation) -> Iterator[str]:
    if e.routines:
        yield from routine_lines(e.routines)
