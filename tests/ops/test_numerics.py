"""Element types of operators: their text, what goes together, and exact integer references."""

from fractions import Fraction
from math import floor, trunc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.dtypes import I8, I16, I32, INTEGERS
from tilewright.common.errors import ShapeError
from tilewright.common.fixed_point import ROUNDINGS, exact_product, requantised
from tilewright.ops import (
    Bias,
    Binary,
    Concat,
    Pool2d,
    Softmax,
    Unary,
    average_pool2d,
    conv2d,
    flatten,
    gemm,
    max_pool2d,
)
from tilewright.ops.numerics import Numerics

ROUNDED = {
    "even": round,
    "half_up": lambda x: floor(x + Fraction(1, 2)),
    "floor": floor,
    "zero": trunc,
}


@pytest.mark.parametrize(
    ("text", "operands", "sums", "result", "rounding", "saturate"),
    [
        ("f32", ["f32", "f32"], "f32", "f32", "even", True),
        ("i16:i32", ["i16", "i16"], "i32", "i32", "even", True),
        ("u8,i8:i32", ["u8", "i8"], "i32", "i32", "even", True),
        ("q8.8:q16.16:q8.8", ["q8.8", "q8.8"], "q16.16", "q8.8", "even", True),
        ("i16:i32:i16:floor", ["i16", "i16"], "i32", "i16", "floor", True),
        ("i16:i32:i16:even:wrap", ["i16", "i16"], "i32", "i16", "even", False),
    ],
)
def test_text(text, operands, sums, result, rounding, saturate):
    found = Numerics.parse(text, 2)
    assert [str(kind) for kind in found.operands] == operands
    assert (str(found.sums), str(found.result)) == (sums, result)
    assert (found.rounding, found.saturate) == (rounding, saturate)
    assert str(found) == text
    assert Numerics.parse(str(found), 2) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i16:i33", "unknown element type 'i33'; use one of f64, f32, f16, bf16, i8, u8, i16, u16, "
         "i32, u32, i64, u64, bool or fixed point, as q8.8"),
        ("u8,i8", "element types 'u8,i8' lack that of the sums; write "
         "operands:sums:result:rounding:overflow, such as i16:i32 or "
         "q8.8:q16.16:q8.8:even:saturate"),
        ("i8,i8,i8:i32", "element types 'i8,i8,i8:i32' name 3 operands, the operator takes 2"),
        ("i8:i32:i8:up", "unknown rounding 'up'; use one of even, half_up, floor, zero"),
        ("i8:i32:i8:even:trap", "unknown treatment of overflow 'trap'; use one of saturate, wrap"),
        ("i8:i32:i8:even:wrap:more", "element types 'i8:i32:i8:even:wrap:more' have 6 parts; write "
         "operands:sums:result:rounding:overflow, such as i16:i32 or "
         "q8.8:q16.16:q8.8:even:saturate"),
        ("f32:f64", "element types f32:f64 mix f32 with another type; "
         "floats take one type for operands, sums and result"),
        ("i8:i32:q8.8", "element types i8:i32:q8.8: sums of i32 have 0 fraction bits, fewer than "
         "the 8 of the result; give the sums as many, or the result fewer"),
        ("i16", "gemm: sums of i16 do not hold every product of i16 and i16; "
         "sums of more bits, such as i8:i32, i16:i32 or i32:i64"),
        ("q8.8:i32", "gemm: products of q8.8 and q8.8 have 16 fraction bits, sums of i32 have 0; "
         "give the sums as many"),
    ],
)  # fmt: skip
def test_refused(text, message):
    with pytest.raises(ShapeError) as refusal:
        gemm(2, 2, 2, dtype=text)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Softmax((2, 3), dtype="i16"),
         "softmax computes in floating point, found the element type i16; use one of f64, f32"),
        (lambda: Unary("exp", (2, 3), dtype="i16"),
         "exp computes in floating point, found the element type i16; "
         "integers have abs, add, clip, identity, max, min, mul, neg, relu, shrink, sub, "
         "thresholded_relu"),
        (lambda: flatten((2, 3), dtype="i16:i32"),
         "reshape changes no element and takes one type, found i16:i32"),
        (lambda: gemm(2, 2, 2, alpha=2, dtype="i16:i32"),
         "gemm: products of i16:i32 take alpha 1 and beta 0 or 1, found 2 and 0; "
         "scale and add with operators of their own"),
        (lambda: gemm(2, 2, 2, beta=1, dtype="i16:i32:i16"),
         "gemm: products of i16:i32:i16 are not added to C; "
         "with beta 1 give sums and result one type of integers, as i8,i16:i16"),
        (lambda: Bias((2, 3), scale=0.5, dtype="i16"),
         "bias: a bias of i16 takes a whole scale, found 0.5"),
        (lambda: Binary("add", (2,), (2,), "q8.8:i32"),
         "add: an operand of q8.8 and sums of i32 differ in their fraction bits; "
         "give both as many"),
    ],
)  # fmt: skip
def test_refused_by_name(make, message):
    with pytest.raises(ShapeError) as refusal:
        make()
    assert str(refusal.value) == message


def test_values_that_the_type_has_not():
    with pytest.raises(ShapeError) as refusal:
        gemm(1, 1, 1, dtype="i8:i32").reference(np.array([[128]]), np.array([[1]]))
    assert str(refusal.value) == "gemm: operand 0 has values that i8 has not"


