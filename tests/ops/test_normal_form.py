"""Steps of a definition: what they give together is its meaning, and each is one of few forms."""

from itertools import product
from math import prod

import numpy as np
import pytest

from support.definitions import (
    by_index,
    convolution,
    integers_for,
    random_convolution,
    random_definition,
)
from tilewright.ops import Conv2d
from tilewright.ops.definition import Definition
from tilewright.ops.matrix_roles import matrix_roles
from tilewright.ops.normal_form import _is_exact_in_floats, normal_form
from tilewright.ops.notation import operator_of
from tilewright.ops.recognition import recognised


def evaluated(op, operands):
    held = list(operands)
    for step in normal_form(op):
        held.append(step.op.reference(*(held[i] for i in step.operands)))
    return held[-1]


@pytest.mark.parametrize("seed", range(150))
def test_the_steps_give_what_the_definition_means(seed):
    rng = np.random.default_rng(seed)
    op = random_definition(rng)
    operands = integers_for(rng, op)
    assert np.array_equal(evaluated(op, operands), by_index(op, *operands))
    for step in normal_form(op):
        if isinstance(step.op, Definition) and step.op.kind == "contraction":
            assert all(cut.as_it_lies for cut in matrix_roles(step.op).operands)
            assert step.op.result.is_whole(step.op.extents)
        elif isinstance(step.op, Definition):
            assert step.op.gather is None or len(step.op.operands) == 1
            assert step.op.gather != "any" or not step.op.numerics.is_float


def steps(text, **sizes):
    return [step.op.describe() for step in normal_form(operator_of(text, **sizes))]


def test_factors_are_multiplied_in_the_cheapest_order():
    khatri_rao = "y[i,r] += x[i,j,k] * v[j,r] * w[k,r]"
    assert steps(khatri_rao, i=30, j=4, k=5, r=6) == [
        "y[i0,i1,i2] += x0[i1,i0] * x1[i2,i0]; i0=6, i1=4, i2=5",
        "reshape 30x4x5 -> 30x20",
        "reshape 6x4x5 -> 6x20",
        "gemm m30 n6 k20 transpose_b",
    ]
    assert steps(khatri_rao, i=90, j=16, k=18, r=20)[:3] == [  # far smaller than their product
        "y[i0,i1] = x0[i1,i0]; i0=20, i1=16",
        "y[i0,i1] = x0[i1,i0]; i0=20, i1=18",
        "y[i0,i1,i2] += x0[i0,i1] * x1[i0,i2]; i0=20, i1=16, i2=18",
    ]
    assert steps(khatri_rao, i=6, j=6, k=6, r=6)[-1] == "gemm m6 n6 k36 transpose_b"  # fewer sums
    bilinear = "y[n,o] += a[n,i] * b[o,i,j] * c[n,j]"
    assert steps(bilinear, n=2, o=8, i=6, j=5) == [
        "y[i0,i1,i2] += x0[i0,i1] * x1[i0,i2]; i0=2, i1=6, i2=5",
        "reshape 2x6x5 -> 2x30",
        "reshape 8x6x5 -> 8x30",
        "gemm m2 n8 k30 transpose_b",
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("y[i,j] += x[i,k] * w[k,j]", "gemm m3 n4 k5"),
        ("y[i,j] += x[k,i] * w[k,j]", "gemm m3 n4 k5 transpose_a"),
        ("y[i,j] += x[i,k] * w[j,k]", "gemm m3 n4 k5 transpose_b"),
        ("y[i,j] += x[k,i] * w[j,k]", "gemm m3 n4 k5 transpose_a transpose_b"),
        ("y[j,i] += x[i,k] * w[k,j]", "gemm m4 n3 k5 transpose_a transpose_b"),
    ],
)
def test_a_product_is_read_as_its_factors_lie(text, found):
    assert steps(text, i=3, j=4, k=5) == [found]


@pytest.mark.parametrize(
    ("text", "dtype"),
    [("y[i] = x[i] + w[i]", "i8:i32"), ("y[i] max= x[i,j]", "f32"), ("y[i] = x[i] * 2", "i8:i16")],
)
def test_a_map_and_a_gathering_in_one_type_are_one_step(text, dtype):
    op = operator_of(text, dtype=dtype, i=3, **({"j": 4} if "j" in text else {}))
    assert [step.op for step in normal_form(op)] == [op]


@pytest.mark.parametrize("seed", range(20))
def test_each_axis_of_a_contraction_has_one_role(seed):
    op = convolution(random_convolution(np.random.default_rng(seed)))
    roles = matrix_roles(op)
    every = (*roles.m, *roles.n, *roles.k, *roles.wide_m, *roles.wide_n, *roles.loops, *roles.taps)
    assert sorted(every) == [a for a, extent in enumerate(op.extents) if extent > 1]


