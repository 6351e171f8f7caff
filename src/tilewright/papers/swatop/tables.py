"""swATOP Tables 1 and 2: tuned convolutions against the best manual versions over Listing 1, and
tuned matrix products against a library with one schedule, 559 of Listing 2.

Listing 1 does not yield the 225 cases of Table 1; `listings` explains the reading used.
"""

from __future__ import annotations

from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row
from tilewright.papers.swatop.listings import listing1, listing2_aligned, listing2_unaligned
from tilewright.papers.swatop.manual import LIBRARY, Counted, count_rows, pairs, speedup_summary
from tilewright.papers.swatop.schedules import MACHINE, our_product, setting

TITLES = {
    "table1": "tuned convolutions against manual versions over Listing 1",
    "table2": "tuned matrix products against a library with one schedule",
}


class _Convolutions(Counted, frozen=True, kw_only=True):
    """One algorithm at one batch."""

    algorithm: str
    batch: int


def against_manual(lab: Lab) -> Findings:
    """Counts and gains of every line, and the lowest speedup of each."""
    table = lab.published("swatop", "table1", _Convolutions)
    on = setting(lab, MACHINE)
    rows: list[Row] = []
    summary: dict[str, float | str] = {}
    for line in table.rows:
        ops = {op.describe(): op for op in listing1() if op.batch == line.batch}
        found = pairs(lab, dict(lab.some(list(ops.items()), 3)), line.algorithm, on)
        name = f"{line.algorithm}, batch {line.batch}"
        rows += count_rows(name, line, found, len(ops))
        summary |= speedup_summary(name, found)
        refused = sum(bool(pair.tuned.refusal) for pair in found)
        if refused:
            summary[f"{name}: cases beyond main memory"] = refused
    return Findings(
        rows=tuple(rows),
        summary=summary,
        notes=(
            f"published: {table.source}",
            f"on {on.described()}, double precision, four groups",
            f"tuned versions with {our_product(on)}, and manual ones of explicit GEMM and Winograd;"
            " manual implicit GEMM with that of the public swDNN kernels, which takes 19 and a"
            " taken branch",
            "the text counts 1095 of 1234 cases faster, over 88 %; Tables 1 and 2 add up to"
            " 618 + 457 = 1075, 87.1 %",
        ),
    )


_OPS = {"aligned": listing2_aligned, "unaligned": listing2_unaligned}


class _Products(Counted, frozen=True, kw_only=True):
    """Sizes that are all multiples of 256, or sizes none of which is."""

    sizes: str


def against_library(lab: Lab) -> Findings:
    """Counts and gains, aligned and unaligned."""
    table = lab.published("swatop", "table2", _Products)
    on = setting(lab, MACHINE)
    rows: list[Row] = []
    summary: dict[str, float | str] = {}
    for line in table.rows:
        ops = {op.describe(): op for op in _OPS[line.sizes]()}
        found = pairs(lab, dict(lab.some(list(ops.items()), 4)), "gemm", on)
        rows += count_rows(line.sizes, line, found, len(ops))
        summary |= speedup_summary(line.sizes, found)
    return Findings(
        rows=tuple(rows),
        summary=summary,
        notes=(
            f"published: {table.source}",
            f"on {on.described()}, double precision, four groups; papers.swatop.seeds describes the"
            f" {LIBRARY}: its blocks are the best for large squares",
        ),
    )


def run(lab: Lab) -> Findings:
    """The table named by the lab's experiment."""
    return (against_manual if lab.experiment.endswith("table1") else against_library)(lab)
