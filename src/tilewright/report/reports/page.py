"""One self-contained HTML page: layers or stages, their time by cause, and their bounds.

In: the contents of a folder of `compile -o`. Out: a page without scripts or external links. Bars
show shares of the total time, divided by kind of cycles. Clicking a layer shows causes, traffic,
bounds and schedule; clicking a stage shows nodes, bytes and causes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from tilewright.common.version import tool_version
from tilewright.report.subject import Subject
from tilewright.report.table import duration
from tilewright.report.view import CauseRow

# HTML as nested values: every text is escaped, so no name of a model becomes markup.


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(tag: str, *content: str, **attributes: str | float) -> Markup:
    """An element. In attribute names, a trailing underscore is dropped and others become dashes.

    >>> element("td", "a < b", class_="name")
    '<td class="name">a &lt; b</td>'
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for name, value in attributes.items()
    )
    return Markup(f"<{tag}{given}>{''.join(map(_safe, content))}</{tag}>")


def _safe(content: str) -> str:
    return content if isinstance(content, Markup) else escape(content)


def _join_markup(parts: Iterable[str]) -> Markup:
    """Concatenated parts, escaped unless they are markup."""
    return Markup("".join(map(_safe, parts)))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """A table with one heading row; columns before "ms" are left-aligned text."""
    words = head.index("ms")
    named = [_join_markup(_cells("th", head, words))]
    body = [element("tr", *_cells("td", row, words)) for row in rows]
    return element("table", element("thead", element("tr", *named)), element("tbody", *body))


def _cells(tag: str, texts: Sequence[str], words: int) -> Iterator[Markup]:
    for place, text in enumerate(texts):
        yield element(tag, text, **({} if place < words else {"class_": "right"}))


TITLE = "One HTML page: layers or stages, time by cause, traffic, bounds and schedules."
SUFFIX = ".html"

_COLORS = {
    "useful work": "#2a7f62",
    "work on padding": "#9bc53d",
    "overhead of products": "#e9b44c",
    "other primitives": "#7b6cb3",
    "waiting for data": "#c8553d",
    "issuing transfers": "#4a90c2",
    "starting and meeting": "#5c677d",
    "instruction cache": "#d88fb5",
    "other": "#8d99ae",
}
"""Color of each kind of cycles."""

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1d2433; max-width: 72rem;
       margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin: 0 }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
p { margin: .3rem 0 1rem; color: #4a5568 }
table { border-collapse: collapse; font-size: .9rem }
th, td { padding: .15rem .8rem .15rem 0; text-align: left }
.right { text-align: right; font-variant-numeric: tabular-nums }
thead th { border-bottom: 1px solid #cbd5e0; font-weight: 600 }
details { border-top: 1px solid #e2e8f0; padding: .35rem 0 }
summary { cursor: pointer; list-style: none }
summary::-webkit-details-marker { display: none }
.line { display: flex; gap: 1rem; align-items: center }
.name { width: 9rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
        font-weight: 600 }
.bar { flex: 1 }
.figure { width: 8rem; text-align: right; font-variant-numeric: tabular-nums }
.bound { width: 9rem; color: #4a5568; white-space: nowrap }
.key { display: inline-block; margin-right: 1.2rem; white-space: nowrap }
.key svg { margin-right: .35rem }
pre { background: #f7fafc; padding: .8rem; overflow-x: auto; font-size: .82rem }
"""


def text(compiled: Subject) -> str:
    """The page."""
    body = (_head(compiled), _legend(compiled), *_lines(compiled), *_summary(compiled))
    page = element(
        "html",
        element(
            "head",
            Markup('<meta charset="utf-8">'),
            element("title", f"{compiled.name} on {compiled.machine}"),
            element("style", Markup(_STYLE)),
        ),
        element("body", *body),
        lang="en",
    )
    return f"<!DOCTYPE html>\n{page}\n"


def _head(compiled: Subject) -> Markup:
    timed = " and ".join(sorted({line.timed_by for line in compiled.lines}))
    if any(line.causes_by != line.timed_by for line in compiled.lines if line.causes):
        timed += ", divided by the model's causes"
    return _join_markup(
        (
            element("h1", f"{compiled.name} on {compiled.machine}"),
            element(
                "p",
                f"{', '.join(compiled.facts)}: {duration(compiled.total_milliseconds)} ({timed}). "
                f"tilewright {tool_version()}.",
            ),
        )
    )


def spent_on(cause: CauseRow) -> str:
    """Key of `_COLORS` for the cycles of a cause."""
    match cause.kind.split():
        case ["compute", "useful"]:
            return "useful work"
        case ["compute", "padding"]:
            return "work on padding"
        case ["compute", *_]:
            return "overhead of products"
        case ["primitive", *_]:
            return "other primitives"
        case ["wait", *_]:
            return "waiting for data"
        case ["dma", *_]:
            return "issuing transfers"
        case ["launch" | "meeting" | "barrier"]:
            return "starting and meeting"
        case ["instruction", "cache"]:
            return "instruction cache"
        case _:
            return "other"


def _shares(causes: tuple[CauseRow, ...]) -> dict[str, float]:
    """Share of the cycles per color, in the order of the legend."""
    found: Counter[str] = Counter()
    for cause in causes:
        found[spent_on(cause)] += cause.cycles
    total = max(1, found.total())
    return {name: found[name] / total for name in _COLORS if found[name]}


def _legend(compiled: Subject) -> Markup:
    used = {name for line in compiled.lines for name in _shares(line.causes)}
    keys = (
        element("span", _bar({name: 1.0}, 1.0, width="12"), name, class_="key")
        for name in _COLORS
        if name in used
    )
    return element("p", *keys)


def _bar(shares: dict[str, float], part: float, width: str = "100%") -> Markup:
    """One bar of `part` of the width, divided by `shares`."""
    pieces, start = [], 0.0
    for name, share in shares.items():
        piece = element(
            "rect",
            element("title", f"{name}: {100 * share:.1f} %"),
            x=f"{100 * part * start:.3f}%",
            width=f"{100 * part * share:.3f}%",
            height="12",
            fill=_COLORS[name],
        )
        pieces.append(piece)
        start += share
    return element("svg", *pieces, width=width, height="12")


def _lines(compiled: Subject) -> Iterator[Markup]:
    """A line for each layer or stage, with its details folded."""
    longest = max((line.milliseconds for line in compiled.lines), default=0.0) or 1.0
    for line in compiled.lines:
        shares = _shares(line.causes) or {"other": 1.0}
        shown = element(
            "span",
            element("span", line.name, class_="name", title=line.what),
            element("span", _bar(shares, line.milliseconds / longest), class_="bar"),
            element("span", line.time, class_="figure"),
            element("span", line.note, class_="figure"),
            element("span", line.bound, class_="bound"),
            class_="line",
        )
        yield element("details", element("summary", shown), element("pre", line.details))


def _summary(compiled: Subject) -> Iterator[Markup]:
    """A table of all lines, and the totals."""
    yield element("h2", f"{compiled.heads[0].capitalize()}s")
    yield _table(compiled.heads, ((line.name, line.what, *line.figures) for line in compiled.lines))
    if compiled.totals:
        yield element("h2", "Whole")
        yield element("pre", compiled.totals)
