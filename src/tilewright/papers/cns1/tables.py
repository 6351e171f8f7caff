"""Tables of the report, and numbers in its text, that follow from the closed form: one file of
printed numbers each, with the formulas for ours (`printed`).

A number that a machine file or `cases` contains is compared with its key there: it is an input, and
no evidence for any row.
"""

from __future__ import annotations

from typing import Any

from tilewright.machine import load_machine
from tilewright.papers.cns1 import cases, quantities
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Kind
from tilewright.targets.cns1.emit import calls
from tilewright.targets.cns1.timing import forward, layers, messages, recall, training

TITLES = {
    "table2_1": "capacity of the caches",
    "table2_2": "access times of the main memory",
    "table3_1": "sizes of the networks and of their parts on each node",
    "table4_5": "reading 32 bytes through one port of the RDRAM",
    "table4_6": "the terms of a global sum's run time",
    "table4_7": "delay of the sigmoid lookup by instruction misses",
    "table5_1": "products and global sums of recall",
    "table5_2": "sigmoid computation of recall",
    "table5_3": "run time of recall",
    "table5_4": "worst penalty of instruction misses in recall, in percent",
    "table5_5": "performance of recall",
    "table7_1": "performance of training",
    "table7_2": "training under model conditions, by lookups and instruction misses",
    "table7_3": "worst penalty of instruction misses in training, in percent",
    "table7_4": "run time of training, step by step",
    "table7_5": "forward and backward passes of training, round by round",
    "table7_6": "run times of training beside the cycles that its arithmetic needs",
    "table7_7": "what the main procedures of training consist of, in percent",
    "table7_8": "recall against training",
    "chapter2": "cycles in the text of chapter 2",
    "chapter3": "sizes and shares in the text of chapter 3",
    "chapter4_formulas": "coefficients of the formulas of chapters 2 to 5",
    "chapter4_text": "cycles in the text of chapter 4",
    "chapter5": "percentages and factors in the text of chapter 5",
    "chapter6": "cycles in the text of chapter 6",
    "chapter6_formulas": "coefficients of the formulas of chapters 6 and 7",
    "chapter7": "percentages and factors in the text of chapter 7",
    "chapter8": "the conclusions in numbers",
}
_EXACT = ("table2_1", "table2_2", "table3_1", "table4_5", "table4_6", "table4_7")
_OF_TABLES = "the ratio of the printed numbers of Tables 5.5 and 7.1"
READINGS = {
    "table5_1": {"network hidden": "counting the visible round as well"},
    "table5_3": {
        "step 3": "the last miss of the I/O, 44 cycles, counted here",
        "I/O": "without one block and the last store, 138 + 14, and half of the misses in step 4"
        " (44/64 n_po in the text of 4.3.1), the last miss counted in step 3,",
        "total": f"the sum of the printed parts less {quantities.TOTAL_SHORT}",
    },
    "table5_4": {"4.5 Mb": "best lookups of 16K, I/O as in Table 5.3,"},
    "table7_2": {
        "rates": "the total that Table 7.4 prints",
        "deviations": "the spread of the printed rates",
    },
    "table7_8": {
        f"{chips}: {what}": _OF_TABLES for what in ("rates", "shares") for chips in cases.CHIPS
    },
    "chapter7": {
        "7.2.2 without optimizations": "arithmetic on the printed percentages of Table 7.7"
    },
}
_NOTES = {
    "chapter3": (
        "n_po is n_o / p_i: section 3.2.1 prints n_o / p_h, and p_i and p_h change places once",
        "half of the nodes wait for the other half when one pattern is trained at a time: the"
        " row restates the text",
        "no network of Table 3.1 has 1.34 billion connections: 20K x 64K would",
    ),
    "chapter4_formulas": (
        "sections 4.1.1 and 4.3.2 have two columns that share activations on 128 nodes and four on"
        " 1024, where Table 4.6 has four and two",
        "section 4.1.1 loads four lines of code a pass, its formula five: two of the loop and three"
        " of handlers. Three others of the procedure, the handlers of the first block and five for"
        " each later one are 1 + 5 n_pi / 64, printed is 2 + 5 n_pi / 64",
        "section 4.3.1 has 44/64 n_po in the text, one of two codes, and 11/8 in the formula",
    ),
    "chapter8": (
        "the abstract says 3 for all optimizations of training, this chapter and 7.2.2 say 2.5:"
        " 3 has the matrix stored twice besides",
    ),
    "table4_6": (
        "section 4.1 says that two columns share results on 128 nodes, 4.3.2 that four do; this"
        " table, and the formulas, have four",
    ),
    "table5_1": (
        "the formulas of step 2 and 3 print 40 log p for the processor's part; the table has four"
        " vectors, 160 log p",
    ),
    "table7_1": (
        "the printed rates are near those of best instruction misses, which the report's other"
        " numbers on training have",
    ),
}
NAMES: dict[str, Any] = {
    name: value
    for module in (calls, layers, messages, forward, training, recall, cases, quantities)
    for name, value in vars(module).items()
}


def run(lab: Lab, *notes: str) -> Findings:
    """The table named by the lab's experiment."""
    own = lab.experiment.rpartition("/")[2]
    kind: Kind = "exact" if own in _EXACT else "model"
    said = (*_NOTES.get(own, ()), *notes)
    return reproduced(lab, own, NAMES, READINGS.get(own), kind=kind, notes=said)


def table5_5(lab: Lab) -> Findings:
    """Rates, and networks whose weights exceed a node, which the report does not mention."""
    capacity = load_machine("cns1-128").main.capacity_bytes
    weights = {
        case: 2 * case.layers.connections // case.nodes for case in cases.CASES[: len(cases.SHAPES)]
    }
    too_large = (
        f"{case.network} on {case.nodes} nodes: {size >> 20} MB of weights do not fit the"
        f" {capacity >> 20} MB that 16 chips of {case.chips} hold"
        for case, size in weights.items()
        if size > capacity
    )
    return run(lab, *too_large)
