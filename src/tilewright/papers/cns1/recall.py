"""Recall in the report: Tables 5.1 to 5.5, and the percentages and factors of chapter 5.

Each table or figure is a function by its name in `TITLES`.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.machine import load_machine
from tilewright.papers.cns1.cases import (
    BEST,
    CASES,
    LARGE_BEST,
    MODEL,
    SHAPES,
    SMALL_WORST,
    WORST,
    TableCell,
    recall_rate,
    recall_share,
)
from tilewright.papers.cns1.printed import printed_numbers, reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings
from tilewright.papers.readings import Reading
from tilewright.targets.cns1.timing.forward import Conditions, forward_times
from tilewright.targets.cns1.timing.layers import VECTOR_BYTES, on_each_node, read_cycles

TITLES = {
    "table5_1": "products and global sums of recall",
    "table5_2": "sigmoid computation of recall",
    "table5_3": "run time of recall",
    "table5_4": "worst penalty of instruction misses in recall, in percent",
    "table5_5": "performance of recall",
    "chapter5": "percentages and factors in the text of chapter 5",
}


# Table 5.1: products and global sums of recall under model conditions.

_HIDDEN = "network hidden"


def table5_1(lab: Lab) -> Findings:
    """Each step by round and in all; the last sums of step 3 have nothing to hide behind."""
    forward = MODEL.recall(BEST).forward
    ours: dict[str, float] = {}
    whole: dict[str, float] = {}
    for step, layer, visible in ((2, forward.hidden, 0), (3, forward.outputs, 1)):
        network = layer.sum_network_cycles
        for unit, rounds in (("a round", 1), ("in all", layer.rounds)):
            name = f"step {step}, {unit}"
            ours[f"{name}: product"] = rounds * layer.product_cycles
            ours[f"{name}: processor of the sums"] = rounds * layer.sum_processor_cycles
            whole[f"{name}: {_HIDDEN}"] = network * rounds
            ours[f"{name}: {_HIDDEN}"] = network * (rounds - visible if rounds > 1 else 1)
        ours[f"step {step}, in all: network visible"] = visible * network
    notes = (
        "the formulas of step 2 and 3 print 40 log p for the processor's part; the table has four"
        " vectors, 160 log p",
    )
    readings = {_HIDDEN: Reading("counting the visible round as well", whole)}
    return reproduced(lab, "table5_1", ours, readings, notes=notes)


# Table 5.2: sigmoid computation of recall under model conditions.


def table5_2(lab: Lab) -> Findings:
    """Both sizes of the table, best and worst access patterns, and the products beside."""
    ours: dict[str, float] = {}
    for pattern in ("best", "worst"):
        for size in (16, 32):
            forward = MODEL.recall(Conditions(size << 10, pattern == "worst")).forward
            for step, layer in ((2, forward.hidden), (3, forward.outputs)):
                name = f"step {step}, {pattern} pattern, {size}K"
                ours[name] = layer.in_all.sigmoid_cycles
                ours[f"step {step}, product"] = layer.in_all.product_cycles
    return reproduced(lab, "table5_2", ours)


# Table 5.3: run time of recall under model conditions.

FIRST_BLOCK = 138 + 14
"""Cycles of one block on the way and of storing the last, which Table 5.3's I/O does not have."""
_MISS = 44
_TOTAL_SHORT = 14


