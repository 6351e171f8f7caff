"""Windows of a convolution's result, made on the finished tile: exact, and refused where a tile may
end within a window.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.compiler.checking import program_inputs
from tilewright.ir.interpret import interpret
from tilewright.ir.primitives import Map
from tilewright.machine import load_machine
from tilewright.ops import average_pool2d, conv2d, gemm, max_pool2d
from tilewright.seeds.pooling import POOLED, PoolWindows, result_shape, windows_of, with_pooling
from tilewright.seeds.space import operand_name, seeds_for, with_epilogue
from tilewright.tune.search import rank

GROUP = load_machine("sw26010_cg")
SHIFTED = "0 if x0 + x1 < 0 else x0 + x1"
SIZES = {"winograd2": 2, "winograd2_fused": 2, "winograd2_fours": 2, "winograd4": 4}
TWO = PoolWindows("max", (2, 2))


def convolution(**extents):
    few = {"batch": 3, "in_channels": 5, "out_channels": 6, "height": 8, "width": 12}
    return conv2d(**{**few, **extents}, kernel=3, padding=1)


@st.composite
def cases(draw):
    name = draw(st.sampled_from(sorted(SIZES)))
    side = SIZES[name]
    kinds = [(r, c) for r in (1, 2, 4) for c in (1, 2, 4) if 1 < r * c <= 4 and max(r, c) <= side]
    extents = draw(st.sampled_from(kinds))
    batch = 32 if name == "winograd2_fours" else draw(st.integers(1, 9))
    height, width = (n * draw(st.integers(1, 6)) for n in extents)
    channels = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    op = conv2d(
        batch=batch, in_channels=channels[0], out_channels=channels[1], height=height, width=width,
        kernel=3, padding=1,
    )  # fmt: skip
    return name, op, PoolWindows(draw(st.sampled_from(POOLED)), extents)


@settings(max_examples=12, deadline=None)
@given(cases(), st.booleans())
def test_windows_are_exact_in_every_layout(case, shifted):
    name, op, windows = case
    (plain,) = seeds_for(op, name)
    seed = with_pooling(plain, windows)
    assert seed is not None
    if shifted:
        seed = with_epilogue(seed, SHIFTED, (("group", "channels"),))
    (ranking,) = rank([(op, seed)], GROUP, keep=1)
    rng = np.random.default_rng(0)
    operands = [rng.integers(-3, 4, shape) * 4.0 for shape in op.input_shapes]
    shift = rng.integers(-9, 10, op.out_channels) * 1.0
    pool = max_pool2d if windows.function == "max" else average_pool2d
    expected = pool(op.out_shape, windows.extents, stride=windows.extents).reference(
        op.reference(*operands)
    )
    if shifted:
        expected = np.maximum(expected + shift[:, None, None], 0)
    assert expected.shape == result_shape(seed, op)
    for candidate in ranking.best:
        program = candidate.program(GROUP)
        inputs = program_inputs(op, seed, program, tuple(operands))
        beside = {operand_name(0): shift[None]} if shifted else {}
        found = interpret(program, {**inputs, **beside}, (8, 8))["y"]
        np.testing.assert_array_equal(by_images(found, program.tensor("y").dims), expected)


def by_images(stored, dims):
    """Images, channels, rows, columns of a result as it lies."""
    counts = [d for d in ("batch", "image_blocks", "images") if d in dims]
    order = (*counts, "group", "channels", "rows", "cols")
    y = stored.transpose([dims.index(d) for d in order])
    return y.reshape(-1, *y.shape[len(counts) + 1 :])


def test_only_the_windows_are_put():
    op = convolution()
    seed = with_pooling(seeds_for(op, "winograd2_fused")[0], TWO)
    program = rank([(op, seed)], GROUP, keep=1)[0].best[0].program(GROUP)
    assert {t.name for t in program.tensors} == {"x", "w", "u", "y"}
    assert sorted(int(e.value) for e in program.tensor("y").shape) == [1, 3, 4, 6, 6]
    assert "unpooled_tile" not in {b.name for b in program.buffers}, "it is where tiles of x were"


def test_what_is_no_number_is_never_the_largest_and_alone_gives_the_least():
    taps = [np.array([np.nan, 1.0, np.nan, -0.0]) for _ in range(4)]
    taps[2] = np.array([3.0, np.nan, np.nan, 0.0])
    found = Map(TWO.expression).meaning((np.zeros(4), *taps))
    np.testing.assert_array_equal(found, [3.0, 1.0, -np.inf, -0.0])
    assert np.signbit(found[3]), "the first of equal ones"


def test_an_average_is_a_product_where_that_is_exact():
    assert PoolWindows("average", (1, 2)).expression == "(x0 + x1) * 0.5"
    assert PoolWindows("average", (3, 1)).expression == "((x0 + x1) + x2) / 3.0"


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "size"),
    [(2, 2, 0, 7), (3, 2, 0, 9), (2, 2, 1, 8), (1, 1, 0, 8), (3, 3, 0, 9), (2, 1, 0, 8)],
    ids=["odd", "overlap", "padded", "single", "nine places", "every column"],
)
def test_windows_that_are_not_side_by_side_or_too_large_are_refused(kernel, stride, padding, size):
    pool = max_pool2d((1, 3, size, size), kernel, stride=stride, padding=padding)
    assert windows_of(pool) is None


def test_windows_side_by_side_are_taken():
    assert windows_of(max_pool2d((1, 3, 8, 6), 2, stride=2)) == TWO
    found = windows_of(average_pool2d((1, 3, 8, 6), (1, 3), stride=(1, 3)))
    assert found == PoolWindows("average", (1, 3))
    assert found.pooled((1, 3, 8, 6)) == (1, 3, 8, 2)
    two = windows_of(max_pool2d((1, 3, 8, 6), (2, 1), stride=(2, 1)))
    assert two == PoolWindows("max", (2, 1))
    assert two.pooled((1, 3, 8, 6)) == (1, 3, 4, 6)


@pytest.mark.parametrize("name", ["implicit", "implicit_rows", "explicit_fused", "explicit"])
def test_a_tile_that_may_end_within_a_window_is_refused(name):
    assert with_pooling(seeds_for(convolution(), name)[0], TWO) is None


def test_windows_larger_than_a_tile_are_refused():
    (plain,) = seeds_for(convolution(), "winograd2")
    assert with_pooling(plain, PoolWindows("max", (4, 1))) is None
    assert with_pooling(seeds_for(convolution(), "winograd4")[0], PoolWindows("max", (4, 1)))
    assert with_pooling(plain, PoolWindows("max", (1, 3))) is None


def test_a_result_is_pooled_once_and_before_its_epilogue():
    (plain,) = seeds_for(convolution(), "winograd2")
    pooled = with_pooling(plain, TWO)
    assert with_pooling(pooled, TWO) is None
    assert with_pooling(with_epilogue(plain, "x0 + 1", ()), TWO) is None
    assert with_pooling(seeds_for(gemm(8, 8, 8), "gemm")[0], TWO) is None
    assert with_pooling(replace(plain, result="u", layouts=()), TWO) is None
