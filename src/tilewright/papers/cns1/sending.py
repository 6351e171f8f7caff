"""Messages in the report: Figures 2.1 and 4.1, Tables 4.5 to 4.7 and the numbers of chapter 4.

Each table or figure is a function by its name in `TITLES`.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from msgspec import structs

from tilewright.machine import Machine, load_machine
from tilewright.machine.messages import exchange_cycles, send_cycles
from tilewright.papers.cns1.bars import spans
from tilewright.papers.cns1.cases import BEST, CHIPS, MODEL, simulated_row
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Result, Row
from tilewright.targets.cns1.nodes import transfers
from tilewright.targets.cns1.nodes.hosts import host_startup_cycles
from tilewright.targets.cns1.sections import Messages, Rdram
from tilewright.targets.cns1.timing import messages
from tilewright.targets.cns1.timing.forward import Round, interleaving
from tilewright.targets.cns1.timing.layers import ELEMENT_BYTES, VECTOR_BYTES, read_cycles

TITLES = {
    "figure2_1": "a message of 20 bytes that passes two nodes",
    "table4_5": "reading 32 bytes through one port of the RDRAM",
    "table4_6": "the terms of a global sum's run time",
    "table4_7": "delay of the sigmoid lookup by instruction misses",
    "figure4_1": "how the parts of steps 2 and 3 are interleaved",
    "chapter4": "messages as programs: start-ups of the I/O, exchanges, global sums",
}


# Figure 2.1: the parts of a single transfer.

_BYTES, _HOPS = 20, 3


def figure2_1(lab: Lab) -> Findings:
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
    return reproduced(lab, "figure2_1", ours, notes=notes)


def draw_figure2_1(result: Result) -> Figure:
    """Timeline of when each part is busy."""
    found = [(spell.part, spell.start_cycle, spell.cycles) for spell in _spells()]
    return spans(found, title=f"T_ST({_HOPS}) of {_BYTES} bytes", x_label="cycles")


def _spells() -> list[messages.Spell]:
    machine = load_machine("cns1-128")
    header = machine.fabrics["torrents"].header_bytes
    return messages.transfer_spells(machine, _HOPS, _BYTES - header)


# Table 4.5: reading 32 bytes through one Rambus port.

_KINDS = ("hit", "clean miss", "dirty miss")


def table4_5(lab: Lab) -> Findings:
    """Both sizes of chips, in nanoseconds and in cycles."""
    ours: dict[str, float] = {}
    for chips, suffix in CHIPS.items():
        machine = load_machine(f"cns1-128{suffix}")
        rdram, cycles = machine.section(Rdram), read_cycles(machine, VECTOR_BYTES)
        times = (rdram.read_hit_ns, rdram.read_clean_miss_ns, rdram.read_dirty_miss_ns)
        counts = (cycles.hit, cycles.clean_miss, cycles.dirty_miss)
        for kind, nanoseconds, count in zip(_KINDS, times, counts, strict=True):
            ours[f"{chips} {kind} [ns]"] = nanoseconds + VECTOR_BYTES * rdram.byte_ns
            ours[f"{chips} {kind} [cycles]"] = count
    return reproduced(lab, "table4_5", ours, kind="exact")


# Table 4.6: run time of a global sum, by machine and step.


def table4_6(lab: Lab) -> Findings:
    """The factor of the message length, the constant, and the factor of the rounds."""
    ours: dict[str, float] = {}
    for nodes in (128, 1024):
        machine = load_machine(f"cns1-{nodes}")
        fabric = structs.replace(machine.fabrics["torrents"], gap_cycles=0.0)
        extra = machine.section(Messages).sum_cycles
        for step, sharing in ((2, messages.hidden_sum(machine)), (3, messages.output_sum(machine))):
            name = f"{nodes} nodes, step {step}"
            empty, one = (
                sum(exchange_cycles(fabric, d, length) for d in sharing.distances)
                for length in (-fabric.header_bytes, 1 - fabric.header_bytes)
            )
            fixed = send_cycles(fabric, 0, -fabric.header_bytes)
            ours[f"{name}: p"] = 1 << sharing.rounds
            ours[f"{name}: a"] = one - empty
            ours[f"{name}: b"] = empty - fixed * sharing.rounds
            ours[f"{name}: c"] = fixed + extra
    notes = (
        "section 4.1 says that two columns share results on 128 nodes, 4.3.2 that four do; this"
        " table, and the formulas, have four",
    )
    return reproduced(lab, "table4_6", ours, kind="exact", notes=notes)


# Table 4.7: what instruction misses delay the sigmoid lookup of four vectors.


def table4_7(lab: Lab) -> Findings:
    """One evicted part of the table is restored at best, one for each port at worst."""
    ours: dict[str, float] = {}
    for chips, suffix in CHIPS.items():
        machine = load_machine(f"cns1-128{suffix}")
        read, ports = read_cycles(machine, ELEMENT_BYTES), machine.section(Rdram).ports
        for pattern, restored in (("best", 1), ("worst", ports)):
            ours[f"{chips}, {pattern} access pattern"] = restored * (read.clean_miss - read.hit)
    return reproduced(lab, "table4_7", ours, kind="exact")


# Figure 4.1: products, global sums and sigmoid computation of recall, interleaved.


def figure4_1(lab: Lab) -> Findings:
    """The order of the figure, played with the times of the formulas."""
    rounds = interleaving(MODEL.recall(BEST).forward)
    busy = [r.what for r in rounds if r.where == "processor"]
    beside = [r for r in rounds if r.what == "sums" and _runs_beside(r, rounds)]
    ours = {
        "products before the first sigmoid of step 2": busy.index("sigmoid"),
        "global sums that run beside the processor": len(beside),
        "rounds of step 2": sum(r.what == "product" and r.step == 2 for r in rounds),
        "rounds of step 3": sum(r.what == "product" and r.step == 3 for r in rounds),
    }
    return reproduced(lab, "figure4_1", ours, kind="exact")


def draw_figure4_1(result: Result) -> Figure:
    """The report's figure: the beginning, the switch from step 2 to 3, the end."""
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
    """True if a product runs in the same cycles as `sums`."""
    return any(
        r.what == "product" and r.start_cycle < sums.end_cycle and sums.start_cycle < r.end_cycle
        for r in rounds
    )


# Chapter 4: messages as programs that all nodes run, beside the text and the formulas.

_TOP_ROW = 32


def chapter4(lab: Lab) -> Findings:
    """The numbers of the text, then each exchange and sum beside its formula."""
    machine = load_machine("cns1-128")
    ours: dict[str, float] = {}
    for nodes in (128, 1024):
        found = host_startup_cycles(machine, machine.mesh.rows, apart=nodes == 128)
        ours |= {f"{nodes} nodes, Hydrant {h}": c for h, c in zip("abcd", found, strict=True)}
    wide = {"mesh.columns": 2 * _TOP_ROW, "fabrics.torrents.columns": 2 * _TOP_ROW}
    ours["top row of Torrents"] = transfers.ring_cycles(load_machine("cns1-128", wide), _TOP_ROW)
    return reproduced(lab, "chapter4", ours, kind="simulated", beside=tuple(_beside()))


def _beside() -> Iterator[Row]:
    """Under the formula's conventions, messages without a gap and rounds in step, and under the
    hardware's.
    """
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
    """One vector, and those of a stripe for two patterns. Hardware has gaps, and no node waits for
    others than its partners.
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
