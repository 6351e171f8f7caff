"""swATOP Table 2: tuned matrix products against a library with one schedule, 559 of Listing 2."""

from __future__ import annotations

from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row
from tilewright.papers.swatop.listings import listing2_aligned, listing2_unaligned
from tilewright.papers.swatop.manual import LIBRARY, Counted, count_rows, pairs, speedup_summary
from tilewright.papers.swatop.schedules import MACHINE, setting

TITLE = "tuned matrix products against a library with one schedule"
QUICK = 4
_OPS = {"aligned": listing2_aligned, "unaligned": listing2_unaligned}


class _Line(Counted, frozen=True, kw_only=True):
    """The sizes that are multiples of 256, or those that are of none."""

    sizes: str


def run(lab: Lab) -> Findings:
    """Counts and gains, aligned and unaligned."""
    table = lab.published("swatop", "table2", _Line)
    on = setting(lab, MACHINE)
    rows: list[Row] = []
    summary: dict[str, float | str] = {}
    for line in table.rows:
        ops = {op.describe(): op for op in _OPS[line.sizes]()}
        found = pairs(lab, dict(lab.some(list(ops.items()), QUICK)), "gemm", on)
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
