"""HTML as nested values: every text is escaped, so that no name of a model becomes markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


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


def joined(parts: Iterable[str], separator: str = "") -> Markup:
    """Parts in a row."""
    return Markup(separator.join(map(_safe, parts)))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """A table with one line of headings."""
    cells = [joined(element("th", name) for name in head)]
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    return element("table", element("thead", element("tr", *cells)), element("tbody", *body))
