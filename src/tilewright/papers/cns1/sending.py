"""Messages in the report: Figures 2.1 and 4.1 and the numbers of chapter 4.

Each table or figure is a function by its name in `TITLES`.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from msgspec import structs

from tilewright.machine import Machine, load_machine
from tilewright.machine.messages import exchange_cycles
from tilewright.papers.cns1.cases import BEST, MODEL, simulated_row
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.figures import spans
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Result, Row
from tilewright.targets.cns1.nodes import transfers
from tilewright.targets.cns1.nodes.hosts import host_startup_cycles
from tilewright.targets.cns1.timing import messages
from tilewright.targets.cns1.timing.forward import Round, interleaving

TITLES = {
    "figure2_1": "a message of 20 bytes that passes two nodes",
    "figure4_1": "how the parts of steps 2 and 3 are interleaved",
    "chapter4": "messages as programs: start-ups of the I/O, exchanges, global sums",
}


# Figure 2.1: the parts of a single transfer.

_BYTES, _HOPS = 20, 3


def figure2_1(lab: Lab) -> Findings:
    """Cycles after which each part of the path is done, by the terms of section 2.2.1."""
    notes = (
        "the drawing is not in the text that was reproduced: the published cycles follow from"
        " the terms of section 2.2.1, header included in the 20 bytes",
    )
    names = {"spells": {spell.part: spell for spell in _spells()}, "message_bytes": _BYTES}
    return reproduced(lab, "figure2_1", names, notes=notes)


def draw_figure2_1(result: Result) -> Figure:
    """Timeline of each part's activity."""
    found = [(spell.part, spell.start_cycle, spell.cycles) for spell in _spells()]
    return spans(found, title=f"T_ST({_HOPS}) of {_BYTES} bytes", x_label="cycles")


def _spells() -> list[messages.Spell]:
    machine = load_machine("cns1-128")
    header = machine.fabrics["torrents"].header_bytes
    return messages.transfer_spells(machine, _HOPS, _BYTES - header)


# Figure 4.1: products, global sums and sigmoid computation of recall, interleaved.


def figure4_1(lab: Lab) -> Findings:
    """The figure's order, simulated with the formulas' times."""
    rounds = interleaving(MODEL.recall(BEST).forward)
    names = {"rounds": rounds, "runs_beside": _runs_beside}
    return reproduced(lab, "figure4_1", names, kind="exact")


def draw_figure4_1(result: Result) -> Figure:
    """The report's figure: the start, the switch from step 2 to 3, the end."""
    rounds = interleaving(MODEL.recall(BEST).forward)
    found = [
        (f"{r.where}: {r.what}, step {r.step}", r.start_cycle, r.end_cycle - r.start_cycle)
        for r in rounds
    ]
    second = [r for r in rounds if r.what == "product" and r.step == 3]
    each, end = rounds[0].end_cycle, max(r.end_cycle for r in rounds)
    switch = second[0].start_cycle
    windows = (
        ("the beginning", 0, 2.5 * each),
        ("from step 2 to step 3", switch - each, switch + 1.5 * each),
        ("the end", end - 2.5 * each, end),
    )
    return spans(found, title=TITLES["figure4_1"], x_label="cycles", windows=windows)


def _runs_beside(sums: Round, rounds: list[Round]) -> bool:
    """True if a product runs at the same time as `sums`."""
    return any(
        r.what == "product" and r.start_cycle < sums.end_cycle and sums.start_cycle < r.end_cycle
        for r in rounds
    )


# Chapter 4: messages as programs that all nodes run, beside the text and the formulas.

_TOP_ROW = 32


def chapter4(lab: Lab) -> Findings:
    """The text's numbers, then each exchange and sum beside its formula."""
    machines = {nodes: load_machine(f"cns1-{nodes}") for nodes in (128, 1024)}
    startup = {
        nodes: host_startup_cycles(machine, machine.mesh.rows, apart=nodes == MODEL.nodes)
        for nodes, machine in machines.items()
    }
    wide = {"mesh.columns": 2 * _TOP_ROW, "fabrics.torrents.columns": 2 * _TOP_ROW}
    top_row = transfers.ring_cycles(load_machine("cns1-128", wide), _TOP_ROW)
    names = {"startup": startup, "top_row": top_row}
    return reproduced(lab, "chapter4", names, kind="simulated", beside=tuple(_beside()))


def _beside() -> Iterator[Row]:
    """Exchanges and sums under the conventions of the formula and of the hardware."""
    for nodes in (128, 1024):
        machine = load_machine(f"cns1-{nodes}")
        for step, sharing in ((2, messages.hidden_sum(machine)), (3, messages.output_sum(machine))):
            name = f"{nodes} nodes, step {step}"
            if nodes == MODEL.nodes:
                yield from _exchanges(machine, name, sharing)
            yield from _sums(machine, name, sharing)


def _exchanges(machine: Machine, name: str, sharing: messages.GlobalSum) -> Iterator[Row]:
    fabric = machine.fabrics["torrents"]
    without = structs.replace(fabric, gap_cycles=0.0)
    for round_, distance in enumerate(sharing.distances):
        own = f"{name}, exchange over {distance} in the {sharing.axis(round_)}"
        formula = messages.block_exchange_cycles(machine, distance)
        closed = exchange_cycles(fabric, distance, messages.block_bytes(machine))
        found = transfers.sum_round_cycles(machine, sharing, round_, without)
        yield simulated_row(f"{own}, no gaps", formula, found)
        found = transfers.sum_round_cycles(machine, sharing, round_, fabric)
        said = f"a gap for each of {distance - 1} messages that wait"
        yield simulated_row(f"{own}, gaps", closed, found, said)


def _sums(machine: Machine, name: str, sharing: messages.GlobalSum) -> Iterator[Row]:
    """Sums of one vector, and of a stripe's vectors for two patterns. On hardware there are gaps,
    and a node waits only for its partners.
    """
    fabric = machine.fabrics["torrents"]
    without = structs.replace(fabric, gap_cycles=0.0)
    for vectors, of in ((1, "one vector"), (4, "four vectors")):
        formula = vectors * messages.global_sum_cycles(machine, sharing)
        in_step, gaps, early = (
            transfers.constant_sum_cycles(machine, sharing, own, vectors=vectors, in_step=meets)
            for own, meets in ((without, True), (fabric, True), (fabric, False))
        )
        called = f"{name}, global sum of {of}"
        yield simulated_row(f"{called}, rounds in step, no gaps", formula, in_step)
        said = (
            f"{gaps - in_step:+} by a gap for each message that waits, {early - gaps:+} by nodes "
            "that go on when they have their partner's vector"
        )
        yield simulated_row(f"{called}, hardware", formula, early, said)
