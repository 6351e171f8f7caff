"""Gradients of convolutions with strides by phases: on the device, against the meaning."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.gradient import with_gradients
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.fixed_point import FixedPoint
from tilewright.graph.rewriting import simplified
from tilewright.graph.training import for_fixed_point
from tilewright.machine import load_machine
from tilewright.ops import conv2d
from tilewright.targets.cambricon.rewrites import with_phases

MACHINE = load_machine("dla-al")


def gradients(images: int, side: int, kernel: int, stride: int, padding: int) -> Network:
    """Those of a convolution of 3 channels and 5 results, by images and by weights."""
    net = NetworkBuilder("convolution", "f64")
    conv = conv2d(batch=images, in_channels=3, out_channels=5, height=side, width=side - stride,
                  kernel=kernel, stride=stride, padding=padding)  # fmt: skip
    x, w = net.input("x", conv.input_shapes[0]), net.input("w", conv.input_shapes[1])
    y = net.apply(conv, x, w, name="y")
    dy = net.input("dy", net.shape(y))
    whole, found = with_gradients(net.build((y,)), {y: dy}, ["x", "w"])
    own = NetworkBuilder("gradients", "f64")
    for tensor in whole.inputs:
        own.input(tensor.name, tensor.shape)
    for node in whole.nodes:
        own.apply(node.op, *node.inputs, name=node.name, output=node.output)
    made = own.build((found["x"], found["w"]))
    return FixedPoint(MACHINE.core.elements or "").apply(simplified(for_fixed_point(made)))


@pytest.mark.parametrize(
    ("images", "side", "kernel", "stride", "padding"),
    [(1, 35, 11, 4, 0), (1, 24, 7, 2, 3), (3, 12, 3, 2, 1)],
)
def test_device_has_the_bits_of_the_meaning(
    images: int, side: int, kernel: int, stride: int, padding: int
) -> None:
    """Of phases with as many taps as others, with fewer, and with none."""
    network = gradients(images, side, kernel, stride, padding)
    random = np.random.default_rng(7)
    given = {t.name: random.integers(-200, 200, t.shape).astype(np.int16) for t in network.inputs}
    wanted = network.evaluate(given)
    by_phases = with_phases(network, MACHINE).evaluate(given)
    found = tw.compile(network, machine="dla-al").run(**given)
    for name in network.outputs:
        np.testing.assert_array_equal(by_phases[name], wanted[name], strict=True)
        np.testing.assert_array_equal(found[name], wanted[name], strict=True)


def test_one_convolution_makes_all_phases_and_none_has_gaps() -> None:
    made = with_phases(gradients(1, 59, 11, 4, 0), MACHINE)
    convolutions = [n.op.describe() for n in simplified(made).nodes if n.op.convolution]
    assert convolutions == [
        "conv2d 1x5x13x12 -> 48, 3x3 s1 p2",
        "conv2d 48x1x15x14 -> 5, 13x12 s1 p0",
    ]


@pytest.mark.parametrize(
    ("channels", "more"), [(3, {}), (6, {"dilation": 2, "groups": 3}), (3, {"stride": 2})]
)
def test_convolutions_whose_taps_have_no_gaps_stay_as_they_are(
    channels: int, more: dict[str, int]
) -> None:
    """Taps beside each other, of groups, and with strides: 25 for a place of six results."""
    net = NetworkBuilder("convolution", "f64")
    conv = conv2d(batch=1, in_channels=channels, out_channels=6, height=9, width=9, kernel=5,
                  **more)  # fmt: skip
    net.apply(conv, *map(net.input, "xw", conv.input_shapes), name="y", output="y")
    network = net.build(("y",))
    assert with_phases(network, MACHINE) == network
