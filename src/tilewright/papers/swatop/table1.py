"""swATOP Table 1: tuned convolutions against the best manual versions over Listing 1.

The listing does not give the 225 cases of the table; `listings` says which reading is taken.
"""

from __future__ import annotations

from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row
from tilewright.papers.swatop.listings import listing1
from tilewright.papers.swatop.manual import Counted, count_rows, pairs, speedup_summary
from tilewright.papers.swatop.schedules import MACHINE, our_product, setting

TITLE = "tuned convolutions against manual versions over Listing 1"
QUICK = 3


class _Line(Counted, frozen=True, kw_only=True):
    """One algorithm at one batch."""

    algorithm: str
    batch: int


def run(lab: Lab) -> Findings:
    """Counts and gains of every line, and the slowest speedup of each."""
    table = lab.published("swatop", "table1", _Line)
    on = setting(lab, MACHINE)
    rows: list[Row] = []
    summary: dict[str, float | str] = {}
    for line in table.rows:
        ops = {op.describe(): op for op in listing1() if op.batch == line.batch}
        found = pairs(lab, dict(lab.some(list(ops.items()), QUICK)), line.algorithm, on)
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
