"""Gradients of the largest of a few elements: planes on the device, against the meaning."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.gradient import with_gradients
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.fixed_point import FixedPoint
from tilewright.graph.training import for_fixed_point
from tilewright.machine import load_machine
from tilewright.ops import max_pool2d
from tilewright.targets.cambricon.rewrites import with_planes
from tilewright.targets.cambricon.vector_steps import vector_steps_of

SHAPE = (2, 5, 6, 8)


def gradient_of_pooling(*, keeps_result: bool) -> Network:
    """A pooling of windows of four, and its gradient by the images."""
    net = NetworkBuilder("pooled", "f64")
    x = net.input("x", SHAPE)
    y = net.apply(max_pool2d(SHAPE, 2), x, name="y")
    dy = net.input("dy", net.shape(y))
    whole, found = with_gradients(net.build((y,)), {y: dy}, ["x"])
    own = NetworkBuilder("gradient", "f64")
    for tensor in whole.inputs:
        own.input(tensor.name, tensor.shape)
    for node in whole.nodes:
        own.apply(node.op, *node.inputs, name=node.name, output=node.output)
    made = own.build((found["x"], *([y] if keeps_result else [])))
    return FixedPoint(load_machine("dla-al").core.elements or "").apply(for_fixed_point(made))


@pytest.mark.parametrize("keeps_result", [False, True])
def test_device_has_the_bits_of_the_meaning(keeps_result: bool) -> None:
    """Among few numbers the largest is often there several times: the first one takes all."""
    network, random = gradient_of_pooling(keeps_result=keeps_result), np.random.default_rng(3)
    given = {
        "x": (random.integers(-1, 2, SHAPE) << 8).astype(np.int16),
        "dy": random.integers(-(1 << 15), 1 << 15, network.tensors["dy"].shape, np.int16),
    }
    found, wanted = tw.compile(network, machine="dla-al").run(**given), network.evaluate(given)
    for name in network.outputs:
        np.testing.assert_array_equal(found[name], wanted[name], strict=True)


def test_each_plane_is_read_once_and_the_result_where_it_is_made() -> None:
    network = gradient_of_pooling(keeps_result=True)
    readers = [n.name for n in with_planes(network).nodes if "x" in n.inputs]
    (chosen,) = (n for n in with_planes(network).nodes if n.name.endswith("_chosen"))
    assert readers == ["y", "d_x_given_0", "d_x_given_1", "d_x_given_2"]
    assert "y" in chosen.inputs


@pytest.mark.parametrize(
    ("expression", "instructions"),
    [
        ("x0 if x1 > 0.5 else 0", ["vgt", "vmv"]),
        ("0 if x1 > x0 else x0", ["vgt", "vnot", "vmv"]),
        ("0 if x1 >= x0 else x0", ["vgt", "vmv"]),
        ("x0 if x1 == x1 else 0", ["vmove"]),
    ],
)
def test_a_choice_between_a_number_and_zero_is_a_product(
    expression: str, instructions: list[str]
) -> None:
    assert [step.mnemonic for step in vector_steps_of(expression, 2, 8).steps] == instructions
