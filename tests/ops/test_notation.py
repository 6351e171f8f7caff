"""Definitions as text: what is read, what is refused and where, and that nothing is executed."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.definitions import CONVOLUTION, mutated_text, random_definition
from tilewright.common.errors import TilewrightError
from tilewright.ops import conv2d
from tilewright.ops.notation import operator_of, parse_statement


def integers(op, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(-3, 4, shape).astype(float) for shape in op.input_shapes]


def test_a_convolution_is_one_line():
    op = operator_of(CONVOLUTION, x=(2, 3, 9, 11), w=(4, 3, 3, 3), r=5, c=6, fill=0)
    named = conv2d(
        batch=2, in_channels=3, out_channels=4, height=9, width=11, kernel=3, stride=2, padding=1
    )
    operands = integers(op)
    assert (op.input_shapes, op.out_shape) == (named.input_shapes, named.out_shape)
    assert op.flops == named.flops
    assert np.array_equal(op.reference(*operands), named.reference(*operands))


@pytest.mark.parametrize(
    ("text", "sizes", "meaning"),
    [
        ("y[q,k] += a[q,d] * b[k,d]", {"q": 3, "k": 4, "d": 5}, lambda a, b: a @ b.T),
        (
            "y[i,r] += x[i,j,k] * b[j,r] * c[k,r]",
            {"i": 3, "j": 4, "k": 2, "r": 5},
            lambda x, b, c: np.einsum("ijk,jr,kr->ir", x, b, c),
        ),
        (
            "y[n,m] += abs(x[n,k] - w[m,k])",
            {"n": 3, "m": 4, "k": 5},
            lambda x, w: np.abs(x[:, None] - w).sum(-1),
        ),
        ("y[r] max= x[2*r+3*t]", {"r": 3, "t": 2}, lambda x: np.maximum(x[:6:2], x[3::2])),
        ("y[i] min= x[i,j]", {"i": 3, "j": 4}, lambda x: x.min(1)),
        ("y[i] *= x[i,j]", {"i": 3, "j": 4}, lambda x: x.prod(1)),
        ("y[7-i] = x[i]", {"i": 8}, lambda x: x[::-1]),
        ("y[i,j] = x[j,i]", {"i": 3, "j": 4}, lambda x: x.T),
        ("y[4*i+j] = x[i,j]", {"i": 3, "j": 4}, lambda x: x.reshape(-1)),
        ("y[i] = x[i] + x[i+1]", {"i": 4, "x": (5,)}, lambda x, again: x[:-1] + again[1:]),
        ("y[i] = x[i] * x[i]", {"i": 4}, lambda x: x * x),
        ("y[i] = 2.5", {"i": 4}, lambda: np.full(4, 2.5)),
        ("y[] += x[i] * w[i]", {"i": 4}, lambda x, w: x @ w),
        ("y[i] = x[i] + a[ ] * a[()]", {"i": 4}, lambda x, a: x + a * a),
    ],
)
def test_what_a_statement_means(text, sizes, meaning):
    op = operator_of(text, **sizes)
    operands = integers(op)
    assert np.array_equal(op.reference(*operands), meaning(*operands))


def test_sums_that_share_places_of_the_result_are_solved_for_them():
    text = "y[o,2*r+u-1] += x[i,r] * w[i,o,u]"
    op = operator_of(text, o=2, r=4, i=3, u=3, y=(2, 8), fill={"y": 0})
    x, w = np.arange(12.0).reshape(3, 4), np.arange(18.0).reshape(3, 2, 3)
    expected = np.zeros((2, 10))
    for r, u in np.ndindex(4, 3):
        expected[:, 2 * r + u] += x[:, r] @ w[:, :, u]
    assert np.array_equal(op.reference(x, w), expected[:, 1:9])
    assert operator_of(text.replace("-1", ""), o=2, r=4, i=3, u=3).out_shape == (2, 9)


def test_sizes_of_axes_follow_from_shapes():
    op = operator_of("y[n,o] += x[n,i] * w[o,i]", x=(8, 16), w=(4, 16))
    assert op.describe() == "y[n,o] += x[n,i] * w[o,i]; n=8, o=4, i=16"


def by_name(op):
    """Extents by axis, and the access of each tensor: its shape, its fill where one is read, the
    name of what each dimension is read from.
    """
    accesses = {}
    for number, access in enumerate((op.result, *op.operands)):
        fill = None if access.is_inside(op.extents) else access.fill
        read = [k if k is None else op.tensor_name(k + 1) for k in access.read_from]
        accesses[op.tensor_name(number)] = access.shape, fill, read
    return {op.axis_name(a): n for a, n in enumerate(op.extents)}, accesses


@pytest.mark.hypothesis
@given(seed=st.integers(0, 2**32 - 1))
def test_a_definition_is_read_back_from_its_text(seed):
    op = random_definition(np.random.default_rng(seed), look_ups=True)
    text = op.describe().partition(";")[0]
    extents, accesses = by_name(op)
    shapes = {name: shape for name, (shape, *_) in accesses.items()}
    fills = {name: fill for name, (_, fill, _) in accesses.items()}
    kinds = [*op.operand_dtypes, op.out_dtype]
    again = operator_of(text, fill=fills, **extents, **shapes)
    assert again.describe().partition(";")[0] == text
    assert by_name(again) == (extents, accesses)
    assert (again.gather, again.finish) == (op.gather, op.finish)
    assert sorted([*again.operand_dtypes, again.out_dtype]) == sorted(kinds)


@pytest.mark.parametrize(
    ("text", "sizes", "message"),
    [
        (
            "y[n,m] += x[n,k] * w[m,q]",
            {"n": 3, "m": 4, "k": 5},
            "'y[n,m] += x[n,k] * w[m,q]', character 24: axis 'q' has no extent; give q=...",
        ),
        (
            "y[n,n] = x[n]",
            {"n": 3},
            "'y[n,n] = x[n]', character 1: the result names axis 'n' twice",
        ),
        (
            "y[n] = x[n/2]",
            {"n": 3},
            "'y[n] = x[n/2]', character 10: an index is a sum of multiples of axes; write it as "
            "2*r + u - 1; solve a quotient for the other index",
        ),
        (
            "y[n] = x[n-1]",
            {"n": 3},
            "'y[n] = x[n-1]', character 8: index 1 of x runs from -1 to 1, outside 0..1; give "
            "fill=... for what lies beyond the border, or another x=...",
        ),
        (
            "y[n] = x[n+1]",
            {"n": 3, "fill": 0},
            "'y[n] = x[n+1]', character 8: x is filled beyond a border that is not known; give its "
            "shape, x=...",
        ),
        ("y = x[n]", {"n": 3}, "'y = x[n]', character 1: the result is no element, as y[i]"),
        ("y[n] = z", {"n": 3}, "'y[n] = z', character 8: 'z' is no element; write z[...]"),
        (
            "y[n] == x[n]",
            {"n": 3},
            "'y[n] == x[n]' is no statement; write RESULT[axes] += BODY, or =, *=, max=, min=",
        ),
        ("y[n] = x[n] +", {"n": 3}, "'y[n] = x[n] +', character 8: no expression can be read here"),
        ("y[n] = x[n]", {"n": 0}, "n must be from 1 to 2,147,483,647, found 0"),
        ("y[n] = x[n]", {"n": 2**31}, "n must be from 1 to 2,147,483,647, found 2147483648"),
        (
            "y[n] = x[n] * w[n]",
            {"x": (3,), "w": (4,)},
            "'y[n] = x[n] * w[n]', character 15: axis 'n' has 4 steps in w and 3 by x=3",
        ),
        (
            "y[n] = x[n]",
            {"x": ()},
            "'y[n] = x[n]', character 8: x has 0 dimensions, scalar, and 1 indices",
        ),
        ("y[n] = x[n]", {"n": 3, "m": 2}, "'y[n] = x[n]' has no 'm'; it has the names n, x, y"),
        (
            "y[n] = x[m]",
            {"n": 3, "m": 2},
            "'y[n] = x[m]': definition: the result is written twice by steps of m; gather them: += "
            "for their sum, max= for the largest",
        ),
        (
            "y[n+m] = x[n,m]",
            {"n": 3, "m": 2},
            "'y[n+m] = x[n,m]': definition: dimension 0 of the result is written twice by steps of "
            "m; solve the index for the result's own axes",
        ),
        (
            "y[n+m] += x[n,m] + w[n,m]",
            {"n": 3, "m": 2},
            "'y[n+m] += x[n,m] + w[n,m]': steps of 'x0 + x1' share places of the result and no "
            "factor bounds them; write the body as a statement of its own, and sum its elements",
        ),
        (
            f"y[{','.join(f'a{i}' for i in range(100))}] = 1",
            {f"a{i}": 1 for i in range(100)},
            "'y[a0,a1,a2,a3,a4,a5,a6,a7,a8,a9,a10,a11,a12,a13,a14,a15,a16,': definition: 100 axes, "
            "at most 16 are taken",
        ),
        (
            "y[n] = " + "x[n]+" * 200_000 + "x[n]",
            {"n": 3},
            "a statement of 1,000,011 characters, at most 16,384 are read",
        ),
        (
            "y[n] = a[] + x[n",
            {"n": 3},
            "'y[n] = a[] + x[n', character 15: no expression can be read here",
        ),
        (
            "y[] += x[n] + 2[]",
            {"n": 3},
            "'y[] += x[n] + 2[]', character 15: a tensor is called by a name",
        ),
        ("y[n] = x[n][n]", {"n": 8}, "'y[n] = x[n][n]', character 8: a tensor is called by a name"),
        ("y[n] = x[n]", {"n": (3,)}, "'n' is the extent of an axis, found (3,)"),
        ("y[n] = x[n]", {"x": 3}, "'x' is the shape of a tensor, found 3"),
        (
            "y[n] = x[n]",
            {"x": (3, 4)},
            "'y[n] = x[n]', character 8: x has 2 dimensions, 3x4, and 1 indices",
        ),
    ],
)
def test_what_is_refused(text, sizes, message):
    with pytest.raises(TilewrightError) as refused:
        operator_of(text, **sizes)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("y[i,j] += x[i,k] * w[k,j]", True),
        ("y[i,j] += w[k,j] * x[i,k]", True),
        ("y[2*i+j] += x[i,k] * w[k,j]", False),
        ("y[2*i+j,n] += x[i,k] * w[k,j,n]", False),
        ("y[i] max= x[i,k] * w[k]", False),
        ("y[i] += x[i,k]", False),
        ("y[i] += x[i,k] * w[k] * v[k]", False),
    ],
)
def test_a_product_has_two_factors_and_an_axis_for_each_dimension(text, found):
    assert parse_statement(text).is_product == found


@pytest.mark.parametrize(
    "body",
    [
        "__import__('os').abort()",
        "x[n].__class__",
        "(lambda: 1)()",
        "[x[n] for n in x]",
        "x[n:2]",
        "x()",
    ],
)
def test_nothing_of_a_text_is_executed(body):
    with pytest.raises(TilewrightError):
        operator_of(f"y[n] = {body}", n=3)


def test_mutated_texts_are_read_or_refused():
    for number in range(1500):
        text, sizes = mutated_text(np.random.default_rng(number))
        with suppress(TilewrightError):
            operator_of(text, **sizes)
