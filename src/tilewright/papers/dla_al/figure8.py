"""Figs. 7 and 8: the naive loop and the one that loads the next tile first, in the paper's times.

The paper prints bars without numbers; the times are 3 and 8 cycles for the loads, 6 for the product
and 2 for the addition, which have the proportions of a layer that waits for its weights.
"""

from __future__ import annotations

from tilewright.papers.dla_al.loops import (
    ISA_MACHINE,
    PAPER_MACHINE,
    Tiles,
    cycles,
    overlaps,
    timed_loop,
)
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, compare

TITLE = "overlaps of the naive and the prefetched loop"
TIMES = {
    "engines.io.latency_cycles": 0,
    "engines.io.get.bytes_per_cycle": 11,
    "engines.io.get_matrix.bytes_per_cycle": 64,
    "units.matrix_start": 5,
    "units.vector_start": 1,
}
_TILES = Tiles(count=3, inputs=16, outputs=16)


def run(lab: Lab) -> Findings:
    """Cycles of both loops on the paper's machine and on that of the ISA paper."""
    rows = []
    for machine in (PAPER_MACHINE, ISA_MACHINE):
        for order in ("naive", "prefetched"):
            found = timed_loop(_TILES, order, machine, TIMES)
            rows.append(
                compare(
                    f"{order} on {machine}", None, float(cycles(found)), "simulated",
                    unit="cycles", note=f"together: {overlaps(found)}",
                )
            )  # fmt: skip
    naive, prefetched = (row.ours or 0.0 for row in rows[:2])
    return Findings(
        rows=tuple(rows),
        summary={"naive over prefetched": round(naive / prefetched, 3)},
        notes=(
            "the text: in the naive loop VADD runs beside VLOAD alone; in the prefetched one VMM"
            " runs beside loads, too",
            f"on {ISA_MACHINE} the memory queue of 32 entries reaches the loads of the next tile",
        ),
    )