def test_axes_of_any_name_and_order_are_those_of_a_product():
    assert steps("y[b,h,q,k] += x[b,h,q,d] * w[b,h,k,d]", b=2, h=3, q=4, k=5, d=6) == [
        "reshape 2x3x4x6 -> 6x4x6",
        "reshape 2x3x5x6 -> 6x5x6",
        "batched_matmul b6 m4 n5 k6 transpose_b",
        "reshape 6x4x5 -> 2x3x4x5",
    ]
    assert steps("y[i,j,k] += x[i,l,k] * u[j,l]", i=6, j=12, k=7, l=9) == [
        "transpose 6x9x7 by 0 2 1",
        "reshape 6x7x9 -> 42x9",
        "gemm m42 n12 k9 transpose_b",
        "reshape 42x12 -> 6x7x12",
        "transpose 6x7x12 by 0 2 1",
    ]


def test_a_product_of_every_pixel_is_a_convolution_of_single_places():
    assert steps("y[n,o,r,c] += w[i,o] * x[n,i,r,c]", n=2, i=3, o=4, r=5, c=6) == [
        "transpose 3x4 by 1 0",
        "reshape 4x3 -> 4x3x1x1",
        "conv2d 2x3x5x6 -> 4, 1x1 s1 p0",
    ]
    op = operator_of("y[n,o,r,c] += x[n,i,r,c] * w[o,i]", n=2, i=3, o=4, r=5, c=6)
    turned = operator_of("y[n,o,r,c] += w[o,i] * x[n,i,r,c]", n=2, i=3, o=4, r=5, c=6)
    assert recognised(op).op == recognised(turned).op
    assert (recognised(op).operands, recognised(turned).operands) == ((0, 1), (1, 0))
    strided = "y[n,o,2*r,2*c] += x[n,i,r,c] * w[o,i]"
    assert steps(strided, n=2, i=3, o=4, r=5, c=6, y=(2, 4, 10, 12)) == [
        "reshape 4x3 -> 4x3x1x1",
        "conv2d 2x3x5x6 -> 4, 1x1 s1 p0",
        "y[i0,i1,2*i2,2*i3] = x0[i0,i1,i2,i3]; i0=2, i1=4, i2=5, i3=6",
    ]


def test_places_beside_the_only_window_are_windows_of_one_place():
    """A product over these would transpose the images and the result."""
    sizes = {"n": 2, "i": 3, "r": 5, "c": 6, "o": 4}
    assert steps("y[n,o,r,c] += x[n,i,r,c+v] * w[o,i,v]", v=2, **sizes) == [
        "reshape 4x3x2 -> 4x3x1x2",
        "conv2d 2x3x5x7 -> 4, 1x2 s1 p0",
    ]
    assert steps("y[n,o,r,c] += x[n,i,r+u,c] * w[o,i,u]", u=3, **sizes) == [
        "reshape 4x3x3 -> 4x3x3x1",
        "conv2d 2x3x7x6 -> 4, 3x1 s1 p0",
    ]
    assert steps("y[n,o,c] += x[n,i,c+v] * w[o,i,v]", n=2, i=3, c=6, o=4, v=2) == [
        "reshape 2x3x7 -> 2x3x1x7",
        "reshape 4x3x2 -> 4x3x1x2",
        "conv2d 2x3x1x7 -> 4, 1x2 s1 p0",
        "reshape 2x4x1x6 -> 2x4x6",
    ]


def test_what_is_filled_backwards_or_in_part_is_copied_first():
    convolution = "y[o,r] += x[i,r+u-1] * w[o,i,2-u]"
    assert steps(convolution, o=4, r=6, i=3, u=3, x=(3, 6), fill={"x": 2}) == [
        "y[i0,i1] = x0[i0,i1-1]; i0=3, i1=8",
        "y[i0,i1,i2] = x0[i0,i1,-i2+2]; i0=4, i1=3, i2=3",
        "reshape 3x8 -> 1x3x1x8",
        "reshape 4x3x3 -> 4x3x1x3",
        "conv2d 1x3x1x8 -> 4, 1x3 s1 p0",
        "reshape 1x4x1x6 -> 4x6",
    ]


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_windows_that_begin_behind_the_first_place_are_of_a_part_of_the_operand(shift):
    convolution = f"y[o,r] += x[i,r+u+{shift}] * w[o,i,u]"
    op = operator_of(convolution, o=4, r=6, i=3, u=3, x=(3, 8 + 2 * shift))
    found = recognised(op)
    assert (found is None) == (shift != 0)
    rng = np.random.default_rng(0)
    operands = integers_for(rng, op)
    assert np.array_equal(evaluated(op, operands), by_index(op, *operands))


@pytest.mark.parametrize("seed", range(60))
def test_a_convolution_is_recognised(seed):
    rng = np.random.default_rng(seed)
    op = random_convolution(rng)
    found = recognised(convolution(op))
    operands = integers_for(rng, op)
    if found is None:
        assert 1 in (*op.kernel, *op.out_shape[2:])
        return
    arranged = []
    for i, chain in zip(found.operands, found.arranging, strict=True):
        x = operands[i]
        for each in chain:
            x = each.reference(x)
        arranged.append(x)
    y = found.op.reference(*arranged)
    for each in found.restoring:
        y = each.reference(y)
    assert np.array_equal(y, op.reference(*operands))
    if isinstance(found.op, Conv2d):
        assert (found.op.kernel, found.op.groups, found.op.stride) == (
            op.kernel,
            op.groups,
            op.stride,
        )


