"""The paper's layers as networks, and the numbers that it prints."""

from __future__ import annotations

import pytest

from tilewright.machine import load_machine
from tilewright.papers.dla_al import figure10
from tilewright.papers.dla_al.benchmarks import (
    Layer,
    PrintedNumber,
    paper_network,
    published,
    published_layers,
)
from tilewright.papers.dla_al.layers import LAYERS
from tilewright.papers.lab import Lab
from tilewright.papers.published import read_published

ELEMENTS = load_machine("dla-al").core.elements or ""


@pytest.mark.parametrize("layer", published_layers(), ids=lambda layer: layer.name)
def test_a_layer_has_the_shapes_of_the_table(layer: Layer) -> None:
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
