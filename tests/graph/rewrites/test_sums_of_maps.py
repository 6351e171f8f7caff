"""Sums without the factors that leave them, and additions of maps as maps."""

import numpy as np
import pytest

from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.notation import define
from tilewright.graph.rewrites.added_maps import added_maps
from tilewright.graph.rewrites.separable_sums import joined_powers, separable_sums
from tilewright.graph.rewriting import simplified
from tilewright.graph.training import training_step
from tilewright.ops import BatchNorm, Binary, conv2d, gemm
from tilewright.ops.definition import Definition
from tilewright.ops.moves import Reshape


def one_sum(text, fill=None):
    """A network of a definition over x[4,3], y[4,3], c[3], read as `fill` beyond their borders."""
    net = NetworkBuilder("sum", "f64")
    tensors = {n: s for n, s in {"x": (4, 3), "y": (4, 3), "c": (3,)}.items() if f"{n}[" in text}
    given = {name: net.input(name, shape) for name, shape in tensors.items()}
    op = define(text, fill=fill, **tensors)
    return net.build((net.apply(op, *(given[name] for name in op.tensors[1:]), name="z"),))


def same_numbers(before, after):
    rng = np.random.default_rng(0)
    feeds = {t.name: 1 + rng.random(t.shape) for t in before.inputs}
    (expected,), (found,) = before.evaluate(feeds).values(), after.evaluate(feeds).values()
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("text", "terms", "behind"),
    [
        ("z[j] += x[i,j] * c[j]", "x0", "x0 * x1"),
        ("z[j] += x[i,j] * ((y[i,j] - c[j]) / sqrt(c[j]))", "x0 * (x1 - x2)",
         "x0 * (1.0 / sqrt(x1))"),
        ("z[j] += -(0.5 * x[i,j]) / c[j]", "x0", "x0 * ((-1.0 * 0.5) * (1.0 / x1))"),
    ],
)  # fmt: skip
def test_what_does_not_move_along_the_summed_axes_leaves_the_sum(text, terms, behind):
    before = one_sum(text)
    after = separable_sums(before)
    inner, outer = after.nodes
    assert (inner.name, inner.op.body, inner.op.gather) == ("z_terms", terms, "sum")
    assert (outer.name, outer.op.body, outer.op.gather) == ("z", behind, None)
    same_numbers(before, after)


@pytest.mark.parametrize(
    "text",
    [
        "z[j] += 0.5 * x[i,j]",
        "z[j] += x[i,j] * y[i,j]",
        "z[j] += x[i,j] + c[j]",
        "z[i] += x[i,j] * y[i,j] + y[i,j]",
        "z[j] max= x[i,j] * c[j]",
    ],
)
def test_other_sums_stay_as_they_are(text):
    before = one_sum(text)
    assert separable_sums(before) is before


def test_a_factor_that_is_read_beyond_its_border_stays_in_the_sum():
    before = one_sum("z[i] += x[i,j] * c[i-1]", fill=0.0)
    assert separable_sums(before) is before
    assert len(separable_sums(one_sum("z[i] += x[i,j] * y[i,0]", fill=0.0)).nodes) == 2


def test_sums_of_more_terms_than_asked_for_stay_as_they_are():
    before = one_sum("z[j] += x[i,j] * c[j]")
    assert separable_sums(before, 3) is before
    assert len(separable_sums(before, 4).nodes) == 2


def test_zero_times_a_finite_number_needs_no_condition():
    before = one_sum("z[j] += 0.0 if x[i,j] == 0.0 else x[i,j] * c[j]")
    assert separable_sums(before) is before
    inner, outer = separable_sums(before, finite=True).nodes
    assert (inner.op.body, outer.op.body) == ("x0", "x0 * x1")


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("z[i,j] = x[i,j] / pow(y[i,j], 0.75) / pow(y[i,j], 0.75)", "(1.0 * x0) * pow(x1, -1.5)"),
        ("z[i,j] = -(x[i,j] * pow(y[i,j], 0.5)) * pow(y[i,j], -0.25)",
         "(-1.0 * x0) * pow(x1, 0.25)"),
        ("z[i,j] = x[i,j] / pow(y[i,j], 0.75)", "x0 / pow(x1, 0.75)"),
    ],
)  # fmt: skip
def test_powers_of_one_base_are_one(text, body):
    before = one_sum(text)
    after = joined_powers(before)
    assert after.nodes[0].op.body == body
    same_numbers(before, after)


def added(last, *, outputs=()):
    net = NetworkBuilder("added", "f64")
    x, c = net.input("x", (4, 3)), net.input("c", (3,))
    shapes = {"x": (4, 3), "c": (3,)}
    a = net.apply(define("a[i,j] = x[i,j] * c[j]", **shapes), x, c, name="a")
    b = net.apply(define("b[i,j] = exp(x[i,j])", x=(4, 3)), x, name="b")
    y = net.apply(Binary(last, (4, 3), (4, 3)), a, b, name="y")
    return net.build((y, *outputs))


def test_an_addition_of_maps_is_a_map():
    before = added("add")
    after = added_maps(before)
    (node,) = after.nodes
    assert (node.op.body, node.inputs) == ("x0 * x1 + exp(x0)", ("x", "c"))
    same_numbers(before, after)


@pytest.mark.parametrize("before", [added("mul"), added("add", outputs=("a",))])
def test_who_reads_a_map_besides_keeps_it(before):
    assert added_maps(before) is before


def test_a_normalisation_takes_two_sums_and_a_map_backwards():
    net, shape = NetworkBuilder("normalised", "f64"), (4, 2, 3, 3)
    op = conv2d(batch=4, in_channels=2, out_channels=2, height=3, width=3, kernel=1)
    y = net.apply(op, net.input("x", shape), net.weight("v", op.input_shapes[1]), name="conv")
    weights = [net.weight(name, (2,)) for name in ("scale", "shift", "mean", "variance")]
    y = net.apply(BatchNorm(shape), y, *weights, name="norm")
    y = net.apply(Reshape(shape, (4, 18)), y, name="flat")
    y = net.apply(gemm(4, 3, 18, transpose_b=True), y, net.weight("w", (3, 18)), name="scores")
    step = training_step(net.build((y,)))
    simple = simplified(step)
    backward = [n for n in simple.nodes if n.name.startswith("d_") and isinstance(n.op, Definition)]
    large = [n for n in backward if n.op.extents == shape]
    sums = [n.name for n in large if n.op.gather == "sum"]
    assert sums == ["d_scale_terms", "d_shift"]
    assert [n.name for n in large if n.op.gather is None] == ["d_scale_terms_1", "d_conv_sum_2"]
