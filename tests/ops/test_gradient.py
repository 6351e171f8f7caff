"""Gradients of definitions: exact on integers, against differences, of gradients again."""

from math import prod

import numpy as np
import pytest

from support.definitions import integers_for, random_definition
from tilewright.common.errors import ShapeError
from tilewright.ops.gradient import extremes_of_few, gradient
from tilewright.ops.notation import operator_of


def backward(op, operand, dy, operands):
    """The gradient of an operand: the definitions' results added up."""
    total = np.zeros(op.input_shapes[operand])
    for part in gradient(op, operand):
        total += part.definition.reference(dy, *(operands[i] for i in part.operands))
    return total


def by_basis(op, operand, dy, operands):
    """The gradient of a definition that is linear in the operand, element by element."""
    given, found = list(operands), np.zeros(op.input_shapes[operand])
    given[operand] = np.zeros_like(found)
    least = op.reference(*given)
    for place in np.ndindex(found.shape):
        given[operand] = np.zeros_like(found)
        given[operand][place] = 1
        found[place] = ((op.reference(*given) - least) * dy).sum()
    return found


@pytest.mark.parametrize("seed", range(160))
def test_gradients_of_random_sums_of_products_are_exact(seed):
    rng = np.random.default_rng(seed)
    op = random_definition(rng, ("x0 * x1", "x0", "x0 + x1", "x0 * x1 * x2"), (None, "sum"))
    operands = integers_for(rng, op)
    dy = rng.integers(-3, 4, op.out_shape).astype(float)
    for operand in range(len(operands)):
        expected = by_basis(op, operand, dy, operands)
        assert np.array_equal(backward(op, operand, dy, operands), expected)


def shown(text, operand, **sizes):
    """The gradient of an operand as text."""
    return [part.definition.describe() for part in gradient(operator_of(text, **sizes), operand)]


def test_the_data_gradient_of_a_convolution_is_a_convolution_with_the_kernel_turned():
    sizes = {"x": (2, 3, 8), "w": (4, 3, 3), "r": 8, "fill": 0}
    assert shown("y[n,o,r] += x[n,i,r+u-1] * w[o,i,u]", 0, **sizes) == [
        "dx[n,i,r] += dy[n,o,r+u-1] * w[o,i,-u+2]; n=2, o=4, r=8, i=3, u=3"
    ]


def test_of_a_stride_each_phase_has_steps_of_one_and_its_own_taps():
    sizes = {"x": (1, 1, 8), "w": (6, 1, 3), "r": 4, "fill": 0}
    assert shown("y[n,o,r] += x[n,i,2*r+u-1] * w[o,i,u]", 0, **sizes) == [
        "dx[n,i,2*r] += dy[n,o,r+u] * w[o,i,-2*u+1]; n=1, o=6, r=4, i=1, u=1",
        "dx[n,i,2*r+1] += dy[n,o,r+u] * w[o,i,-2*u+2]; n=1, o=6, r=4, i=1, u=2",
    ]


def test_the_weight_gradient_sums_over_images_and_pixels():
    sizes = {"x": (2, 3, 8), "w": (4, 3, 3), "r": 8, "fill": 0}
    assert shown("y[n,o,r] += x[n,i,r+u-1] * w[o,i,u]", 1, **sizes) == [
        "dw[o,i,u] += dy[n,o,r] * x[n,i,r+u-1]; n=2, o=4, r=8, i=3, u=3"
    ]


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("y[i,j] = tanh(x[i,j]) * w[j]", {"i": 3, "j": 4}),
        ("y[i] += exp(x[i,j]) / (1 + w[j] * w[j])", {"i": 3, "j": 4}),
        ("y[n,m] += sqrt(1 + (x[n,k] - w[m,k]) * (x[n,k] - w[m,k]))", {"n": 2, "m": 3, "k": 4}),
        ("y[r] += sigmoid(x[r+t]) * w[t]", {"r": 5, "t": 3}),
        ("y[r] = relu(x[2*r] + w[r])", {"r": 5}),
        ("y[r] += x[r+t] / z[r]", {"r": 5, "t": 3}),
    ],
)
def test_functions_agree_with_central_differences(text, sizes):
    op, rng = operator_of(text, **sizes), np.random.default_rng(3)
    operands = [rng.standard_normal(shape) for shape in op.input_shapes]
    dy, step = rng.standard_normal(op.out_shape), 1e-6
    for operand, x in enumerate(operands):
        found = backward(op, operand, dy, operands)
        for place in np.ndindex(x.shape):
            beside = []
            for change in (step, -step):
                moved = [y.copy() for y in operands]
                moved[operand][place] += change
                beside.append((op.reference(*moved) * dy).sum())
            slope = (beside[0] - beside[1]) / (2 * step)
            assert found[place] == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_a_gradient_has_a_gradient():
    """The second derivative of a product by both operands is the first one's operand."""
    op = operator_of("y[i,j] += x[i,k] * w[k,j]", i=3, j=4, k=5)
    (dx,) = gradient(op, 0)
    assert dx.definition.describe() == "dx[i,k] += dy[i,j] * w[k,j]; i=3, j=4, k=5"
    (again,) = gradient(dx.definition, 1)
    rng = np.random.default_rng(0)
    dy, ddx = rng.integers(-3, 4, (3, 4)), rng.integers(-3, 4, (3, 5))
    found = again.definition.reference(*(x.astype(float) for x in (ddx, dy)))
    assert np.array_equal(found, ddx.T @ dy)


@pytest.mark.parametrize("extents", [(1, 3), (1, 10), (2, 10), (10, 2), (5, 7)])
def test_the_largest_of_many_is_that_of_the_largest_of_few(extents):
    op = operator_of("y[n] max= x[n,a,b]", n=3, a=extents[0], b=extents[1])
    x = np.random.default_rng(0).permutation(3 * prod(extents)).reshape(3, *extents)
    found = x.astype(float)
    for stage in extremes_of_few(op, 4):
        assert prod(stage.extents[a] for a in stage.gathered) <= 4
        found = stage.reference(found)
    assert np.array_equal(found, x.max(axis=(1, 2)))


@pytest.mark.parametrize(
    ("text", "dtype", "expected"),
    [
        ("y[n] max= x[k] if i[n] == j[k] else 0 - 1", "i32,i32,f64:f64", [5, 9, -1]),
        ("y[n] max= x[k] * (i[n] + j[k])", "f64,i32,i32:f64", [54, 72, 99]),
    ],
)
def test_elements_of_several_types_are_compared_in_the_type_of_the_result(text, dtype, expected):
    op = operator_of(text, n=3, k=10, dtype=dtype)
    x, i, j = np.arange(10.0), np.array([2, 4, 7], np.int32), np.arange(10, dtype=np.int32) // 2
    first, *others = extremes_of_few(op, 4)
    found = first.reference(*((i, j, x) if dtype[0] == "i" else (x, i, j)))
    for stage in others:
        assert stage.dtype == "f64"
        found = stage.reference(found)
    assert found.tolist() == expected


def test_an_operand_that_does_not_matter_has_no_gradient():
    assert gradient(operator_of("y[i] = x[i] + 0 * w[i]", i=3), 1) == ()


def test_the_largest_needs_the_result():
    with pytest.raises(ShapeError) as refused:
        gradient(operator_of("y[i] max= x[i,j]", i=3, j=2), 0)
    assert str(refused.value) == (
        "y[i] max= x[i,j]; i=3, j=2: the gradient needs the numbers of the result; write the "
        "gather and what finishes it as definitions of their own"
    )
