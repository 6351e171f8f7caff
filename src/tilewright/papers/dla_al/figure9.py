"""Fig. 9: a segment of feature maps as one load, against one load for each pixel."""

from __future__ import annotations

from tilewright.machine import load_machine
from tilewright.papers.dla_al.loops import PAPER_MACHINE, timed
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare

TITLE = "one load of a segment against several"
_IMAGES = ((7, 512), (14, 512), (28, 256), (56, 128))
_PARTS = 4
_QUICK = 2


def run(lab: Lab) -> Findings:
    """Images of some maps, a quarter of the maps at a time."""
    rows: list[Row] = []
    for side, maps in lab.some(list(_IMAGES), _QUICK):
        part, pixels = maps // _PARTS, side * side
        one, several = _cycles(1, pixels * part), _cycles(pixels, part)
        name = f"{part} of {maps} maps of {side}x{side}"
        rows += [
            compare(f"{name}, 1 load", None, float(one), "simulated", unit="cycles"),
            compare(
                f"{name}, {pixels} loads", None, float(several), "simulated", unit="cycles",
                note=f"{several / one:.1f} times as long",
            ),
        ]  # fmt: skip
    return Findings(
        rows=tuple(rows),
        notes=("the paper shows the order and no numbers; the latency of a load is a parameter",),
    )


def _cycles(loads: int, size: int) -> int:
    """Cycles of `loads` loads in a row, of `size` elements each, on the paper's machine."""
    lines = [f"smove $1, #{size}", "smove $2, #0"]
    lines += [f"vload $2, $1, #{size * k}" for k in range(loads)]
    # as much of the vector scratchpad as the largest segment takes
    machine = load_machine(PAPER_MACHINE, {"memory.vector.capacity_bytes": 1 << 20})
    return timed("\n".join(lines), machine).cycles
