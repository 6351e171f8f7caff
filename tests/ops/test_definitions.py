"""Named operators as definitions in sequence: shapes, operations, meaning and regions are equal."""

import numpy as np
import pytest

from support.definitions import integers_for
from support.random_operators import random_operator
from tilewright.ops import gemm
from tilewright.ops.definitions import definitions_of, evaluated_by_definitions

KINDS = ("gemm", "batched_matmul", "conv2d", "pool2d", "reduce", "unary", "binary", "bias",
         "batch_norm", "softmax", "local_response_norm", "transpose", "pad", "slice", "resize",
         "space_to_depth", "concat", "reshape")  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_the_definitions_mean_what_the_operator_means(kind, seed):
    rng = np.random.default_rng(seed)
    op = random_operator(rng, kind)
    tensors = definitions_of(op)
    assert all(a.definition.out_shape == op.out_shape for a in tensors[-1].addends)
    operands = integers_for(rng, op)
    if kind == "batch_norm":
        operands = (*operands[:4], np.abs(operands[4]) + 1.0)
    expected, found = op.reference(*operands), evaluated_by_definitions(op, operands)
    if kind in ("softmax", "local_response_norm", "batch_norm", "unary"):
        assert np.allclose(found, expected, rtol=1e-13, atol=1e-13, equal_nan=True)
    else:
        assert np.array_equal(found, expected)
        assert found.dtype == expected.dtype


def test_contractions_count_the_operations_of_the_named_operator():
    rng = np.random.default_rng(0)
    for kind in ("batched_matmul", "conv2d"):
        op = random_operator(rng, kind)
        ((addend,),) = (tensor.addends for tensor in definitions_of(op))
        assert addend.definition.kind == "contraction"
        assert addend.definition.flops == op.flops
    ((addend,),) = (tensor.addends for tensor in definitions_of(gemm(3, 4, 5)))
    assert addend.definition.describe() == "y[m,n] += x0[m,k] * x1[k,n]; m=3, n=4, k=5"
