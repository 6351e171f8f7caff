"""Chapter 8 and the abstract: the conclusions in numbers."""

from __future__ import annotations

from tilewright.papers.cns1 import recall as of_recall
from tilewright.papers.cns1 import training as of_training
from tilewright.papers.cns1.cases import CASES, MODEL, WORST, recall_share
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.memory import VECTOR_BYTES, read_cycles

TITLE = "the conclusions in numbers"


def run(lab: Lab) -> Result:
    """Best rates, scaling, memory, and what all optimizations are worth together."""
    recall = {row.name: row.ours or 0.0 for row in of_recall.chapter5(Lab()).rows}
    training = {row.name: row.ours or 0.0 for row in of_training.chapter7(Lab()).rows}
    small = [case for case in CASES if case.nodes == 128]
    rates = {case: of_recall.recall_rate_of(case) for case in small}
    read = read_cycles(MODEL.machine(), VECTOR_BYTES)
    best = max(small, key=lambda case: rates[case])
    ours = {
        "recall [10^9 connections per second]": rates[best],
        "training [10^9 updates per second]": max(
            of_training.training_rate_of(c, WORST) for c in small
        ),
        "recall of the peak [percent]": recall_share(best, rates[best]),
        "speedup of training by 1024 nodes": training["speedup by 1024 nodes, fixed local size"],
        "training with a faster memory [times]": training["a faster memory [times]"],
        "training with a faster memory, faster by [percent]": 100
        * (training["a faster memory [times]"] - 1),
        "a hit in an open line, faster than the RDRAM [times]": read.clean_miss / read.hit,
        "instruction misses in recall [percent]": recall[
            "instruction misses at worst: more time [percent]"
        ],
        "product with the transposed matrix, slower [percent]": training[
            "product with the transposed matrix, slower [percent]"
        ],
        "optimizations of recall [times]": recall["all optimizations, at least [times]"],
        "optimizations of training [times]": training["none of the optimizations [times]"],
        "optimizations of training, abstract [times]": training[
            "none of them and the matrix stored twice [times]"
        ],
        "recall over training, relative, abstract, least": training[
            "relative performance, recall over training, least"
        ],
        "recall over training, relative, abstract, most": training[
            "relative performance, recall over training, most"
        ],
    }
    notes = (
        "the abstract says 3 for all optimizations of training, this chapter and 7.2.2 say 2.5:"
        " 3 has the matrix stored twice besides",
    )
    return reproduced(lab, "chapter8", TITLE, ours, notes=notes)
