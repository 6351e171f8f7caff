"""A network of one product and examples that it separates, quick to train."""

import numpy as np

from tilewright.graph.builder import NetworkBuilder
from tilewright.ops import Bias, gemm
from tilewright.training import Examples


def linear(images=16, features=4, name="linear"):
    """Scores of three classes: a product and a bias, with small numbers to begin with."""
    net = NetworkBuilder(name, "f32")
    x, w = net.input("x", (images, features)), net.weight("w", (3, features))
    b = net.weight("b", (3,))
    op = gemm(images, 3, features, transpose_b=True, dtype="f32")
    y = net.apply(op, x, w, name="product")
    scores = net.apply(Bias((images, 3), 1, dtype="f32"), y, b, name="scores", output="scores")
    start = 0.1 * np.random.default_rng(3).standard_normal((3, features))
    return net.build((scores,), {"w": start.astype("f4"), "b": np.zeros(3, "f4")})


def blobs(count, seed, features=4):
    """Points around three corners."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    points = 2 * np.eye(3, features)[labels] + 0.1 * rng.standard_normal((count, features))
    return Examples(points.astype("f4"), labels)
