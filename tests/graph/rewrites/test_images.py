"""Networks that stay as they are where their images are not divided."""

from __future__ import annotations

import pytest

from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.images import fewer_images
from tilewright.graph.rewrites.over_groups import over_groups
from tilewright.graph.training import Optimiser, training_step
from tilewright.ops import Unary, gemm


def layers(images: int) -> Network:
    """A product with a function of weights."""
    net = NetworkBuilder("layers", "f64")
    x, w = net.input("x", (images, 6)), net.weight("w", (6, 4))
    v = net.apply(Unary("tanh", (6, 4)), w, name="v")
    return net.build((net.apply(gemm(images, 4, 6), x, v, name="y"),))


def test_fewer_images_are_those_of_each_tensor_that_has_them() -> None:
    found = fewer_images(layers(4), 2)
    assert {name: t.shape for name, t in found.tensors.items()} == {
        "x": (2, 6), "w": (6, 4), "v": (6, 4), "y": (2, 4),
    }  # fmt: skip


@pytest.mark.parametrize("count", [4, 5])
def test_no_fewer_images_are_all(count: int) -> None:
    network = layers(4)
    assert fewer_images(network, count) is network
    step = training_step(layers(4), Optimiser("sgd"))
    assert fewer_images(step, 2) is step


@pytest.mark.parametrize("groups", [1, 3, 8])
def test_images_are_divided_among_several_groups_that_have_equally_many(groups: int) -> None:
    step = training_step(layers(4), Optimiser("sgd"))
    assert over_groups(step, groups) is step
    assert over_groups(step, 2).inputs[0].shape == (2, 6)
