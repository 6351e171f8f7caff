"""Batched matrix multiplication: its meaning, its pieces, its kernels on every family."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.compiled import kernel_of
from tilewright.common.errors import ShapeError
from tilewright.ops.gemm import BatchedMatmul, batched_matmul
from tilewright.partition import split

EXTENTS = st.integers(1, 6)
OPERATORS = st.builds(
    batched_matmul,
    EXTENTS,
    EXTENTS,
    EXTENTS,
    EXTENTS,
    transpose_a=st.booleans(),
    transpose_b=st.booleans(),
)


def operands(op: BatchedMatmul) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(0)
    return tuple(generator.integers(-3, 4, shape).astype(float) for shape in op.input_shapes)


@given(OPERATORS)
def test_each_element_of_the_batch_is_a_product(op: BatchedMatmul) -> None:
    a, b = operands(op)
    found = op.reference(a, b)
    assert found.shape == op.out_shape
    for i in range(op.batch):
        left = a[i].T if op.transpose_a else a[i]
        right = b[i].T if op.transpose_b else b[i]
        np.testing.assert_array_equal(found[i], left @ right)


@given(OPERATORS, st.integers(2, 4))
def test_the_pieces_of_every_partition_make_the_whole(op: BatchedMatmul, groups: int) -> None:
    whole = operands(op)
    for partition in split(op, groups):
        results = [piece.op.reference(*piece.take(whole)) for piece in partition.pieces]
        np.testing.assert_array_equal(partition.assemble(results), op.reference(*whole))


def test_all_core_groups_compute_and_the_emitted_code_is_exact() -> None:
    kernel = kernel_of(batched_matmul(8, 32, 64, 32), machine="sw26010")
    assert (kernel.option.partition.kind, len(kernel.option.partition.pieces)) == ("batch", 4)
    assert kernel.check() == "exact"
    assert kernel.explain().startswith("batched_matmul: batched_matmul b8 m32 n64 k32\n")


def test_integers_are_exact() -> None:
    op = batched_matmul(2, 3, 4, 5, dtype="i16:i32")
    a, b = (x.astype(np.int16) for x in operands(op))
    found = op.reference(a, b)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, a.astype(np.int64) @ b.astype(np.int64))


def test_extents_are_positive() -> None:
    with pytest.raises(ShapeError) as caught:
        batched_matmul(0, 1, 1, 1)
    assert str(caught.value) == "batched_matmul: batch must be a positive integer, found 0"


def test_operands_lie_as_they_are_multiplied_where_nothing_else_is_said():
    assert BatchedMatmul(2, 3, 4, 5) == batched_matmul(2, 3, 4, 5)
    assert BatchedMatmul(2, 3, 4, 5).input_shapes == ((2, 3, 5), (2, 5, 4))
