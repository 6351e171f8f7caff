"""The paper's layers as networks, and the numbers that it prints."""

from __future__ import annotations

import re

import pytest

from tilewright.graph.zoo import network as zoo_network
from tilewright.machine import load_machine
from tilewright.papers.dla_al import backward, figure10, segments
from tilewright.papers.dla_al.benchmarks import (
    LayerRow,
    PrintedNumber,
    paper_network,
    published,
    published_layers,
)
from tilewright.papers.dla_al.figure10 import vgg16_blocks
from tilewright.papers.dla_al.layers import LAYERS
from tilewright.papers.lab import Lab
from tilewright.papers.published import read_published
from tilewright.simulate.window.memories import ElementRange

ELEMENTS = load_machine("dla-al").core.elements or ""


@pytest.mark.parametrize("layer", published_layers(), ids=lambda layer: layer.name)
def test_a_layer_has_the_shapes_of_the_table(layer: LayerRow) -> None:
    network = paper_network(layer, ELEMENTS)
    made = network.tensors[network.outputs[0]].shape
    side = (layer.out_side,) * 2 if layer.kind in ("conv", "pool", "lrn") else ()
    assert made == (1, layer.out_maps, *side)
    assert network.tensors[network.outputs[0]].dtype == "q8.8"


def test_every_layer_has_blocks() -> None:
    assert [layer.name for layer in LAYERS] == [layer.name for layer in published_layers()]


def test_numbers_of_the_text_and_of_the_conclusion_agree() -> None:
    rows = read_published("dla_al", "numbers", PrintedNumber).rows
    text = {(r.subject, r.against, r.direction): r.value for r in rows if r.place == "4.1"}
    again = [r for r in rows if r.place == "6" and r.unit == "times"]
    assert len(again) == 6
    assert all(text[r.subject, r.against, r.direction] == r.value for r in again)
    assert published("conv3", "hand-optimised") == 0.74


def test_automatic_schedules_are_no_slower_than_blocks() -> None:
    """A fully connected layer waits for its weights in both."""
    row, *_ = figure10.run(Lab(quick=True)).rows
    assert row.name == "fc3: automatic over blocks"
    assert row.ours is not None
    assert 0.85 < row.ours <= 1


def test_at_the_segments_of_a_block_the_automatic_schedule_is_no_slower() -> None:
    """Than the block in the hand-optimised order, and its own order is the best one."""
    machine, block = load_machine("dla-al"), next(x for x in LAYERS if x.name == "fc3")
    layer = next(x for x in published_layers() if x.name == "fc3")
    network = segments.in_direction(layer, "forward", ELEMENTS)
    ratio, order = segments.layer_rows(block, network, "forward", machine)
    assert (ratio.name, order.name) == (
        "fc3, forward: automatic over hand-optimised",
        "fc3, forward: order over the best",
    )
    assert ratio.ours is not None
    assert ratio.ours <= 1
    assert order.ours == 1


def test_the_best_order_loads_ahead() -> None:
    """Of two tiles in turn, each loaded and then computed, it loads the second beside the first's
    computation.
    """
    machine = load_machine("dla-al")
    tiles = [(ElementRange("vector", n, 1), ElementRange("vector", 10 + n, 1)) for n in (0, 1)]
    own = [
        step
        for given, made in tiles
        for step in (
            segments.TimedOperation("TRANSFER", 100, (), (given,)),
            segments.TimedOperation("MATRIX", 80, (given,), (made,)),
            segments.TimedOperation("VECTOR", 10, (made,), (made,)),
        )
    ]
    assert segments.ordered_cycles(own, 2) == 370
    assert segments.best_cycles(own, machine) == 290


def test_gradients_read_what_the_layer_made() -> None:
    """Sums of squares and the largest of windows are made by nodes that do not count: blocks are
    given them.
    """
    layers = {layer.name: layer for layer in published_layers()}
    network = backward.gradient_network(layers["lrn"], ELEMENTS)
    made = [n.name for n in network.nodes if n.name.startswith(backward.FORWARD)]
    assert made == ["forward_of_y_0"]
    network = backward.gradient_network(layers["pool1"], ELEMENTS)
    made = [n.name for n in network.nodes if n.name.startswith(backward.FORWARD)]
    assert made == ["forward_of_y"]
    assert network.tensors[network.outputs[0]].shape == (1, 512, 28, 28)


def test_the_program_of_vgg16_has_the_weights_of_the_network() -> None:
    """Its first layer of features is a convolution with kernels as large as the image."""
    found = re.findall(r"@synapse \w+, (\d+), (\d+), (\d+), (\d+),", vgg16_blocks())
    vgg16 = zoo_network("vgg16", batch=1)
    shapes = [w.shape for w in vgg16.weights if len(w.shape) > 1]
    expected = [(s[0], *s[2:], s[1]) if len(s) == 4 else (s[0], 1, 1, s[1]) for s in shapes]
    expected[13] = (4096, 7, 7, 512)
    assert [tuple(map(int, shape)) for shape in found] == expected


@pytest.mark.parametrize("row", published_layers(), ids=lambda row: row.name)
def test_a_block_takes_and_makes_what_the_table_says(row: LayerRow) -> None:
    block = next(block for block in LAYERS if block.name == row.name)
    found = dict(re.findall(r"@neuron (\w+), ((?:\d+, ){3}\d+)", block.program))
    sides = {"x": row.in_side or 1, "y": row.out_side or 1}
    for name, maps in (("x", row.in_maps), ("y", row.out_maps)):
        assert [int(n) for n in found[name].split(", ")] == [1, sides[name], sides[name], maps]
