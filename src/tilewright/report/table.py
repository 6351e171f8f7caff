"""The table at the end of a compilation: one line per layer, then the totals; and one of stages.

layer    algorithm  divided over  schedule         ms (model)  ms (simulated)  Gflop/s  % peak
conv1_2  implicit   rows          64 x 128 x 64 n       240.1           243.2   1520.1    51.2
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from rich import box
from rich.table import Table

from tilewright.common.limits import PAGE

if TYPE_CHECKING:  # they import the cost model, and light commands show tables
    from tilewright.report.view import LayerResult, NetworkResult

_FEWER_OPERATIONS = (
    "Gflop/s counts the operations of the definition; Winograd's algorithm computes fewer, so it "
    "can exceed 100 % of peak"
)
_LEGEND = (
    "simulated: statements, transfers and queues one by one, a call and a transfer at the model's "
    "price; left out: arranging operands and results around the layers"
)
_SHORT_MILLISECONDS = 0.01
"""Shorter times are shown in microseconds."""
_FACTORS = re.compile(r"factors\((?P<pairs>[^)]*)\)")


def short_schedule(schedule: str) -> str:
    """Short form of a schedule: block sizes, then for each nest its tiles in loop order, the
    vectorised dimension and the doubled buffers.

    >>> short_schedule("algorithm gemm\\nnest gemm\\nreorder(row, col)\\nvectorize(n)\\n"
    ...                "factors(a_copies=2, b_copies=1, col_granule=8, col_tile=64, row_tile=32)")
    'row 32 col 64 vec n 2x a'
    >>> short_schedule("algorithm winograd4\\nblocks(block_rows=7, blocks=2)\\nnest input\\n"
    ...                "factors(channel_tile=64)")
    'block_rows 7 blocks 2 | channel 64'
    """
    head, *nests = schedule.split("\nnest ")
    blocks = re.search(r"^blocks\(([^)]*)\)$", head, re.MULTILINE)
    sizes = [blocks[1].replace("=", " ").replace(",", "")] if blocks else []
    return " | ".join([*sizes, *map(_short_nest, nests)])


def main_schedule(schedule: str) -> str:
    """The short form of the matrix product alone, and the number of other nests."""
    nests = schedule.split("\nnest ")[1:]
    product = next((nest for nest in nests if "vectorize(" in nest), nests[0] if nests else "")
    others = f" (+{len(nests) - 1})" if len(nests) > 1 else ""
    return _short_nest(product) + others


def schedule_legend(schedules: Iterable[str]) -> str:
    """Legend of the short forms in these schedules; empty if they have none."""
    text = " ".join(map(main_schedule, schedules))
    said = {
        r"\w \d": "NAME N: tiles of N, in the order of the loops",
        r"\bvec ": "vec: the vectorised dimension",
        r"\b2x ": "2x: buffers that are doubled",
        r"\(\+": "(+N): nests beside the product",
    }
    words = [meaning for mark, meaning in said.items() if re.search(mark, text)]
    return f"schedule: {'; '.join(words)}" if words else ""


def _short_nest(text: str) -> str:
    match = _FACTORS.search(text)
    pairs = dict(pair.split("=") for pair in match["pairs"].split(", ")) if match else {}
    order = re.search(r"reorder\(([^)]*)\)", text)
    tiled = [name[:-5] for name in pairs if name.endswith("_tile")]
    loops = [name for name in (order[1].split(", ") if order else ()) if name in tiled]
    loops += [name for name in tiled if name not in loops]
    words = [f"{name} {pairs[f'{name}_tile']}" for name in loops]
    doubled = [name[:-7] for name, value in pairs.items() if (name[-7:], value) == ("_copies", "2")]
    vector = re.search(r"vectorize\((\w+)\)", text)
    words += [f"vec {vector[1]}"] if vector else []
    return " ".join([*words, *([f"2x {','.join(doubled)}"] if doubled else [])])


def layer_table(result: NetworkResult, clock_hz: int, *, schedules: bool = True) -> Table:
    """One line per layer; the columns tell modelled from simulated numbers."""
    table = plain_table(_title(result))
    table.add_column("layer", overflow="fold", min_width=5)
    table.add_column("algorithm", no_wrap=True)  # one word, which a break would garble
    for column in ("divided over", *(["schedule"] if schedules else [])):
        table.add_column(column, overflow="fold", min_width=min(len(column), 9))
    times = ("ms (model)", *([] if result.timed_by == "model" else [f"ms ({result.timed_by})"]))
    for column in (*times, "Gflop/s", "% of peak"):
        table.add_column(column, justify="right", min_width=max(map(len, column.split())))
    table.add_column("bound by", overflow="fold", min_width=9)
    digits = time_digits(result.total_milliseconds)
    checked = any(layer.check != "not run" for layer in result.layers)
    if checked:
        table.add_column("check")
    for layer in result.layers:
        chosen = (layer.name, layer.algorithm, layer.partition)
        schedule = [main_schedule(layer.schedule)] if schedules else []
        check = [layer.check] if checked else []
        figures = _times(layer, clock_hz, digits)[: len(times)] + _figures(layer)
        table.add_row(*chosen, *schedule, *figures, *check)
    return table


def _title(result: NetworkResult) -> str:
    count = len(result.layers)
    batch = "" if result.batch is None else f", batch {result.batch}"
    return f"{count} layer{'s' if count > 1 else ''} on {result.machine}{batch}, {result.dtype}"


def duration(milliseconds: float, whole: float | None = None) -> str:
    """A time with its unit and three decimals; a part of `whole` has the unit of the whole.

    >>> duration(12.3456), duration(0.0043215), duration(0.0), duration(0.0043215, whole=12.3456)
    ('12.346 ms', '4.321 us', '0.000 ms', '0.004 ms')
    """
    if 0 < (milliseconds if whole is None else whole) < _SHORT_MILLISECONDS:
        return f"{1e3 * milliseconds:.3f} us"
    return f"{milliseconds:.3f} ms"


def time_digits(total_milliseconds: float) -> int:
    """Decimals that show a thousandth of the total, at least three.

    >>> time_digits(12.3), time_digits(0.149), time_digits(0.0)
    (3, 4, 3)
    """
    if not total_milliseconds:
        return 3
    return 3 + max(0, -math.floor(math.log10(total_milliseconds)))


def plain_table(title: str | None = None, heads: Iterable[str] = ()) -> Table:
    """An empty table in the style of all reports, with these column heads."""
    look = {"title_justify": "left", "title_style": "bold", "padding": (0, 1, 0, 0)}
    return Table(*heads, title=title, box=box.SIMPLE, **look)  # type: ignore[arg-type]  # mixed


def _times(layer: LayerResult, clock_hz: int, digits: int) -> tuple[str, ...]:
    """Milliseconds by the model, and simulated or measured."""
    estimate = layer.estimate_cycles / clock_hz * 1e3
    return f"{estimate:.{digits}f}", f"{layer.milliseconds:.{digits}f}"


def _figures(layer: LayerResult) -> tuple[str, ...]:
    return (f"{layer.gflops:.1f}", f"{100 * layer.peak_fraction:.1f}", layer.bound)


def _whose(result: NetworkResult) -> str:
    match result.timed_by:
        case "measured":
            return "measured"
        case "model":
            return "by the model"
        case "simulated":
            return simulated_on(result.machine, result.fitted_machine)
        case _:
            assert_never(result.timed_by)


def simulated_on(machine: str, fitted: str) -> str:
    """Text that names the simulated machine; `fitted` is its fitted description, if any."""
    kind = f" ({'fitted' if fitted == machine else 'ideal'})" if fitted else ""
    return f"simulated on {machine}{kind}"


def _simulated(result: NetworkResult) -> Iterator[str]:
    """Notes on simulated times, and the total with fitted constants."""
    if result.timed_by != "simulated":
        return
    if result.fitted_milliseconds is not None:
        more = result.fitted_milliseconds / max(1e-9, result.total_milliseconds) - 1
        yield (
            f"{result.fitted_machine}, whose constants were fitted to measured kernels, takes "
            f"{duration(result.fitted_milliseconds)} for these schedules ({100 * more:+.1f} %)"
        )
    if result.refill_note:
        yield result.refill_note
    yield _LEGEND


_APART = 2
"""Factor by which a layer's share of the peak must exceed the machine's for its peak to be that of
the cores it ran on.
"""


def total_lines(result: NetworkResult, peak_flops: float) -> str:
    """The lines below the table."""
    milliseconds = result.total_milliseconds
    flops = sum(layer.gflops * layer.milliseconds * 1e6 for layer in result.layers)
    rate = flops / milliseconds * 1e3 if milliseconds else 0.0
    considered, fitting = result.candidates_total, result.candidates_fitting_total
    candidates = "candidate" if considered == 1 else "candidates"
    share = rate / peak_flops
    alone = len(result.layers) == 1 and result.layers[0].peak_fraction > _APART * share
    whose = "the whole machine's peak" if alone else "peak"
    beside = (*_simulated(result), *_beyond_peak(result))
    return (
        f"total {duration(milliseconds)} {_whose(result)}, {rate / 1e9:.1f} Gflop/s, "
        f"{100 * share:.1f} % of {whose}; {considered} {candidates} "
        f"considered, {fitting} fit, {result.candidates_priced_total} priced "
        f"in {result.tuning_seconds:.1f} s" + "".join(f"\n{line}" for line in beside)
    )


def _beyond_peak(result: NetworkResult) -> Iterator[str]:
    """Reasons why layers exceed the peak: fewer operations, or a machine faster than described."""
    beyond = [layer for layer in result.layers if layer.peak_fraction > 1]
    if any(layer.algorithm.startswith("winograd") for layer in beyond):
        yield _FEWER_OPERATIONS
    others = [
        layer.name
        for layer in beyond
        if layer.timed_by == "measured" and not layer.algorithm.startswith("winograd")
    ]
    if others:
        yield (
            f"{', '.join(others)} beyond 100 % of peak: this computer is faster than "
            f"{result.machine} is described; `tilewright calibrate` measures it"
        )


# A table of stages that keeps to a number of columns: one line per row, or two on short lines.
#
# In: columns of texts, the first two a stage's name and its work. The work is clipped first; if too
# little of it is left, it goes below the name. Then lines break at spaces, and as a last resort
# names break anywhere. Figures are never cut.

STUCK = "\u00a0"
"""A space at which no line breaks."""
_MOST_LABEL, _LEAST_LABEL = 48, 24
_LEAST_NAME = 12
_INDENT = "  "


def _text_of(columns: int, width: int) -> int:
    """Width left for texts, after one space at the left and two after each column."""
    return width - 1 - 2 * columns


@dataclass(frozen=True)
class Column:
    """A column of texts, right-aligned for figures; on short lines it may go `below` the previous
    one.
    """

    head: str
    texts: tuple[str, ...]
    is_figure: bool = False
    below: bool = False

    @property
    def natural(self) -> int:
        """Width of the longest text, the head included."""
        return max(map(len, (self.head, *self.texts)))

    @property
    def least(self) -> int:
        """Width of the longest unbreakable text."""
        words = [word for text in (self.head, *self.texts) for word in text.split()]
        return max((*map(len, words), *(map(len, self.texts) if self.is_figure else ())), default=1)


def stage_table(title: str, columns: Sequence[Column], width: int) -> Table:
    """The table, within `width` columns."""
    name, label, *others = columns
    shown = min(label.natural, _MOST_LABEL)
    for least, broken in ((shown, False), (min(shown, _LEAST_LABEL), True)):
        widths = [c.least if broken and c.is_figure else c.natural for c in others]
        room = _text_of(len(columns), width) - name.natural - sum(widths)
        if room >= least:
            texts = tuple(clipped(text, min(room, _MOST_LABEL)) for text in label.texts)
            table = plain_table(title)
            _add(table, name.head, name.natural)
            _add(table, label.head, min(room, shown))
            for c, own in zip(others, widths, strict=True):
                _add(table, c.head, own, is_figure=c.is_figure)
            for row in zip(name.texts, texts, *(c.texts for c in others), strict=True):
                table.add_row(*row)
            return table
    return _in_two_lines(title, columns, width)


def _in_two_lines(title: str, columns: Sequence[Column], width: int) -> Table:
    """The table with two lines per row: columns that may go below their predecessor do so."""
    (name, label), *others = _merged(columns)
    whole = _text_of(1 + len(others), width)
    wanted = max(name.natural, _LEAST_LABEL + len(_INDENT))
    for broken in (False, True):
        widths = [max(c.least if broken or c.is_figure else c.natural for c in g) for g in others]
        if whole - sum(widths) >= wanted:
            break
    most = max(name.natural, len(_INDENT) + min(label.natural, _MOST_LABEL))
    room = max(_LEAST_NAME, min(most, whole - sum(widths)))
    below = [_INDENT + clipped(text, room - len(_INDENT)) for text in (label.head, *label.texts)]
    named = [f"{a}\n{b}".rstrip() for a, b in zip((name.head, *name.texts), below, strict=True)]
    stacked = [_stacked(group, own) for group, own in zip(others, widths, strict=True)]
    table = plain_table(title)
    _add(table, named[0], room)
    for (head, *_), group, own in zip(stacked, others, widths, strict=True):
        _add(table, head, own, is_figure=group[0].is_figure)
    for row in zip(named[1:], *(texts[1:] for texts in stacked), strict=True):
        table.add_row(*row)
    return table


def _merged(columns: Sequence[Column]) -> list[list[Column]]:
    """The columns, each grouped with those that may go below it."""
    found: list[list[Column]] = []
    for column in columns:
        if column.below:
            found[-1].append(column)
        else:
            found.append([column])
    return found


def _stacked(group: Sequence[Column], width: int) -> list[str]:
    """Head and texts of a group of columns, stacked and wrapped."""
    rows = zip(*((c.head, *c.texts) for c in group), strict=True)
    return ["\n".join(line for text in row for line in textwrap.wrap(text, width)) for row in rows]


def _add(table: Table, head: str, width: int, *, is_figure: bool = False) -> None:
    table.add_column(
        head,
        justify="right" if is_figure else "left",
        overflow="fold",
        min_width=width,
        max_width=width,
    )


def clipped(text: str, width: int) -> str:
    """The text, with an ellipsis in place of an excess."""
    return text if len(text) <= width else f"{text[: max(0, width - 3)].rstrip()}..."


def wrapped_line(line: str) -> str:
    """A line of words, wrapped to the width of a page."""
    text = textwrap.fill(
        line, PAGE, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return text.replace(STUCK, " ")
