"""Figure 2.1: a message of 20 bytes that passes two nodes."""

from __future__ import annotations

from matplotlib.figure import Figure

from tilewright.machine import load_machine
from tilewright.papers.cns1.bars import spans
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.messages import Spell, transfer_spells

TITLE = "a message of 20 bytes that passes two nodes"
_BYTES, _HOPS = 20, 3


def run(lab: Lab) -> Result:
    """Cycles after which each part of the path is done, by the terms of section 2.2.1."""
    spells = _spells()
    end = {spell.part: spell.start_cycle + spell.cycles for spell in spells}
    start = {spell.part: spell.start_cycle for spell in spells}
    ours = {
        "bytes of the message": _BYTES,
        "processor of p is free after": end["processor of p sends"],
        "interface of p passes the message on after": end["interface of p sends"],
        "interface of q has the first byte after": start["interface of q receives"] - _BYTES + 1,
        "interface of q has the last byte and is done after": end["interface of q receives"],
        "processor of q is done after": end["processor of q receives"],
    }
    notes = (
        "the drawing is not in the text that was reproduced: the published cycles follow from"
        " the terms of section 2.2.1, header included in the 20 bytes",
    )
    return reproduced(lab, "figure2_1", TITLE, ours, notes=notes)


def draw(result: Result) -> Figure:
    """Timeline of when each part is busy."""
    found = [(spell.part, spell.start_cycle, spell.cycles) for spell in _spells()]
    return spans(found, title=f"T_ST({_HOPS}) of {_BYTES} bytes", x_label="cycles")


def _spells() -> list[Spell]:
    machine = load_machine("cns1-128")
    header = machine.fabrics["torrents"].header_bytes
    return transfer_spells(machine, _HOPS, _BYTES - header)
