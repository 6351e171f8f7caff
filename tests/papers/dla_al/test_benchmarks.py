"""The paper's layers as networks, and the numbers that it prints."""

from __future__ import annotations

import re

import pytest

from tilewright.graph.zoo import network as zoo_network
from tilewright.machine import load_machine
from tilewright.papers.dla_al import backward, segments, tables
from tilewright.papers.dla_al.benchmarks import (
    LayerRow,
    other_numbers,
    paper_network,
    printed,
    published_layers,
)
from tilewright.papers.dla_al.layers import LAYERS
from tilewright.papers.dla_al.versions import Version, figure10
from tilewright.papers.dla_al.wholes import alexnet, vgg16_blocks
from tilewright.papers.lab import Lab
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
    assert [*LAYERS] == [layer.name for layer in published_layers()]


def test_numbers_of_the_text_and_of_the_conclusion_agree() -> None:
    rows = other_numbers()
    text = {(r.subject, r.against, r.direction): r.value for r in rows if r.place == "4.1"}
    again = [r for r in rows if r.place == "6" and r.unit == "times"]
    assert len(again) == 6
    assert all(text[r.subject, r.against, r.direction] == r.value for r in again)
    assert printed("conv3", "hand-optimised") == printed("worst case", "hand-optimised") == 0.74
    assert printed("fc1", "hand-optimised") is None


def test_automatic_schedules_are_no_slower_than_blocks() -> None:
    """A fully connected layer waits for its weights in both."""
    rows = {row.name: row for row in figure10(Lab(quick=True)).rows}
    ours = rows["fc3: automatic over blocks, forward"].ours
    assert ours is not None
    assert 0.85 < ours <= 1
    assert rows["mean of ten: hand-optimised over blocks, backward"].published == 0.96
    assert [name for name in rows if name.startswith(("FC", "worst"))] == [
        f"{of}: hand-optimised over blocks, forward" for of in ("FC", "worst case")
    ]


def test_the_tables_of_the_paper() -> None:
    """The networks and programs that are timed have its numbers; of its blocks the gradients of
    arithmetic are missing, which are other arithmetic; the program of Fig. 2 is shorter.
    """
    rows = tables.run(Lab()).rows
    differing = [row for row in rows if row.ours is not None and row.ours != row.published]
    assert [(row.name, row.published, row.ours) for row in differing] == [
        ("Table 1: Math, training", 11, 0),
        ("4.2: lines of two FC layers", 15, 11),
        ("4.2: lines of two FC layers", 3.33, 5.18),
    ]
    assert len(rows) == 99


def test_at_the_segments_of_a_block_the_automatic_schedule_is_no_slower() -> None:
    """Than the block in the hand-optimised order, and its own order is the best one."""
    found = segments.at_equal_segments(Version("fc3", "hand-optimised"))
    assert found.automatic <= found.hand
    assert found.order is not None
    assert found.order[0] == found.order[1]


def test_weights_that_a_block_keeps_are_no_more_than_the_scratchpad_holds() -> None:
    """288 Ki elements of two bytes; where they are too many, two segments of 36 Ki."""
    program = segments.program_of_blocks("conv2", "forward")
    for capacity, kept in ((589_824, 294_912), (589_824 - 128, 73_728)):
        changed = {f"memory.{segments.MATRIX}.capacity_bytes": str(capacity)}
        sizes, found = segments._segments(program, load_machine(segments.PAPER_MACHINE, changed))
        assert (found, sizes) == (kept, {100_352: 1_792, 2_359_296: 36_864})


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


@pytest.mark.parametrize("program", [alexnet, vgg16_blocks])
def test_segments_divide_the_channels_and_are_those_of_the_next_layer(program) -> None:
    pattern = r"@synapse \w+, (\d+), \d+, \d+, (\d+), (\d+), \d+, \d+, (\d+)"
    before = (3, 3)
    for maps, depth, part, segment in (map(int, s) for s in re.findall(pattern, program())):
        assert (depth, segment) == before
        assert maps % part == 0
        before = maps, part


@pytest.mark.parametrize("row", published_layers(), ids=lambda row: row.name)
def test_a_block_takes_and_makes_what_the_table_says(row: LayerRow) -> None:
    found = dict(re.findall(r"@neuron (\w+), ((?:\d+, ){3}\d+)", LAYERS[row.name]))
    sides = {"x": row.in_side or 1, "y": row.out_side or 1}
    for name, maps in (("x", row.in_maps), ("y", row.out_maps)):
        assert [int(n) for n in found[name].split(", ")] == [1, sides[name], sides[name], maps]


@pytest.mark.parametrize(
    "row", [row for row in published_layers()[:10] if row.kind == "conv"], ids=lambda row: row.name
)
def test_a_gradient_of_a_convolution_takes_what_the_table_says(row: LayerRow) -> None:
    program = backward.BACKWARD[row.name]
    found = dict(re.findall(r"@neuron (\w+), \d+, (\d+, \d+, \d+),", program))
    assert found["x"] == found["din"] == f"{row.in_side}, {row.in_side}, {row.in_maps}"
    assert found["dout"] == f"{row.out_side}, {row.out_side}, {row.out_maps}"


def test_the_images_of_alexnet_are_as_large_as_those_of_the_network() -> None:
    """Behind each convolution and pooling; the sixth layer's windows are whole images."""
    found = re.findall(r"@neuron [cp]\d, 1, (\d+), \1, (\d+),", alexnet())
    made = zoo_network("alexnet", 1).tensors.values()
    sides = {(str(t.shape[2]), str(t.shape[1])) for t in made if len(t.shape) == 4}
    assert set(found) - {("1", "4096")} <= sides
    assert ("6", "256") in found
    assert "@synapse w6, 4096, 6, 6, 256," in alexnet()
