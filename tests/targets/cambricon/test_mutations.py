"""Mutated programs are refused in words or run, and instructions survive text and back; many more
with `make fuzz-dla`.
"""

from __future__ import annotations

import random

import pytest

from support.dla_mutations import SOURCES, mutated, outcome
from support.round_trips import TABLES, failures
from tilewright.isa import InstructionTable


def test_the_programs_themselves_run() -> None:
    assert [outcome(text) for text in SOURCES] == ["runs"] * len(SOURCES)


def test_mutated_programs() -> None:
    outcomes = {outcome(mutated(random.Random(seed))) for seed in range(150)}
    assert {"runs", "SourceErrors"} <= outcomes


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_assembling_a_disassembly_gives_the_same_words(table: InstructionTable) -> None:
    assert failures(table, 600, seed=0) == []
