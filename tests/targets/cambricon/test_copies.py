"""Copies of one operator, on the device and as they are meant."""

from __future__ import annotations

import numpy as np

from tilewright.compiler.checking import operator_result, program_inputs
from tilewright.ir.interpret import interpret
from tilewright.machine import load_machine
from tilewright.ops.access import Access, straight
from tilewright.ops.mapping import InMemory
from tilewright.ops.numerics import real_types
from tilewright.seeds.space import seeds_for
from tilewright.targets.cambricon.code import CODE
from tilewright.tune.search import rank

MACHINE = load_machine("dla-al")


def test_taps_of_a_kernel_backwards_are_turned_and_exact() -> None:
    """Each tap begins above the one before: none of its rows is there already."""
    x = Access((9, 96, 64), (((1, -1),), ((2, 1),), ((0, 1),)), (8, 0, 0))
    shape = (64, 9, 96)
    op = InMemory(shape, straight(shape), (x,), dtype=real_types("q8.8"))
    (seed,) = (s for s in seeds_for(op) if s.name == "map")
    (ranking,) = rank([(op, seed)], MACHINE, keep=6)
    given = np.random.default_rng(0).integers(-99, 100, x.shape).astype(np.int16)
    for candidate in ranking.best:
        program = candidate.program(MACHINE)
        inputs = program_inputs(op, seed, program, (given,))
        found = CODE.run(CODE.emit(program, MACHINE), MACHINE, inputs)
        assert np.array_equal(found["y"], interpret(program, inputs, (1, 1))["y"])
        result = operator_result(op, seed, program, found)
        assert np.array_equal(result, given[::-1].transpose(2, 0, 1))
