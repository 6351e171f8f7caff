"""The run of a whole network as a table: its stages one by one, the whole, how it compares.

layer      what               algorithm  ms (model)  ms (measured)  Gflop/s
conv1      conv2d 1x3x224...  direct          0.812          0.799    295.4
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table

from tilewright.network.results import Comparison, LayoutChoice, NetworkRun, PlanBounds, StageResult
from tilewright.report.stage_table import PAGE, Column, stage_table
from tilewright.report.table import duration

_STUCK = "\u00a0"
"""A space that no line breaks at."""


def network_table(found: NetworkRun, width: int = PAGE) -> Table:
    """One line per stage, or two, in so many columns."""
    title = (
        f"{found.network} on {found.machine}, {found.dtype}, {counted(len(found.stages), 'stage')}"
    )
    stages, columns = found.stages, _named(found, "layer")
    columns.append(Column("algorithm", tuple(s.algorithm for s in stages)))
    columns.append(_by_the_model(found))
    if found.milliseconds is not None:
        times = [stage.measured_milliseconds or 0.0 for stage in stages]
        total = sum(times) or 1.0
        rates = [stage.gflops if stage.algorithm else None for stage in stages]
        columns += [
            _figures("ms (measured)", [_figure(own, 3) for own in times]),
            _figures("Gflop/s", [_figure(rate, 1) for rate in rates]),
            _figures("% of time", [f"{100 * own / total:.1f}" for own in times]),
        ]
    return stage_table(title, columns, width)


def plan_table(found: NetworkRun, width: int = PAGE) -> Table:
    """One line per stage of a simulated network, or two, in so many columns."""
    groups = "" if found.groups in (None, 1) else f", each of {found.groups} core groups"
    title = (
        f"{found.network} on {found.machine}, {found.dtype}, "
        f"{counted(len(found.stages), 'stage')}{groups}"
    )
    parts = [(stage.cycles or 0) / max(1, found.cycles or 0) for stage in found.stages]
    times = [part * (found.milliseconds or 0.0) for part in parts]
    columns = [
        *_named(found, "stage"),
        Column("work", tuple(stage.work for stage in found.stages)),
        Column("algorithm", tuple(stage.algorithm for stage in found.stages), below=True),
        Column("bound", tuple(stage.bound for stage in found.stages)),
        _by_the_model(found),
        _figures("ms (simulated)", [_figure(own, 3) for own in times]),
        _figures("% of time", [f"{100 * part:.1f}" for part in parts]),
    ]
    if found.groups == 1 and any(stage.groups > 1 for stage in found.stages):
        columns.append(Column("core groups", tuple(map(_groups, found.stages))))
    return stage_table(title, columns, width)


def _named(found: NetworkRun, head: str) -> list[Column]:
    """Columns for the name of each stage and for what it does."""
    names = tuple(stage.name for stage in found.stages)
    labels = tuple(stage.label for stage in found.stages)
    return [Column(head, names), Column("what", labels, below=True)]


def _by_the_model(found: NetworkRun) -> Column:
    times = [_figure(stage.estimate_milliseconds, 3) for stage in found.stages]
    return _figures("ms (model)", times)


def _figures(head: str, texts: Sequence[str]) -> Column:
    return Column(head, tuple(texts), is_figure=True)


def _megabytes(count: int) -> str:
    """Bytes in MB, few ones as well."""
    return f"{count / 1e6:.{1 if count >= 1e5 or not count else 4}f} MB"


def _groups(stage: StageResult) -> str:
    return f"{stage.groups} by {stage.divided}" if stage.groups > 1 else "1"


def _by_groups(found: NetworkRun) -> str:
    """Parts of the time by the number of groups that compute; the others wait."""
    cycles: dict[str, int] = {}
    for stage in sorted(found.stages, key=lambda s: -s.groups):
        key = str(stage.groups)
        cycles[key] = cycles.get(key, 0) + (stage.cycles or 0)
    return shares(cycles, max(1, found.cycles or 0))


def plan_totals(found: NetworkRun) -> str:
    """The lines below the table: where the time goes by work and by cause, what fusion saved."""
    total = max(1, found.cycles or 0)
    beside = total - found.work.get("product", 0)
    lines = [
        f"total {duration(found.milliseconds or 0.0)} simulated, {total} cycles of a core group, "
        f"{found.gflops or 0.0:.1f} Gflop/s; "
        f"{100 * beside / total:.1f} % of it outside the products",
        shared("by work: ", found.work, total),
        *_passes(found),
        shared("by cause: ", found.causes, total),
    ]
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
    lines = [line if "\n" in line else wrapped(line) for line in lines]
    if found.comparison is not None:
        lines.append(comparison_text(found.comparison))
    return "\n".join(lines)


def _passes(found: NetworkRun) -> list[str]:
    """The line of a training step's passes."""
    total = sum(found.passes.values())
    return [shared("by pass: ", found.passes, total)] if found.passes else []


def _states(found: NetworkRun) -> str:
    return f"{_megabytes(found.state_bytes)} of states, " if found.state_bytes else ""


def _live(found: NetworkRun) -> str:
    """How much of the arena is needed at the fullest moment, of a training step."""
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
    """Parts of a total behind a head, in lines that break between them."""
    return wrapped(head + shares(parts, total).replace(" ", _STUCK).replace("," + _STUCK, ", "))


def wrapped(line: str) -> str:
    """A line of words in lines that fit a page."""
    text = textwrap.fill(
        line, PAGE, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return text.replace(_STUCK, " ")


def shares(parts: Mapping[str, float], total: float) -> str:
    return ", ".join(f"{name} {100 * cycles / total:.1f} %" for name, cycles in parts.items())


def counted(number: int, noun: str, several: str = "") -> str:
    """The number with the noun, in the plural where it is not one."""
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
            f"products {duration(measured, whole)} of it, {duration(model, whole)} by the model",
            *_passes(found),
        ]
    lines.append(
        f"compiled in {found.compile_seconds:.2f} s; {_megabytes(found.constant_bytes)} of "
        f"constants, {_states(found)}{_megabytes(found.arena_bytes)} of arena"
    )
    lines = list(map(wrapped, lines))
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
