"""Layouts are chosen for the whole network: what neighbours have counts."""

from __future__ import annotations

import math

import pytest

from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.machine import load_machine
from tilewright.network.form import Form, StoredDim, canonical
from tilewright.ops import Conv2d, Unary, conv2d, relu
from tilewright.seeds.space import seeds_for
from tilewright.targets.host.network.fuse import grouped
from tilewright.targets.host.network.layouts import Layouts, Way
from tilewright.tune.candidate import Candidate

SHAPE = (1, 32, 28, 28)


def form(*order: int) -> Form:
    return canonical(SHAPE, [StoredDim(axis, 1, SHAPE[axis]) for axis in order], (0,) * 4)


PIXELS, CHANNELS = form(1, 2, 3), form(2, 3, 1)


def layer(kernel: int) -> Conv2d:
    return conv2d(
        batch=1, in_channels=32, out_channels=32, height=28, width=28, kernel=kernel,
        padding=kernel // 2, dtype="f32",
    )  # fmt: skip


def chain() -> Network:
    net = NetworkBuilder("chain", "f32")
    x = net.input("x", SHAPE)
    for number, kernel in enumerate((1, 3, 5)):
        op = layer(kernel)
        x = net.apply(op, x, net.weight(f"w{number}", op.input_shapes[1]), name=f"c{number}")
        x = net.apply(relu(SHAPE, dtype="f32"), x, name=f"r{number}")
    return net.build((x,))


def way(op: Conv2d, own: Form, seconds: float) -> Way:
    (seed,) = seeds_for(op, "implicit")
    return Way(Candidate(op, seed, ()), {"x": own, "w": own, "y": own}, seconds)


@pytest.mark.parametrize(("gain", "middle"), [(1e-7, CHANNELS), (1.0, PIXELS)])
def test_a_product_between_others_takes_their_layout_unless_its_own_gains_more(
    gain: float, middle: Form
) -> None:
    network = chain()
    ways = {op: [way(op, CHANNELS, 2.0), way(op, PIXELS, 2.0 + 1e-2)] for op in map(layer, (1, 5))}
    ways[layer(3)] = [way(layer(3), PIXELS, 2.0), way(layer(3), CHANNELS, 2.0 + gain)]
    weights = {tensor.name for tensor in network.weights}
    layouts = Layouts(grouped(network), load_machine("host"), weights)
    found = layouts.chosen(ways)
    assert found[layer(3)].forms["x"] == middle
    fastest = {op: own[0] for op, own in ways.items()}
    assert layouts.seconds(found) <= layouts.seconds(fastest)


def followed_by(op: Unary) -> Network:
    net = NetworkBuilder("one", "f32")
    x, product = net.input("x", SHAPE), layer(3)
    y = net.apply(product, x, net.weight("w", product.input_shapes[1]), name="c")
    return net.build((net.apply(op, y, name="f"),))


@pytest.mark.parametrize(
    ("op", "passes"), [(relu(SHAPE, dtype="f32"), 0), (Unary("tanh", SHAPE, dtype="f32"), 1)]
)
def test_only_what_a_kernel_cannot_finish_costs_a_pass(op: Unary, passes: int) -> None:
    network, machine = followed_by(op), load_machine("host")
    layouts = Layouts(grouped(network), machine, {"w"})
    copy = (
        4
        * math.prod(SHAPE)
        * sum(1 / way.peak_bytes_per_second for way in (machine.dma.get, machine.dma.put))
    )
    found = layouts.seconds({layer(3): way(layer(3), PIXELS, 2.0)})
    assert found == pytest.approx(2.0 + passes * copy, rel=1e-12)
