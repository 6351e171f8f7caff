"""A table of stages that keeps to so many columns: a line for each, or two where lines are short.

In: texts of columns, of which the first are a stage's name and what it does. What it does is cut
first; where too little is left of it, it goes below the name. Then words break at spaces, and last
of all names anywhere. Figures are never cut.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from tilewright.common.limits import PAGE
from tilewright.report.table import plain_table

STUCK = "\u00a0"
"""A space that no line breaks at."""
_MOST_LABEL, _LEAST_LABEL = 48, 24
_LEAST_NAME = 12
_INDENT = "  "


def _text_of(columns: int, width: int) -> int:
    """Width left for texts, after a space at the left and two behind each column."""
    return width - 1 - 2 * columns


@dataclass(frozen=True)
class Column:
    """A column of texts, figures at the right; it may go `below` the one before in short lines."""

    head: str
    texts: tuple[str, ...]
    is_figure: bool = False
    below: bool = False

    @property
    def natural(self) -> int:
        """The width of its longest text, the head too."""
        return max(map(len, (self.head, *self.texts)))

    @property
    def least(self) -> int:
        """The width of what has to stand in one line."""
        words = [word for text in (self.head, *self.texts) for word in text.split()]
        return max((*map(len, words), *(map(len, self.texts) if self.is_figure else ())), default=1)


def stage_table(title: str, columns: Sequence[Column], width: int) -> Table:
    """The table in so many columns of text."""
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
    """The table with two lines a row: columns that may go below their predecessor do so."""
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
    """The columns, each with those that may go below it."""
    found: list[list[Column]] = []
    for column in columns:
        if column.below:
            found[-1].append(column)
        else:
            found.append([column])
    return found


def _stacked(group: Sequence[Column], width: int) -> list[str]:
    """The head and the texts of columns, one below the other, in lines of words."""
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
    """The text; an ellipsis stands for what does not fit."""
    return text if len(text) <= width else f"{text[: max(0, width - 3)].rstrip()}..."


def wrapped_line(line: str) -> str:
    """A line of words in lines that fit a page."""
    text = textwrap.fill(
        line, PAGE, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return text.replace(STUCK, " ")