def table5_3(lab: Lab) -> Findings:
    """Best and worst instruction misses with best and worst lookups."""
    ours: dict[str, float] = {}
    moved: dict[str, float] = {}
    tabulated: dict[str, float] = {}
    for misses in ("best", "worst"):
        for lookups, conditions in (("best", BEST), ("worst", WORST)):
            times = MODEL.recall(replace(conditions, worst_instruction_misses=misses == "worst"))
            name = f"{misses} instruction misses, {lookups} lookups"
            ours[f"{name}: step 2"] = times.hidden_cycles
            ours[f"{name}: step 3"] = times.outputs_cycles
            ours[f"{name}: I/O"] = times.io_cycles
            ours[f"{name}: overhead"] = times.overhead_cycles
            ours[f"{name}: total"] = times.total_cycles
            miss = _MISS if misses == "worst" else 0
            moved[f"{name}: step 3"] = times.outputs_cycles + miss
            less = FIRST_BLOCK + miss + times.writing_penalty_cycles / 2
            tabulated[f"{name}: I/O"] = times.io_cycles - less
    readings = {
        "step 3": Reading("the last miss of the I/O, 44 cycles, counted here", moved),
        "I/O": Reading(
            "without one block and the last store, 138 + 14, and half of the misses in step 4"
            " (44/64 n_po in the text of 4.3.1), the last miss counted in step 3,",
            tabulated,
        ),
        "total": Reading(f"the sum of the printed parts less {_TOTAL_SHORT}", _sums()),
    }
    return reproduced(lab, "table5_3", ours, readings)


def _sums() -> dict[str, float]:
    """Totals of the parts as they are printed."""
    found: dict[str, float] = {}
    for name, cycles in printed_numbers("table5_3").items():
        total = f"{name.rpartition(': ')[0]}: total"
        found[total] = found.get(total, -_TOTAL_SHORT) + (0 if name == total else cycles)
    return found


# Table 5.4: the worst that instruction misses cost recall.

_CHIPS = "4.5 Mb"


def table5_4(lab: Lab) -> Findings:
    """Worst lookups, as the text says."""
    ours = {case.name: recall_penalty(case, WORST) for case in CASES}
    wanted = printed_numbers("table5_4", _CHIPS)
    values = {case.name: _tabulated_penalty(case) for case in CASES if case.name in wanted}
    readings = {_CHIPS: Reading("best lookups of 16K, I/O as in Table 5.3,", values)}
    return reproduced(lab, "table5_4", ours, readings)


def recall_penalty(case: TableCell, conditions: Conditions) -> float:
    """Percent of the run time."""
    worst = case.recall(replace(conditions, worst_instruction_misses=True))
    return 100 * worst.penalty_cycles / case.recall(conditions).total_cycles


def _tabulated_penalty(case: TableCell) -> float:
    """Penalty of the best lookups in percent, with the I/O of Table 5.3."""
    worst = case.recall(replace(BEST, worst_instruction_misses=True))
    less = worst.writing_penalty_cycles / 2
    return 100 * (worst.penalty_cycles - less) / (case.recall(BEST).total_cycles - FIRST_BLOCK)


# Table 5.5: performance of recall.


def table5_5(lab: Lab) -> Findings:
    """Rates and shares of the peak, worst lookups and refreshes, best instruction misses."""
    ours: dict[str, float] = {}
    for case in CASES:
        ours[f"{case.name}: rate"] = rate = recall_rate_of(case)
        ours[f"{case.name}: share"] = recall_share(case, rate)
    for nodes, network in SHAPES:
        connections = TableCell(nodes, network, "4.5 Mb").layers.connections
        ours[f"{network} on {nodes} nodes: K connections a node"] = connections / nodes / 1024
    return reproduced(lab, "table5_5", ours, notes=tuple(_too_large()))


def recall_rate_of(case: TableCell) -> float:
    """Giga connections per second under the table's conditions."""
    return recall_rate(case, case.recall(WORST).total_cycles)


def _too_large() -> list[str]:
    """Networks whose weights a node cannot hold: the report does not say so."""
    machine, found = load_machine("cns1-128"), []
    for nodes, network in SHAPES:
        weights = 2 * TableCell(nodes, network, "4.5 Mb").layers.connections // nodes
        if weights > machine.main.capacity_bytes:
            found.append(
                f"{network} on {nodes} nodes: {weights >> 20} MB of weights do not fit the"
                f" {machine.main.capacity_bytes >> 20} MB that 16 chips of 4.5 Mb hold"
            )
    return found


# Chapter 5: every percentage and factor in the text on recall.


def chapter5(lab: Lab) -> Findings:
    """Lookups, instruction misses, scaling, and what each optimization is worth."""
    ours = _sigmoid() | _scaling() | _optimizations()
    return reproduced(lab, "chapter5", ours)


