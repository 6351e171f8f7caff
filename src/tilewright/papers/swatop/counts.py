"""swATOP Tables 1 and 2: tuned schedules that are faster or slower than manual ones, and by what.

Table 1 has convolutions, tuned against the best manual versions over Listing 1, which does not give
the 225 cases of the table: `listings` says which reading is taken. Table 2 has matrix products
against a library with one schedule, 559 of Listing 2.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from msgspec import Struct

from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare, sampled, scaled
from tilewright.papers.swatop.listings import listing1, listing2_aligned, listing2_unaligned
from tilewright.papers.swatop.manual import (
    LIBRARY,
    Pair,
    evidence,
    pairs,
    speedup_summary,
    speedups,
)
from tilewright.papers.swatop.schedules import MACHINE, our_product, setting

TITLES = {
    "table1": "tuned convolutions against manual versions over Listing 1",
    "table2": "tuned matrix products against a library with one schedule",
}
_QUICK_CONVOLUTIONS, _QUICK_PRODUCTS = 3, 4
_PRODUCTS = {"aligned": listing2_aligned, "unaligned": listing2_unaligned}


class Counted(Struct, frozen=True):
    """One printed line of a table; a percentage is left out where there is none."""

    faster: int
    slower: int
    faster_percent: float | None = None
    slower_percent: float | None = None


class _Convolutions(Counted, frozen=True, kw_only=True):
    """One algorithm at one batch."""

    algorithm: str
    batch: int


class _Products(Counted, frozen=True, kw_only=True):
    """The sizes that are multiples of 256, or those that are of none."""

    sizes: str


def table1(lab: Lab) -> Findings:
    """Counts and gains of every line, and the slowest speedup of each."""
    table = lab.published("swatop", "table1", _Convolutions)
    on = setting(lab, MACHINE)
    rows: list[Row] = []
    summary: dict[str, float | str] = {}
    for line in table.rows:
        ops = {op.describe(): op for op in listing1() if op.batch == line.batch}
        some = dict(lab.some(list(ops.items()), _QUICK_CONVOLUTIONS))
        found = pairs(lab, some, line.algorithm, on)
        name = f"{line.algorithm}, batch {line.batch}"
        rows += count_rows(name, line, found, len(ops))
        summary |= speedup_summary(name, found)
        refused = sum(bool(pair.tuned.refusal) for pair in found)
        if refused:
            summary[f"{name}: cases beyond main memory"] = refused
    notes = (
        f"published: {table.source}",
        f"on {on.described()}, double precision, four groups",
        f"tuned versions with {our_product(on)}, and manual ones of explicit GEMM and Winograd;"
        " manual implicit GEMM with that of the public swDNN kernels, which takes 19 and a"
        " taken branch",
        "the text counts 1095 of 1234 cases faster, over 88 %; Tables 1 and 2 add up to"
        " 618 + 457 = 1075, 87.1 %",
    )
    return Findings(tuple(rows), summary, notes)


def table2(lab: Lab) -> Findings:
    """Counts and gains, aligned and unaligned."""
    table = lab.published("swatop", "table2", _Products)
    on = setting(lab, MACHINE)
    rows: list[Row] = []
    summary: dict[str, float | str] = {}
    for line in table.rows:
        ops = {op.describe(): op for op in _PRODUCTS[line.sizes]()}
        found = pairs(lab, dict(lab.some(list(ops.items()), _QUICK_PRODUCTS)), "gemm", on)
        rows += count_rows(line.sizes, line, found, len(ops))
        summary |= speedup_summary(line.sizes, found)
    notes = (
        f"published: {table.source}",
        f"on {on.described()}, double precision, four groups; papers.swatop.seeds describes the"
        f" {LIBRARY}: its blocks are the best for large squares",
    )
    return Findings(tuple(rows), summary, notes)


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
