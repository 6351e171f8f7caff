"""Networks on all nodes: the fixed-point reference's bits, and times near the closed form."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.cns1_small import RATE, SHIFT, TABLE, drawn, recalled, small_machine, trained
from tilewright.common.errors import CapacityError
from tilewright.machine import load_machine
from tilewright.targets.cns1.nodes.network import parts, recall, train
from tilewright.targets.cns1.timing.layers import Layers

SMALL = small_machine()
LAYERS = Layers(256, 256, 512)
SIZES = st.builds(
    Layers,
    inputs=st.integers(2, 12).map(lambda n: 16 * n),
    hidden=st.integers(2, 4).map(lambda n: 256 * n),
    outputs=st.integers(1, 2).map(lambda n: 512 * n),
)


@settings(max_examples=4, deadline=None)
@given(SIZES, st.integers(1, 2), st.integers(0, 1000))
def test_recall_gives_the_reference_to_the_bit(layers, patterns, seed):
    given = drawn(layers, patterns, seed)
    found = recall(SMALL, given.weights, given.inputs, TABLE, SHIFT)
    assert (found.outputs == recalled(given)).all()


@settings(max_examples=4, deadline=None)
@given(SIZES, st.integers(0, 1000))
def test_training_gives_the_reference_to_the_bit(layers, seed):
    given = drawn(layers, 1, seed)
    found = train(SMALL, given.weights, given.inputs[0], given.wanted, TABLE, SHIFT, RATE)
    wanted = trained(given)
    assert (found.weights.outputs == wanted.outputs).all()
    assert (found.weights.hidden == wanted.hidden).all()


@pytest.mark.parametrize("gap", [0, 40])
def test_the_fabric_s_numbers_change_times_and_no_value(gap):
    given = drawn(LAYERS, 2, 1)
    usual = recall(SMALL, given.weights, given.inputs, TABLE, SHIFT)
    slower = small_machine(**{"fabrics.torrents.gap_cycles": gap})
    found = recall(slower, given.weights, given.inputs, TABLE, SHIFT)
    assert (found.outputs == usual.outputs).all()
    assert (found.run.cycles > usual.run.cycles) == (gap > 1)


def test_vectors_that_exceed_the_data_cache_are_refused_with_their_bytes():
    given = drawn(Layers(8192, 256, 512), 2, 0)
    with pytest.raises(
        CapacityError,
        match=r"^activations and results take 4224 bytes of the data cache of a node, which has "
        r"4096; divide the network over more nodes$",
    ):
        recall(SMALL, given.weights, given.inputs, TABLE, SHIFT)


def test_the_parts_are_those_of_figure_3_2():
    """Four neighbouring columns share inputs; every fourth node of a ring the hidden nodes."""
    machine = load_machine("cns1-128")
    found = parts(machine, Layers(1024, 1024, 512))
    assert {n for n, part in enumerate(found) if part.inputs == found[0].inputs} == {
        32 * row + column for row in range(4) for column in range(4)
    }
    assert {n for n, part in enumerate(found) if part.hidden == found[33].hidden} == {
        32 + column for column in range(1, 32, 4)
    }
