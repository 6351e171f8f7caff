"""Matrix multiplication: shapes, work, meaning, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.errors import ShapeError
from tilewright.ops import Gemm, gemm

EXTENT = st.integers(1, 7)


@given(
    m=EXTENT, n=EXTENT, k=EXTENT, ta=st.booleans(), tb=st.booleans(),
    alpha=st.integers(-3, 3), beta=st.integers(-3, 3),
)  # fmt: skip
def test_reference_is_the_sum_over_k(m, n, k, ta, tb, alpha, beta):
    op = gemm(m, n, k, transpose_a=ta, transpose_b=tb, alpha=alpha, beta=beta)
    generator = np.random.default_rng(m + 10 * n + 100 * k)
    operands = [generator.integers(-9, 9, shape).astype(float) for shape in op.input_shapes]
    a, b = operands[0].T if ta else operands[0], operands[1].T if tb else operands[1]
    expected = alpha * np.einsum("mk,kn->mn", a, b)
    if beta:
        expected = expected + beta * operands[2]
    assert np.array_equal(op.reference(*operands), expected)
    assert op.out_shape == expected.shape


def test_flops_and_text():
    assert gemm(4, 5, 6).flops == 240
    assert gemm(4, 5, 6).describe() == "gemm m4 n5 k6"
    assert (
        gemm(4, 5, 6, transpose_a=True, transpose_b=True, alpha=2, beta=0.5).describe()
        == "gemm m4 n5 k6 transpose_a transpose_b alpha 2 beta 0.5"
    )


def test_single_precision_is_rounded_once():
    op = gemm(1, 1, 3, dtype="f32")
    a = np.array([[2.0**24, 1, 1]], np.float32)
    result = op.reference(a, np.ones((3, 1), np.float32))
    assert result.dtype == np.float32
    assert result[0, 0] == 2.0**24 + 2


@pytest.mark.parametrize(
    ("extents", "message"),
    [
        ((0, 5, 6), "gemm: m must be a positive integer, found 0"),
        ((4, -5, 6), "gemm: n must be a positive integer, found -5"),
        ((4, 5, 1.5), "gemm: k must be a positive integer, found 1.5"),
    ],
)
def test_refused_extents(extents, message):
    with pytest.raises(ShapeError) as refusal:
        Gemm(*extents)
    assert str(refusal.value) == message


@pytest.mark.parametrize(("factor", "value"), [("alpha", "nan"), ("beta", "inf"), ("beta", "-inf")])
def test_refused_factors(factor, value):
    with pytest.raises(ShapeError) as refusal:
        gemm(4, 5, 6, **{factor: float(value)})
    assert str(refusal.value) == f"gemm: {factor} must be finite, found {value}"


def test_refused_operands():
    with pytest.raises(ShapeError) as refusal:
        gemm(4, 5, 6).reference(np.ones((4, 6)), np.ones((5, 6)))
    assert str(refusal.value) == "gemm: expected operands 4x6, 6x5, found 4x6, 5x6"


def test_refused_element_type():
    with pytest.raises(ShapeError) as refusal:
        gemm(4, 5, 6, dtype="double")
    assert str(refusal.value) == (
        "unknown element type 'double'; "
        "use one of f64, f32, f16, bf16, i8, u8, i16, u16, i32, u32, i64, u64, bool or "
        "fixed point, as q8.8"
    )


def test_integers_are_added_modulo_the_bits_of_c():
    op = gemm(1, 3, 1, beta=1, dtype="i8,i16:i16")
    assert op.operand_dtypes == ("i8", "i16", "i16")
    a, b = np.array([[100]], np.int8), np.array([[1, 400, -400]], np.int16)
    c = np.array([[7, 0, 0]], np.int16)
    assert op.reference(a, b, c).tolist() == [[107, 40000 - 2**16, 2**16 - 40000]]
