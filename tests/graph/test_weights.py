"""Random weights keep activations as large as they are."""

from __future__ import annotations

import numpy as np

from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.weights import FirstOf, RandomWeights, in_parts, random_weights
from tilewright.ops import BatchNorm, Conv2d, gemm


def test_what_normalises_is_between_a_half_and_one_other_weights_are_about_zero() -> None:
    net = NetworkBuilder("layers", "f64")
    x, w = net.input("x", (2, 64, 5, 5)), net.weight("w", (200, 64, 3, 3))
    y = net.apply(Conv2d(2, 64, 200, 5, 5, (3, 3), (1, 1), (1, 1, 1, 1)), x, w, name="conv")
    names = ("scale", "shift", "mean", "variance")
    own = [net.weight(name, (200,)) for name in names]
    y = net.apply(BatchNorm((2, 200, 5, 5)), y, *own, name="norm")
    found = random_weights(net.build((y,)))
    for name in ("scale", "variance"):
        assert 0.5 <= found[name].min() < 0.55 < 0.95 < found[name].max() < 1
    for name, deviation in (("w", 1 / 24), ("shift", 1 / 8), ("mean", 1 / 8)):
        assert abs(found[name].mean()) < deviation / 4
        assert 0.8 < found[name].std() / deviation < 1.2
    assert all(np.array_equal(own, random_weights(net.build((y,)))[n]) for n, own in found.items())


def test_weights_are_drawn_one_after_the_other_however_they_are_looked_up() -> None:
    shapes = {"first": (600, 500), "narrow": (3, 5), "second": (500, 2)}
    net = NetworkBuilder("products", "f64")
    x = net.input("x", (1, 600))
    for name, shape in shapes.items():
        net.weight(name, shape, "i8" if name == "narrow" else "f64")
    y = net.apply(gemm(1, 500, 600), x, "first", name="middle")
    network = net.build((net.apply(gemm(1, 2, 500), y, "second", name="y"),))
    generator = np.random.default_rng(7)
    drawn = {
        "first": generator.standard_normal((600, 500)) / np.sqrt(500),
        "narrow": generator.integers(-15, 15, (3, 5), np.int8),
        "second": generator.standard_normal((500, 2)) / np.sqrt(2),
    }
    for names in (shapes, reversed(shapes), ("narrow", *shapes)):
        weights = RandomWeights(network, 7)
        for name in names:
            assert weights[name].dtype == drawn[name].dtype
            np.testing.assert_array_equal(weights[name], drawn[name])
    parts = [*in_parts(FirstOf({"own": drawn["second"]}, weights), "first")]
    assert len(parts) == 3
    np.testing.assert_array_equal(np.concatenate(parts), drawn["first"].ravel())


def test_the_first_source_gives_an_array() -> None:
    one, two = np.ones(1), np.full((2, 1), 2.0)
    both = FirstOf({"a": one}, {"a": two, "b": two})
    assert [*both] == ["a", "b"]
    assert both["a"] is one
    assert both["b"] is two
    assert [part.tolist() for part in in_parts(both, "b")] == [[2, 2]]
    assert both.get("c") is None
