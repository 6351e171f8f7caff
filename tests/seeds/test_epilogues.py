"""Elementwise work on the tiles of a product: any operands, in every layout of the result."""

import numpy as np
import pytest

from tilewright.compiler.checking import operator_result, program_inputs
from tilewright.ir.interpret import interpret
from tilewright.machine import load_machine
from tilewright.ops import conv2d, gemm
from tilewright.seeds.space import operand_name, seeds_for, with_epilogue
from tilewright.tune.search import rank

GROUP = load_machine("sw26010_cg")
SUM = "0 if x0 + x1 + x2 < 0 else x0 + x1 + x2"
CONV = conv2d(batch=3, in_channels=5, out_channels=18, height=4, width=5, kernel=1)
WINDOWS = conv2d(batch=3, in_channels=5, out_channels=18, height=4, width=5, kernel=(2, 3))
MANY = conv2d(batch=128, in_channels=5, out_channels=4, height=4, width=5, kernel=(2, 3))
SQUARE = conv2d(
    batch=8, in_channels=16, out_channels=18, height=7, width=9, kernel=3, padding=1
)  # fmt: skip
CASES = [
    (CONV, "implicit", ("group", "channels"), (0, 2, 3)),
    (WINDOWS, "explicit_fused", ("group", "channels"), (0, 2, 3)),
    (WINDOWS, "implicit_rows", ("group", "channels"), (0, 2, 3)),
    (MANY, "implicit_columns", ("group", "channels"), (0, 2, 3)),
    (gemm(20, 12, 7), "gemm", ("cols",), (0,)),
    (SQUARE, "winograd2", ("group", "channels"), (0, 2, 3)),
    (SQUARE, "winograd4", ("group", "channels"), (0, 2, 3)),
    (SQUARE, "winograd2_fused", ("group", "channels"), (0, 2, 3)),
]


@pytest.mark.parametrize(("op", "algorithm", "along", "others"), CASES)
def test_a_bias_and_a_shortcut_are_added_before_the_put(op, algorithm, along, others):
    (plain,) = seeds_for(op, algorithm)
    dims = tuple(d for d, _ in plain.spaces[-1].nest.result.tensor.dims)
    seed = with_epilogue(plain, SUM, (along, dims))
    assert seed is not None
    (ranking,) = rank([(op, seed)], GROUP, keep=1)
    rng = np.random.default_rng(0)
    operands = [rng.integers(-3, 4, shape).astype(float) for shape in op.input_shapes]
    for candidate in ranking.best:
        program = candidate.program(GROUP)
        inputs = program_inputs(op, seed, program, tuple(operands))
        beside = {}
        for i in range(2):
            tensor = program.tensor(operand_name(i))
            shape = tuple(int(e.value) for e in tensor.shape)
            beside[tensor.name] = rng.integers(-9, 10, shape).astype(float)
        found = interpret(program, {**inputs, **beside}, (8, 8))
        shortcut = operator_result(op, seed, program, {seed.result: beside[operand_name(1)]})
        bias = np.expand_dims(beside[operand_name(0)].reshape(-1), others)
        expected = np.maximum(op.reference(*operands) + bias + shortcut, 0)
        np.testing.assert_array_equal(operator_result(op, seed, program, found), expected)


def test_results_in_blocks_of_images_take_vectors_alone():
    op = conv2d(batch=32, in_channels=8, out_channels=8, height=8, width=8, kernel=3, padding=1)
    (fours,) = seeds_for(op, "winograd2_fours")
    assert with_epilogue(fours, "x0 + x1", (("group", "channels"),)) is not None
    whole = ("batch", "group", "channels", "rows", "cols")
    assert with_epilogue(fours, "x0 + x1", (whole,)) is None


def test_a_nest_that_has_an_epilogue_takes_no_other():
    op = gemm(20, 12, 7, alpha=2.0, beta=1.0)
    (product,) = seeds_for(op, "gemm")
    assert with_epilogue(product, "x0 + 1", ()) is None
