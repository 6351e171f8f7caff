"""Mutated programs are refused in words or run; many more with `make fuzz-dla`."""

from __future__ import annotations

import random

from support.dla_mutations import SOURCES, mutated, outcome


def test_the_programs_themselves_run() -> None:
    assert [outcome(text) for text in SOURCES] == ["runs"] * len(SOURCES)


def test_mutated_programs() -> None:
    outcomes = {outcome(mutated(random.Random(seed))) for seed in range(150)}
    assert {"runs", "SourceErrors"} <= outcomes