@pytest.mark.parametrize(
    ("types", "terms", "expected"),
    [
        ("i16:i64", 2**20, True),
        ("i16:i64", 2**21, False),
        ("i8:i64", 2**37 // 2**10, True),
        ("i32:i64", 1, False),
    ],
)
def test_doubles_hold_the_sums_of_so_many_products(types, terms, expected):
    """Each product has as many bits as its operands together, and the number of terms adds its own
    to the 53 that a double has.
    """
    op = operator_of("y[n] += x[n,k] * w[k]", dtype=types, n=2, k=terms)
    assert _is_exact_in_floats(op) == expected


NARROWED = (
    "i8:i32:i8", "u8:i32:u8", "i16:i32:i8:even:wrap", "i8:i64:i8", "i32:i64:i16",
    "i32:i64:i32:even:wrap",
)  # fmt: skip


@pytest.mark.parametrize(("body", "types"), [
    *product(("x[n,k]", "x[n,k] - w[k]", "x[n,k] * w[k]"), NARROWED),
    *product(("x[n,k]", "x[n,k] - w[k]"), ["i64"]),
])  # fmt: skip
def test_integers_are_summed_in_floats_and_saturate_or_wrap_as_defined(body, types):
    """Sums wrap to their own type first; sums of 64 bits are those of two halves."""
    op = operator_of(f"y[n] += {body}", dtype=types, n=9, k=300)
    rng = np.random.default_rng(0)
    operands = [
        rng.integers(*kind.limits, shape, dtype=kind.numpy, endpoint=True)
        for shape, kind in zip(op.input_shapes, op.numerics.operands, strict=True)
    ]
    assert np.array_equal(evaluated(op, operands), op.reference(*operands))
    for step in normal_form(op):
        assert getattr(step.op, "gather", None) is None or step.op.numerics.is_float


def test_products_that_doubles_hold_are_not_made_one_by_one():
    """Sums of 64 bits, too, are those of one product of matrices in doubles."""
    op = operator_of("y[n,m] += x[n,k] * w[k,m]", dtype="i16:i64:i16", n=6, m=7, k=300)
    assert max(prod(step.op.out_shape) for step in normal_form(op)) == 7 * 300


@pytest.mark.parametrize("types", [
    "i32", "i16:i32", "u8:u16", "u32", "i64", "u64", "i32:i32:i16", "i32:i32:i16:even:wrap",
])  # fmt: skip
@pytest.mark.parametrize("offset", [0, 1])
def test_products_of_integers_are_exact_beyond_doubles(types, offset):
    """Factors are odd, so that low bits are never zero; axes have odd and even lengths."""
    op = operator_of(f"y[2*n+{offset}] *= x[j,n,k]", dtype=types, n=3, j=3, k=10, y=(6,))
    (kind,), sums, result = op.numerics.operands, op.numerics.sums, op.numerics.result
    low, high = kind.limits
    x = np.random.default_rng(0).integers(low, high, (3, 3, 10), kind.numpy, endpoint=True) | 1
    expected = np.zeros(6, result.numpy)
    for n in range(3):
        low, high = sums.limits
        wrapped = (prod(x[:, n].ravel().tolist()) - low) % (high - low + 1) + low
        low, high = result.limits
        saturated = max(low, min(high, wrapped))
        wrapped = (wrapped - low) % (high - low + 1) + low
        expected[2 * n + offset] = saturated if op.numerics.saturate else wrapped
    assert np.array_equal(evaluated(op, [x]), expected)
    assert np.array_equal(op.reference(x), expected)


def test_the_largest_integer_keeps_its_low_bits_where_results_wrap():
    op = operator_of("y[n] max= x[n,k]", dtype="i32:i32:i16:even:wrap", n=1, k=2)
    x = np.array([[7, 0x1_2345]], np.int32)
    assert evaluated(op, [x]).tolist() == op.reference(x).tolist() == [0x2345]


def test_integers_wrap_at_each_operation_of_a_gathered_body_too():
    op = operator_of("y[n] += max(x[n,k] * x[n,k], 3)", dtype="i32", n=1, k=2)
    x = np.array([[50_000, 2]], np.int32)  # the square wraps to less than 0
    assert evaluated(op, [x]).tolist() == op.reference(x).tolist() == [7]


def test_an_axis_that_counts_blocks_is_a_cell_of_its_own():
    op = operator_of("y[i,j,l,o] += x[8*i+2*j+l,k] * w[k,o]", i=3, j=4, l=2, k=5, o=6)
    rows = matrix_roles(op).operands[0].cells
    assert [(cell.extent, cell.terms) for cell in rows] == [
        (op.extents[axis], ((axis, 1),)) for axis in (0, 1, 2, 4)
    ]
