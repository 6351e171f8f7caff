"""Pieces of operators: together they are the whole, and one program serves them all."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.errors import ShapeError
from tilewright.ops import conv2d, gemm, relu
from tilewright.partition import split, split_sums

small = st.integers(1, 7)


@st.composite
def convolutions(draw):
    channel_groups = draw(st.sampled_from((1, 1, 2, 3)))
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    return conv2d(
        batch=draw(small),
        in_channels=channel_groups * draw(st.integers(1, 3)),
        out_channels=channel_groups * draw(st.integers(1, 5)),
        height=draw(st.integers(5, 12)),
        width=draw(st.integers(5, 8)),
        kernel=kernel,
        stride=(draw(st.integers(1, 3)), draw(st.integers(1, 2))),
        padding=tuple(draw(st.integers(0, 3)) for _ in range(4)),
        dilation=(draw(st.integers(1, 2)), 1),
        groups=channel_groups,
    )


@st.composite
def products(draw):
    return gemm(
        draw(small),
        draw(small),
        draw(small),
        transpose_a=draw(st.booleans()),
        transpose_b=draw(st.booleans()),
        alpha=draw(st.sampled_from((1.0, 2.0))),
        beta=draw(st.sampled_from((0.0, 3.0))),
    )


def integers(shape, seed):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float64)


@given(st.one_of(convolutions(), products()), st.integers(1, 5))
def test_the_pieces_together_compute_the_whole(op, groups):
    operands = tuple(integers(shape, i) for i, shape in enumerate(op.input_shapes))
    expected = op.reference(*operands)
    for partition in split(op, groups):
        results = [piece.op.reference(*piece.take(operands)) for piece in partition.pieces]
        np.testing.assert_array_equal(partition.assemble(results), expected)


@given(st.one_of(convolutions(), products()), st.integers(1, 5))
def test_all_pieces_of_a_partition_have_one_size(op, groups):
    for partition in split(op, groups):
        assert 1 <= len(partition.pieces) <= groups
        assert len({piece.op.flops for piece in partition.pieces}) == 1
        assert len({piece.op.out_shape for piece in partition.pieces}) == 1


@given(convolutions(), st.integers(2, 5))
def test_pieces_of_a_convolution_see_images_of_one_size_with_their_border(op, groups):
    for partition in split(op, groups):
        bordered = {p.op.height + p.op.padding[0] + p.op.padding[2] for p in partition.pieces}
        assert len(bordered) == 1


def shapes(op, groups):
    return {
        partition.kind: [piece.op.describe() for piece in partition.pieces]
        for partition in split(op, groups)
    }


def test_a_vgg_layer_over_four_groups():
    op = conv2d(
        batch=128, in_channels=256, out_channels=512, height=28, width=28, kernel=3, padding=1
    )
    assert shapes(op, 4) == {
        "rows": [
            "conv2d 128x256x8x28 -> 512, 3x3 s1 p1,1,0,1",
            "conv2d 128x256x9x28 -> 512, 3x3 s1 p0,1,0,1",
            "conv2d 128x256x9x28 -> 512, 3x3 s1 p0,1,0,1",
            "conv2d 128x256x8x28 -> 512, 3x3 s1 p0,1,1,1",
        ],
        "batch": ["conv2d 32x256x28x28 -> 512, 3x3 s1 p1"] * 4,
        "out_channels": ["conv2d 128x256x28x28 -> 128, 3x3 s1 p1"] * 4,
    }


def test_where_there_are_too_few_images_rows_and_channels_are_divided_together():
    op = conv2d(batch=1, in_channels=512, out_channels=512, height=7, width=7, kernel=3, padding=1)
    assert shapes(op, 4)["rows_out_channels"] == [
        "conv2d 1x512x5x7 -> 256, 3x3 s1 p1,1,0,1",
        "conv2d 1x512x5x7 -> 256, 3x3 s1 p1,1,0,1",
        "conv2d 1x512x5x7 -> 256, 3x3 s1 p0,1,1,1",
        "conv2d 1x512x5x7 -> 256, 3x3 s1 p0,1,1,1",
    ]
    assert "rows_out_channels" not in shapes(replace(op, batch=4), 4)
    assert "rows_out_channels" not in shapes(op, 3)


def test_what_does_not_divide_overlaps():
    (rows, *_) = split(
        conv2d(batch=1, in_channels=1, out_channels=1, height=14, width=8, kernel=1), 4
    )
    assert [piece.result.sides[2] for piece in rows.pieces] == [
        (0, 4), (3, 7), (6, 10), (10, 14)
    ]  # fmt: skip


def test_channel_groups_stay_together():
    op = conv2d(batch=1, in_channels=8, out_channels=4, height=5, width=5, kernel=3, groups=4)
    assert shapes(op, 2)["channel_groups"] == ["conv2d 1x4x5x5 -> 2, 3x3 s1 p0 g2"] * 2
    assert "out_channels" not in shapes(op, 2)


def test_rows_that_see_only_padding_are_not_divided():
    op = conv2d(batch=4, in_channels=1, out_channels=4, height=1, width=4, kernel=1, padding=4)
    assert [partition.kind for partition in split(op, 4)] == ["batch", "out_channels"]


@pytest.mark.parametrize("op", [gemm(1, 1, 64), relu((4, 4))], ids=["one result", "elementwise"])
def test_what_cannot_be_divided_runs_on_one_group(op):
    (only,) = split(op, 4)
    assert (only.kind, [piece.op for piece in only.pieces]) == ("whole", [op])


def test_one_group_takes_everything():
    (only,) = split(gemm(64, 64, 64), 1)
    assert only.kind == "whole"


def test_no_groups_is_refused():
    with pytest.raises(ShapeError, match=r"^gemm cannot be divided over 0 core groups$"):
        split(gemm(2, 2, 2), 0)


def test_operands_that_every_piece_reads_whole_are_shared():
    op = conv2d(batch=8, in_channels=4, out_channels=8, height=9, width=9, kernel=3)
    shared = {part.kind: part.shared_operands for part in split(op, 4)}
    assert shared == {"batch": (False, True), "rows": (False, True), "out_channels": (True, False)}
    (whole,) = split(op, 1)
    assert whole.shared_operands == (False, False)


@given(st.one_of(convolutions(), products()), st.integers(1, 5))
def test_partial_results_add_up_to_the_whole(op, groups):
    op = replace(op, batch=1) if op.kind == "conv2d" else replace(op, m=1)
    operands = tuple(integers(shape, i) for i, shape in enumerate(op.input_shapes))
    for partition in split_sums(op, groups):
        assert partition.partial
        assert len(partition.pieces) == groups
        results = [partition.piece.reference(*piece.take(operands)) for piece in partition.pieces]
        np.testing.assert_array_equal(partition.assemble(results), op.reference(*operands))


def test_sums_are_divided_over_input_channels_of_one_image():
    op = conv2d(batch=1, in_channels=512, out_channels=512, height=7, width=7, kernel=3, padding=1)
    (partition,) = split_sums(op, 4)
    assert [piece.op.describe() for piece in partition.pieces] == [
        "conv2d 1x128x7x7 -> 512, 3x3 s1 p1"
    ] * 4
    assert [piece.operands[0].sides[1] for piece in partition.pieces] == [
        (0, 128), (128, 256), (256, 384), (384, 512),
    ]  # fmt: skip


def test_sums_stay_whole_where_pieces_would_differ():
    op = conv2d(batch=1, in_channels=6, out_channels=8, height=7, width=7, kernel=3)
    assert split_sums(op, 4) == []  # 6 channels over 4 groups
    assert split_sums(replace(op, in_channels=8, batch=2), 4) == []  # images are divided
    assert split_sums(replace(op, in_channels=8, groups=8), 4) == []  # nothing to divide
    assert split_sums(gemm(1, 8, 8, beta=1.0), 4) == []  # the first group alone would add c
    assert split_sums(replace(op, in_channels=8, dtype="i8:i32:i8"), 4) == []  # sums are wider
