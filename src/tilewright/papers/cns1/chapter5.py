"""Chapter 5: every percentage and factor in the text on recall."""

from __future__ import annotations

from dataclasses import replace

from tilewright.papers.cns1.cases import (
    BEST,
    CASES,
    LARGE_BEST,
    MODEL,
    SHAPES,
    SMALL_WORST,
    WORST,
    Case,
)
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.cns1.table5_4 import penalty
from tilewright.papers.cns1.table5_5 import rate_of
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.forward import Conditions, LayerTimes, forward_times
from tilewright.targets.cns1.timing.layers import on_each_node
from tilewright.targets.cns1.timing.memory import VECTOR_BYTES, read_cycles

TITLE = "percentages and factors in the text of chapter 5"


def run(lab: Lab) -> Result:
    """Lookups, instruction misses, scaling, and what each optimization is worth."""
    ours = _sigmoid() | _scaling() | _optimizations()
    return reproduced(lab, "chapter5", TITLE, ours)


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
            penalty(Case(nodes, network, chips), BEST)
            for nodes, network in SHAPES
            for chips in ("4.5 Mb", "18 Mb")
        ),
    }


def _scaling() -> dict[str, float]:
    small, large = Case(128, "768M", "18 Mb"), Case(1024, "768M", "18 Mb")
    fixed = rate_of(large) / rate_of(small)
    local = rate_of(Case(1024, "1536M", "4.5 Mb")) / rate_of(MODEL)
    reached = min(rate_of(case) for case in CASES if case.nodes == 128)
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
    layers = times.forward.hidden, times.forward.outputs
    hidden = layers[0].rounds * layers[0].sum_network_cycles
    visible = layers[1].sum_network_cycles
    hidden += (layers[1].rounds - 1) * visible
    products = sum(layer.rounds * layer.product_cycles for layer in layers)
    alone = forward_times(MODEL.machine(), local, 1, BEST)
    once = sum(la.rounds * la.product_cycles for la in (alone.hidden, alone.outputs))
    single = one + times.io_cycles + 2 * times.overhead_cycles
    stripe, both = 1 + products / total, 1 + 2 * once / single
    return {
        "multiplication and addition apart: cycles": 4 * stripes,
        "multiplication and addition apart: loss [percent]": 100 * 4 * stripes / total,
        "weights reach the vector unit every [cycles]": hit / 2,
        "one pattern at a time, rough estimate [times]": 2 * max(8, hit) / max(16, hit),
        "one pattern at a time, least penalty [percent]": 100 * (single / total - 1),
        "one pattern at a time, largest penalty [percent]": 100 * (single / total - 1),
        "stripes of 32: more time [percent]": 100 * (stripe - 1),
        "stripes of 32 and one pattern: more time [percent]": 100 * (both - 1),
        "neither optimization [times]": single / total * both,
        "transfer hidden by interleaving [percent]": 100 * hidden / (hidden + visible),
        "no interleaving [times]": (total + hidden) / total,
        "no interleaving, summed up [times]": (total + hidden) / total,
        "all optimizations, at least [times]": single / total * both * (total + hidden) / total,
    }


def one_pattern_cycles() -> int:
    """Steps 2 and 3 of two patterns that pass one after the other."""
    local = on_each_node(MODEL.machine(), MODEL.layers)
    forward = forward_times(MODEL.machine(), local, 1, BEST)
    return 2 * (forward.hidden_cycles + forward.outputs_cycles)


def _sigmoid_cycles(conditions: Conditions) -> int:
    forward = MODEL.recall(conditions).forward

    def of(layer: LayerTimes) -> int:
        return layer.rounds * layer.sigmoid_cycles

    return of(forward.hidden) + of(forward.outputs)
