"""Definitions: what follows from them equals what named operators say, and the meaning by index."""

from dataclasses import replace

import numpy as np
import pytest

from support.definitions import (
    by_index,
    convolution,
    integers_for,
    random_convolution,
    random_definition,
)
from tilewright.common.errors import ShapeError
from tilewright.ops.access import Access, straight
from tilewright.ops.box import Box
from tilewright.ops.definition import Definition
from tilewright.ops.piece import operator_piece


def random_region(rng, shape):
    pairs = [sorted(map(int, rng.integers(0, n, 2))) for n in shape]
    return Box.of(*((a, b + 1) for a, b in pairs))


def sees_the_image(op, region, terms):
    """True where a region reads more than padding along each dimension: of padding alone
    `Conv2d` asks for the whole padded image, and a definition for the nearest element.
    """
    axes, x = op.axes_of(region, terms), op.operands[0]
    spans = [x.span(d, axes) for d in range(4)]
    return all(end > 0 and start < n for (start, end), n in zip(spans, x.shape, strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_a_convolution_follows_from_its_definition(seed):
    rng = np.random.default_rng(seed)
    op = random_convolution(rng)
    found = convolution(op)
    assert (found.kind, found.out_shape, found.input_shapes, found.flops) == (
        "contraction", op.out_shape, op.input_shapes, op.flops,
    )  # fmt: skip
    operands = integers_for(rng, op)
    expected = op.reference(*operands)
    assert np.array_equal(found.reference(*operands), expected)
    assert found.reference(*operands).dtype == expected.dtype
    for _ in range(5):
        terms = None
        if op.groups == 1:
            assert found.terms == op.terms
            terms = random_region(rng, op.terms) if rng.integers(2) else None
        region = op.computable(random_region(rng, op.out_shape), terms)
        assert found.computable(region, terms) == region
        if sees_the_image(found, region, terms):
            assert found.needed(region, terms) == op.needed(region, terms)


@pytest.mark.parametrize("seed", range(150))
def test_the_meaning_is_that_by_index_arrays(seed):
    rng = np.random.default_rng(seed)
    op = random_definition(rng)
    operands = integers_for(rng, op)
    assert np.array_equal(op.reference(*operands), by_index(op, *operands))


@pytest.mark.parametrize("seed", range(150))
def test_parts_and_terms_make_the_whole(seed):
    rng = np.random.default_rng(seed)
    op = random_definition(rng)
    operands = integers_for(rng, op)
    whole = op.reference(*operands)
    made = operator_piece(op, random_region(rng, op.out_shape))
    found = made.op.reference(*(x[b.slices] for x, b in zip(operands, made.operands, strict=True)))
    assert np.array_equal(found, whole[made.result.slices])
    if op.terms and op.terms[0] > 1:
        cut = int(rng.integers(1, op.terms[0]))
        every = Box.whole(op.terms)
        total = 0
        for side in ((0, cut), (cut, op.terms[0])):
            own = operator_piece(op, Box.whole(op.out_shape), every.along(0, side))
            parts = zip(operands, own.operands, strict=True)
            total = total + own.op.reference(*(x[b.slices] for x, b in parts))
        assert np.array_equal(total, whole)


@pytest.mark.parametrize("seed", range(40))
def test_divided_pieces_cover_the_result(seed):
    rng = np.random.default_rng(seed)
    op = random_definition(rng)
    operands = integers_for(rng, op)
    whole = op.reference(*operands)
    for _, pieces in op.divided(3):
        found = np.zeros_like(whole)
        for own in pieces:
            found[own.result.slices] = own.op.reference(*own.take(operands))
        assert np.array_equal(found, whole)


@pytest.mark.parametrize("place", range(8))
def test_a_place_that_no_step_writes_is_computed_with_a_step_beside_it(place):
    op = Definition((3,), Access((8,), (((0, 3),),), (1,)), (straight((3,)),), "x0 + 1")
    x = np.arange(3.0)
    made = operator_piece(op, Box.of((place, place + 1)))
    (side,) = made.result.sides
    assert side[0] <= place < side[1]
    assert set(range(*side)) & {1, 4, 7}
    found = made.op.reference(x[made.operands[0].slices])
    assert np.array_equal(found, op.reference(x)[made.result.slices])


ROW = straight((4,))


def looked_up_from(operand):
    return replace(ROW, terms=((),), read_from=(operand,))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Definition((4, 3), ROW, (ROW,), "x0"),
            "definition: the result is written twice by steps of i1; fix: gather them: += for "
            "their sum, max= for the largest",
        ),
        (
            lambda: Definition((4, 2), Access((6,), (((0, 1), (1, 2)),), (0,)), (), "1"),
            "definition: dimension 0 of the result is written twice by steps of i1; fix: solve "
            "the index for the result's own axes",
        ),
        (
            lambda: Definition((4,), ROW, (Access((4,), (((0, 2),),), (0,)),), "x0"),
            "definition: dimension 0 of 4 is addressed from 0 to 6",
        ),
        (
            lambda: Definition((4,), ROW, (ROW,), "x1"),
            "definition: 'x1' reads more than 1 operands",
        ),
        (
            lambda: Definition((4,), ROW, (ROW,), "x0", None, "x1"),
            "definition: 'x1' reads more than the gathered x0",
        ),
        (
            lambda: Definition((4,), ROW, (ROW,), "x0", None, "clip(x0, -3, 3)"),
            "definition: 'clip(x0, -3, 3)' finishes what is not gathered; fix: "
            "write it around the body",
        ),
        (
            lambda: Definition((4, 3), ROW, (ROW, straight((3,), (1,))), "x0 * x1", "sum", "x0",
                               "i16:i16"),
            "definition: sums of i16 do not hold every product of i16 and i16; fix: sums of more "
            "bits, such as i8:i32, i16:i32 or i32:i64",
        ),
        (
            lambda: Definition((4,), ROW, (looked_up_from(1),), "x0"),
            "definition: no index can be read from operand 1",
        ),
        (
            lambda: Definition((4,), ROW, (looked_up_from(1), looked_up_from(0)), "x0 + x1"),
            "definition: no index can be read from operand 1",
        ),
    ],
)  # fmt: skip
def test_contradictions_are_refused(make, message):
    with pytest.raises(ShapeError) as refused:
        make()
    found = refused.value
    assert found.message + (f"; fix: {found.fix}" if found.fix else "") == message


def test_an_axis_has_less_than_two_to_the_31_steps():
    longest = (1 << 31) - 1
    assert Definition((longest,), straight((longest,)), (straight((longest,)),)).out_shape
    with pytest.raises(ShapeError, match="an axis takes less than 2,147,483,648 steps, found"):
        Definition((longest + 1,), straight((longest + 1,)), (straight((longest + 1,)),))
