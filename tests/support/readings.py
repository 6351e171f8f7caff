"""Tables of printed numbers as they are judged, and whether their readings fit other numbers."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from tilewright.papers import readings
from tilewright.papers.discovery import load_experiment
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result, Verdict
from tilewright.papers.readings import Printed, Readings, verdicts


class Judged(NamedTuple):
    """Printed numbers, ours, and readings of columns, as an experiment judges them."""

    table: Sequence[Printed]
    ours: dict[str, float]
    readings: Readings


def judged(name: str) -> tuple[Judged, Result]:
    """The numbers that an experiment judges last, and its result."""
    with pytest.MonkeyPatch.context() as patch:
        given: list[Judged] = []
        patch.setattr(readings, "verdicts", lambda *a: given.append(Judged(*a)) or verdicts(*a))
        result = load_experiment(name).run(Lab())
    return given[-1], result


def verdicts_of_moved_numbers(given: Judged) -> Iterator[list[Verdict]]:
    """Of the column with a reading, each of its numbers moved by one to three last digits."""
    for i, cell in enumerate(given.table):
        if cell.column not in given.readings:
            continue
        last = Decimal(1).scaleb(int(Decimal(cell.value).as_tuple().exponent))
        for digits in (-3, -2, -1, 1, 2, 3):
            other = replace(cell, value=str(Decimal(cell.value) + digits * last))
            table = [*given.table[:i], other, *given.table[i + 1 :]]
            found = verdicts(table, given.ours, given.readings)
            yield [v for v, c in zip(found, table, strict=True) if c.column == cell.column]
