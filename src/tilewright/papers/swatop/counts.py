"""Counts of faster and slower cases with their average gains: the form of swATOP's Tables 1 and 2.

In: the pairs of one line of a table. Out: its four rows.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from msgspec import Struct

from tilewright.papers.model import Row, compare, sampled, scaled
from tilewright.papers.swatop.manual import Pair, evidence, speedups


class Counted(Struct, frozen=True):
    """One printed line of a table; a percentage is left out where there is none."""

    faster: int
    slower: int
    faster_percent: float | None = None
    slower_percent: float | None = None


def count_rows(name: str, printed: Counted, found: Sequence[Pair], total: int) -> Iterator[Row]:
    """Faster, their gain, slower, their loss; counts are scaled to `total` cases in a quick run."""
    values = speedups(found)
    faster, slower = [v for v in values if v >= 1], [v for v in values if v < 1]
    alone = sum(1 for p in found if p.manual.refusal and not p.tuned.refusal)
    scale = total / max(1, len(found))
    of = scaled(len(found), total)
    note = "; ".join(filter(None, (f"{alone} have no manual version" if alone else "", of)))
    for what, count, own in (
        ("faster", printed.faster, len(faster) + alone),
        ("slower", printed.slower, len(slower)),
    ):
        yield _explained(f"{name}: {what}", count, own * scale, found, note, "cases")
    for what, percent, group in (
        ("gain of the faster", printed.faster_percent, faster),
        ("loss of the slower", printed.slower_percent, slower),
    ):
        own_percent = 100 * (statistics.fmean(group) - 1) if group else None
        of = sampled(len(found), total)
        yield _explained(f"{name}: {what}", percent, own_percent, found, of, "%")


def _explained(
    name: str,
    published: float | None,
    ours: float | None,
    found: Sequence[Pair],
    note: str,
    unit: str,
) -> Row:
    reason = evidence(found)
    if published == 0 and ours:
        note, reason = "; ".join(filter(None, (note, reason))), ""
    return compare(name, published, ours, "simulated", note=note, unit=unit, explanation=reason)