def _sigmoid() -> dict[str, float]:
    times = MODEL.recall(BEST)
    total = times.total_cycles
    small, large = _sigmoid_cycles(BEST), _sigmoid_cycles(LARGE_BEST)
    worst = _sigmoid_cycles(SMALL_WORST)
    misses = replace(BEST, worst_instruction_misses=True)
    other = times.io_cycles + times.overhead_cycles
    return {
        "size of the lookup table: sigmoid time [percent]": 100 * (large / small - 1),
        "bad access patterns: sigmoid time [times]": worst / small,
        "sigmoid computation of the run time [percent]": 100
        * _sigmoid_cycles(WORST)
        / MODEL.recall(WORST).total_cycles,
        "table of 32K: loss [percent]": 100 * (large - small) / total,
        "bad access patterns: loss [percent]": 100 * (worst - small) / total,
        "I/O and overhead of the run time [percent]": 100 * other / total,
        "bad code mapping under model conditions: more time [percent]": 100
        * (MODEL.recall(misses).total_cycles / total - 1),
        "instruction misses at worst: more time [percent]": max(
            recall_penalty(case, BEST) for case in CASES
        ),
    }


def _scaling() -> dict[str, float]:
    small, large = TableCell(128, "768M", "18 Mb"), TableCell(1024, "768M", "18 Mb")
    fixed = recall_rate_of(large) / recall_rate_of(small)
    local = recall_rate_of(TableCell(1024, "1536M", "4.5 Mb")) / recall_rate_of(MODEL)
    reached = min(recall_rate_of(case) for case in CASES if case.nodes == 128)
    return {
        "128 nodes reach 10^11, even at worst [10^9 connections per second]": reached,
        "speedup by 1024 nodes, fixed global size": fixed,
        "the same, percent of eight": 100 * fixed / 8,
        "speedup by 1024 nodes, fixed local size": local,
        "the same for local size, percent of eight": 100 * local / 8,
    }


def _optimizations() -> dict[str, float]:
    times, local = MODEL.recall(BEST), on_each_node(MODEL.machine(), MODEL.layers)
    total, stripes = times.total_cycles, (local.hidden + local.outputs) // 64
    hit = read_cycles(MODEL.machine(), VECTOR_BYTES).hit
    one = one_pattern_cycles()
    both, visible = times.forward.in_all, times.forward.outputs.sum_network_cycles
    hidden = both.sum_network_cycles - visible
    once = forward_times(MODEL.machine(), local, 1, BEST).in_all.product_cycles
    single = one + times.io_cycles + 2 * times.overhead_cycles
    stripe, neither = 1 + both.product_cycles / total, 1 + 2 * once / single
    return {
        "multiplication and addition apart: cycles": 4 * stripes,
        "multiplication and addition apart: loss [percent]": 100 * 4 * stripes / total,
        "weights reach the vector unit every [cycles]": hit / 2,
        "one pattern at a time, rough estimate [times]": 2 * max(8, hit) / max(16, hit),
        "one pattern at a time, least penalty [percent]": 100 * (single / total - 1),
        "one pattern at a time, largest penalty [percent]": 100 * (single / total - 1),
        "stripes of 32: more time [percent]": 100 * (stripe - 1),
        "stripes of 32 and one pattern: more time [percent]": 100 * (neither - 1),
        "neither optimization [times]": single / total * neither,
        "transfer hidden by interleaving [percent]": 100 * hidden / (hidden + visible),
        "no interleaving [times]": (total + hidden) / total,
        "no interleaving, summed up [times]": (total + hidden) / total,
        "all optimizations, at least [times]": single / total * neither * (total + hidden) / total,
    }


def one_pattern_cycles() -> int:
    """Steps 2 and 3 of two patterns that pass one after the other."""
    local = on_each_node(MODEL.machine(), MODEL.layers)
    forward = forward_times(MODEL.machine(), local, 1, BEST)
    return 2 * (forward.hidden_cycles + forward.outputs_cycles)


def _sigmoid_cycles(conditions: Conditions) -> int:
    return MODEL.recall(conditions).forward.in_all.sigmoid_cycles
