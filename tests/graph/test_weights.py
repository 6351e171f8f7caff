"""Random weights keep activations as large as they are."""

from __future__ import annotations

import numpy as np

from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.weights import random_weights
from tilewright.ops import BatchNorm, Conv2d


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
