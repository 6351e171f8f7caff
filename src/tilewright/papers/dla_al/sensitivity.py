"""Sensitivity to numbers that no source states: each halved and doubled, on one loop of tiles."""

from __future__ import annotations

from tilewright.machine import load_machine
from tilewright.machine.model import describe
from tilewright.papers.dla_al.loops import PAPER_MACHINE, Tiles, cycles, timed_loop
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare

TITLE = "sensitivity to the parameters that no source states"
_TILES = Tiles(24, inputs=128, outputs=128)
_NOT_TIMED = ("memory.", "units.fraction_bits")


def run(lab: Lab) -> Findings:
    """The prefetched loop with each timing parameter halved and doubled."""
    machine = load_machine(PAPER_MACHINE)
    base = cycles(timed_loop(_TILES, "prefetched", PAPER_MACHINE))
    rows: list[Row] = [compare("as described", None, float(base), "simulated", unit="cycles")]
    for key, value, source in describe(machine):
        if not source.startswith("parameter: ") or key.startswith(_NOT_TIMED):
            continue
        assert not isinstance(value, str)
        for factor in (0.5, 2.0):
            changed = value * factor if isinstance(value, float) else int(value * factor)
            found = cycles(timed_loop(_TILES, "prefetched", PAPER_MACHINE, {key: changed}))
            note = f"{100 * (found / base - 1):+.1f} %"
            name = f"{key} = {changed:g}"
            rows.append(compare(name, None, float(found), "simulated", unit="cycles", note=note))
    return Findings(
        rows=tuple(rows),
        notes=(f"{_TILES.count} tiles of 128 inputs and 128 outputs on {PAPER_MACHINE}",),
    )
