"""Named operators are their definitions: by index the meaning, and one region as any other."""

from math import prod

import numpy as np
import pytest

from support.definitions import by_index, integers_for
from support.random_operators import random_operator
from tilewright.ops import gemm
from tilewright.ops.box import Box
from tilewright.ops.definitions import Assembly
from tilewright.ops.notation import operator_of
from tilewright.ops.piece import operator_piece

KINDS = ("gemm", "batched_matmul", "conv2d", "pool2d", "reduce", "unary", "binary", "bias",
         "batch_norm", "softmax", "local_response_norm", "transpose", "pad", "slice", "resize",
         "space_to_depth", "concat", "reshape")  # fmt: skip
MOST_STEPS = 3000


def small_operator(rng, kind):
    while True:
        op = random_operator(rng, kind)
        every = [a.definition.extents for tensor in op.definitions for a in tensor.addends]
        if max(map(prod, every)) <= MOST_STEPS:
            return op


def meant(op, operands):
    """The meaning by explicit indices, one definition after the other."""
    held = list(operands)
    for tensor in op.definitions:
        held.append(
            sum(by_index(a.definition, *(held[i] for i in a.reads)) for a in tensor.addends)
        )
    if op.numerics.is_float:
        return held[-1].astype(op.numerics.result.numpy)
    return op.numerics.write_back(held[-1].astype(np.int64))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_operators_mean_their_definitions(kind, seed):
    rng = np.random.default_rng(seed)
    op = small_operator(rng, kind)
    assert all(a.definition.out_shape == op.out_shape for a in op.definitions[-1].addends)
    operands = integers_for(rng, op)
    if kind == "batch_norm":
        operands = (*operands[:4], np.abs(operands[4]) + 1.0)
    expected, found = meant(op, operands), op.reference(*operands)
    assert found.dtype == expected.dtype
    if kind in ("softmax", "local_response_norm", "batch_norm", "unary", "reduce"):
        assert np.allclose(found, expected, rtol=1e-6, atol=1e-13, equal_nan=True)
    else:
        assert np.array_equal(found, expected)


def test_an_assembly_is_no_operator_of_a_name():
    op = operator_of("y[2*i+j] += x[i] * w[j]", i=3, j=4)
    assert isinstance(op, Assembly)
    assert (op.is_named, gemm(3, 4, 5).is_named) == (False, True)


def test_an_assembly_computes_parts_along_dimensions_that_each_part_fills():
    """Images and channels apart, whole rows: phases lie between each other's."""
    op = operator_of("y[n,o,2*r+u] += x[n,i,r] * w[o,i,u]", n=4, o=5, r=3, i=2, u=3, fill={"x": 0})
    region = Box((1, 2, 3), (3, 4, 5))
    assert op.computable(region) == Box((1, 2, 0), (3, 4, 7))
    found = operator_piece(op, region)
    assert found.operands == (Box((1, 0, 0), (3, 2, 3)), Box((2, 0, 0), (4, 2, 3)))
    operands = integers_for(np.random.default_rng(0), op)
    computed = found.op.reference(*found.take(operands))
    np.testing.assert_array_equal(computed, op.reference(*operands)[found.result.slices])


def test_contractions_count_the_operations_of_the_named_operator():
    rng = np.random.default_rng(0)
    for kind in ("batched_matmul", "conv2d"):
        op = random_operator(rng, kind)
        assert op.definition.kind == "contraction"
        assert op.definition.flops == op.flops
    text = "y[m,n] += x0[m,k] * x1[k,n]; m=3, n=4, k=5"
    assert gemm(3, 4, 5).definition.describe() == text


def test_products_of_integers_are_added_to_c_modulo_its_type():
    op = gemm(2, 3, 5, beta=1.0, dtype="i16:i16")
    a, b, c = (
        np.full((2, 5), 300, np.int16),
        np.full((5, 3), 299, np.int16),
        np.ones((2, 3), np.int16),
    )
    exact = a.astype(np.int64) @ b + c
    assert np.array_equal(op.reference(a, b, c), exact.astype(np.int16))