@given(
    st.integers(-(2**40), 2**40), st.integers(1, 1000), st.sampled_from(ROUNDINGS), st.booleans()
)
def test_one_rounding(value, divisor, rounding, saturate):
    """Against rational numbers."""
    (found,) = requantised(np.array([value]), divisor, rounding, saturate=saturate, to=I16.numpy)
    exact = ROUNDED[rounding](Fraction(value, divisor))
    low, high = I16.limits
    expected = min(max(exact, low), high) if saturate else (exact - low) % 2**16 + low
    assert int(found) == expected


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("divisor", range(1, 9))
def test_halves_are_rounded_as_they_should_be_and_others_to_the_nearest(rounding, divisor):
    values = np.arange(-40, 41)
    found = requantised(values, divisor, rounding, saturate=False, to=I16.numpy)
    assert found.tolist() == [ROUNDED[rounding](Fraction(int(v), divisor)) for v in values]


@given(st.sampled_from(INTEGERS), st.sampled_from(INTEGERS), st.integers(0, 2**32))
def test_products_are_exact_modulo_64_bits(left, right, seed):
    generator = np.random.default_rng(seed)
    a = generator.integers(*left.limits, (3, 5), left.numpy, endpoint=True)
    b = generator.integers(*right.limits, (5, 2), right.numpy, endpoint=True)
    exact = a.astype(object) @ b.astype(object)
    assert ((exact - exact_product(a, b).astype(object)) % 2**64 == 0).all()


def _full(generator, shape, kind):
    return generator.integers(*kind.limits, shape, kind.numpy, endpoint=True)


@given(st.integers(0, 2**32))
def test_fixed_point_convolution_is_the_rounded_exact_one(seed):
    op = conv2d(
        batch=2, in_channels=2, out_channels=3, height=4, width=5, kernel=3, padding=1,
        dtype="q4.4:q24.8:q4.4",
    )  # fmt: skip
    generator = np.random.default_rng(seed)
    x, w = (_full(generator, shape, I8) for shape in op.input_shapes)
    found = op.reference(x, w)
    real = conv2d(
        batch=2, in_channels=2, out_channels=3, height=4, width=5, kernel=3, padding=1
    ).reference(x / 16.0, w / 16.0)
    expected = np.clip(np.round(real * 16), -128, 127)
    assert found.dtype == np.int8
    assert np.array_equal(found, expected)


def test_sums_wrap():
    """Two products of -2^15 by itself are 2^31: the sum of 32 bits is -2^31."""
    op = gemm(1, 1, 2, dtype="i16:i32")
    least = np.full((1, 2), -(2**15), np.int16)
    assert op.reference(least, least.T).tolist() == [[-(2**31)]]
    narrow = gemm(1, 1, 2, dtype="i16:i32:i16")
    assert narrow.reference(least, least.T).tolist() == [[-(2**15)]]


def test_zero_point_is_a_difference_of_wider_type():
    op = Binary("sub", (3,), (), "u8:i16")
    found = op.reference(np.array([0, 128, 255], np.uint8), np.array(255, np.uint8))
    assert (found.dtype, found.tolist()) == (np.int16, [-255, -127, 0])


@pytest.mark.parametrize(
    ("op", "operands", "expected"),
    [
        (Unary("relu", (3,), dtype="i16"), [[-5, 0, 5]], [0, 0, 5]),
        (Unary("clip", (3,), -0.5, 1, dtype="q4.4"), [[-127, 3, 127]], [-8, 3, 16]),
        (Unary("identity", (4,), dtype="q8.8:q8.8:q4.4"), [[-24, 24, 8, 9999]], [-2, 2, 0, 127]),
        (Binary("mul", (2,), (2,), "q4.4:q8.8:q4.4"), [[8, 24], [8, 127]], [4, 127]),
        (Bias((1, 2), scale=-2, dtype="i8:i32"), [[[1, 2]], [3, 4]], [[-5, -6]]),
        (Concat(((1, 1), (1, 2)), dtype="u8"), [[[255]], [[1, 2]]], [[255, 1, 2]]),
    ],
)
def test_elementwise(op, operands, expected):
    given = [np.array(x, k.numpy) for x, k in zip(operands, op.numerics.operands, strict=True)]
    found = op.reference(*given)
    assert (found.dtype, found.tolist()) == (op.numerics.result.numpy, expected)


def test_pooling():
    images = np.array([-128, 5, 7, -1], np.int8).reshape(1, 1, 2, 2)
    pools: list[tuple[Pool2d, list[int]]] = [
        (max_pool2d((1, 1, 2, 2), 2, padding=1, dtype="i8"), [-128, 5, 7, -1]),
        (average_pool2d((1, 1, 2, 2), 2, dtype="i8:i32:i8"), [-29]),
        (average_pool2d((1, 1, 2, 2), 2, dtype="i8:i32:i8:floor"), [-30]),
    ]
    for op, expected in pools:
        assert op.reference(images).ravel().tolist() == expected


def test_types_of_operands_and_result():
    op = conv2d(
        batch=1, in_channels=1, out_channels=1, height=3, width=3, kernel=3, dtype="u8,i8:i32"
    )
    assert (op.operand_dtypes, op.out_dtype) == (("u8", "i8"), "i32")
    assert op.numerics.sums is I32
