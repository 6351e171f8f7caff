"""A convolution of the rows or columns of images between transposes is one of the images."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.definitions import lines_of_images
from tilewright.ops import Conv2d, Reshape, Transpose

INTO = {"rows": (0, 2, 1, 3), "columns": (0, 3, 1, 2)}
BACK = {"rows": (0, 2, 1, 3), "columns": (0, 2, 3, 1)}


def lines(kind: str, back: tuple[int, ...], length: int) -> Network:
    """Images of 4 rows and 5 columns, of which each line has `length` elements."""
    net, count = NetworkBuilder("lines", "f64"), 20 // length
    x, w = net.input("x", (2, 3, 4, 5)), net.weight("w", (6, 3, 1, 3))
    x = net.apply(Transpose((2, 3, 4, 5), INTO[kind]), x, name="turn")
    x = net.apply(Reshape((2, count, 3, length), (2 * count, 3, 1, length)), x, name="join")
    conv = Conv2d(2 * count, 3, 6, 1, length, (1, 3), (1, 1), (0, 1, 0, 1))
    x = net.apply(conv, x, w, name="conv")
    x = net.apply(Reshape((2 * count, 6, 1, length), (2, count, 6, length)), x, name="split")
    return net.build((net.apply(Transpose((2, count, 6, length), back), x, name="back"),))


@pytest.mark.parametrize(("kind", "length"), [("rows", 5), ("columns", 4)])
def test_lines_are_those_of_images(kind: str, length: int) -> None:
    network = lines(kind, BACK[kind], length)
    found = lines_of_images(network)
    convolutions = [node.op for node in found.nodes if node.op.convolution is not None]
    assert [op.input_shapes[0] for op in convolutions] == [(2, 3, 4, 5)]
    assert len(found.nodes) == (1 if kind == "rows" else 2)
    draw = np.random.default_rng(0).integers
    given = {"x": draw(-5, 6, (2, 3, 4, 5)), "w": draw(-5, 6, (6, 3, 1, 3))}
    given = {name: values.astype(float) for name, values in given.items()}
    for own, expected in zip(
        found.evaluate(given).values(), network.evaluate(given).values(), strict=True
    ):
        np.testing.assert_array_equal(own, expected)


@pytest.mark.parametrize(("kind", "length"), [("rows", 5), ("columns", 4)])
def test_images_that_are_turned_otherwise_stay_lines(kind: str, length: int) -> None:
    network = lines(kind, (0, 1, 2, 3), length)
    assert lines_of_images(network) is network
