"""One self-contained HTML page: the layers, where their time goes, and what bounds each.

In: what a folder of `compile -o` holds. Out: text of a page without scripts or links to elsewhere.
Bars of layers are as long as their share of the whole time, divided by what each cycle was spent
on; a click on a layer shows causes, traffic, bounds and the schedule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from tilewright.common.version import tool_version
from tilewright.report.explain import explain_text
from tilewright.report.subject import Subject
from tilewright.report.view import CauseRow, LayerResult

# HTML as nested values: every text is escaped, so that no name of a model becomes markup.


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(tag: str, *content: str, **attributes: str | float) -> Markup:
    """An element; a trailing underscore of an attribute's name falls away, others become dashes.

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


def _join_markup(parts: Iterable[str], separator: str = "") -> Markup:
    """Parts in a row."""
    return Markup(separator.join(map(_safe, parts)))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """A table with one line of headings."""
    cells = [_join_markup(element("th", name) for name in head)]
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    return element("table", element("thead", element("tr", *cells)), element("tbody", *body))


TITLE = "One HTML page: layers, time by cause, traffic, bounds and schedules."
SUFFIX = ".html"

_COLORS = {
    "useful work": "#2a7f62",
    "work on padding": "#9bc53d",
    "overhead of products": "#e9b44c",
    "other primitives": "#7b6cb3",
    "waiting for data": "#c8553d",
    "issuing transfers": "#4a90c2",
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
th, td { padding: .15rem .8rem .15rem 0; text-align: right }
th:nth-child(-n+3), td:nth-child(-n+3) { text-align: left }
thead th { border-bottom: 1px solid #cbd5e0; font-weight: 600 }
details { border-top: 1px solid #e2e8f0; padding: .35rem 0 }
summary { cursor: pointer; list-style: none }
summary::-webkit-details-marker { display: none }
.line { display: flex; gap: 1rem; align-items: center }
.name { width: 9rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
        font-weight: 600 }
.bar { flex: 1 }
.figure { width: 8rem; text-align: right; font-variant-numeric: tabular-nums }
.bound { width: 8rem; color: #4a5568 }
.key { display: inline-block; margin-right: 1.2rem; white-space: nowrap }
.key svg { margin-right: .35rem }
pre { background: #f7fafc; padding: .8rem; overflow-x: auto; font-size: .82rem }
"""


def text(compiled: Subject) -> str:
    """The page."""
    body = (_head(compiled), _legend(compiled), *_lines(compiled), _summary(compiled))
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
    timed = {layer.timed_by for layer in compiled.layers}
    given = [f"batch {compiled.batch}"] if compiled.batch is not None else []
    given += [compiled.dtype] if compiled.dtype else []
    count = len(compiled.layers)
    layers = f"{count} layer{'s' if count > 1 else ''}"
    return _join_markup(
        (
            element("h1", f"{compiled.name} on {compiled.machine}"),
            element(
                "p",
                f"{', '.join([*given, layers])}: {compiled.total_milliseconds:.3f} ms "
                f"({' and '.join(sorted(timed))}). tilewright {tool_version()}.",
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
        case _:
            return "other"


def _shares(causes: tuple[CauseRow, ...]) -> dict[str, float]:
    """Part of the cycles that each color has, in the order of the legend."""
    found: Counter[str] = Counter()
    for cause in causes:
        found[spent_on(cause)] += cause.cycles
    total = max(1, found.total())
    return {name: found[name] / total for name in _COLORS if found[name]}


def _legend(compiled: Subject) -> Markup:
    used = {name for found in compiled.explanations.values() for name in _shares(found.causes)}
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
    """A line for each layer, with its details behind it."""
    longest = max((layer.milliseconds for layer in compiled.layers), default=0.0) or 1.0
    for layer in compiled.layers:
        found = compiled.explained(layer)
        shares = _shares(found.causes) if found else {"other": 1.0}
        line = element(
            "span",
            element("span", layer.name, class_="name", title=layer.shape),
            element("span", _bar(shares, layer.milliseconds / longest), class_="bar"),
            element("span", f"{layer.milliseconds:.3f} ms", class_="figure"),
            element("span", f"{100 * layer.peak_fraction:.1f} % of peak", class_="figure"),
            element("span", layer.bound, class_="bound"),
            class_="line",
        )
        behind = element(
            "pre", f"{explain_text(found)}\n{layer.schedule}" if found else layer.shape
        )
        yield element("details", element("summary", line), behind)


def _summary(compiled: Subject) -> Markup:
    head = ("layer", "what", "algorithm", "ms", "Gflop/s", "% of peak", "candidates priced")
    return _join_markup((element("h2", "Layers"), _table(head, map(_row, compiled.layers))))


def _row(layer: LayerResult) -> tuple[str, ...]:
    return (
        layer.name,
        layer.shape,
        layer.algorithm,
        f"{layer.milliseconds:.3f}",
        f"{layer.gflops:.1f}",
        f"{100 * layer.peak_fraction:.1f}",
        str(layer.candidates_priced),
    )
