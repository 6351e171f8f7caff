"""Digits: scaled arithmetic learns, the literal one does not, and nodes have the same bits."""

import numpy as np
import pytest

from support.examples import one_in
from tilewright.common.digits import handwritten_digits
from tilewright.graph.tables import RATE, SCALING
from tilewright.papers.cns1.digits import (
    Digits,
    Trial,
    _accuracy,
    _digits,
    accuracy,
    bits_agree,
    first_weights,
    in_floating_point,
    recall_agrees,
)


def test_pixels_and_the_bias_have_all_bits_of_an_activation():
    digits = _digits()
    pixels, classes = handwritten_digits()
    assert np.abs(digits.inputs[:, :64] / 127 - pixels.reshape(-1, 64) / 16).max() <= 0.5 / 127
    assert (digits.inputs[:, :64].max(), *np.unique(digits.inputs[:, 64])) == (127, 127)
    assert not digits.inputs[:, 65:].any()
    assert (digits.wanted.argmax(axis=1) == digits.classes).all()
    assert (digits.classes == classes).all()


def test_scaled_arithmetic_learns_digits_and_the_literal_one_does_not():
    assert accuracy(Trial("scaled", 0)) > 96
    assert accuracy(Trial("literal", 0)) < 20


@one_in(2)
@pytest.mark.parametrize("shape", [(2, 4, 4), (1, 1, 1)], ids=["2 x 4 nodes", "1 node"])
@pytest.mark.parametrize(
    ("together", "scaled"),
    [(1, True), (2, True), (3, True), (1, False)],
    ids=["scaled", "sets of two", "sets of three", "literal"],
)
def test_nodes_learn_with_the_bits_of_the_fixed_point_network(shape, together, scaled):
    assert bits_agree(shape, 2 if together == 1 else 1, together, scaled=scaled)


@pytest.mark.parametrize("shape", [(2, 4, 4), (1, 1, 1)], ids=["2 x 4 nodes", "1 node"])
def test_nodes_recall_digits_with_the_bits_of_the_fixed_point_network(shape):
    same, _ = recall_agrees(shape, 8, first_weights(0))
    assert same


@pytest.mark.parametrize(
    ("kind", "name"),
    [(("scaled", 1), "scaled arithmetic"), (("literal", 3), "literal arithmetic, sets of 3")],
)
def test_a_row_is_the_mean_over_seeds_and_names_larger_sets(kind, name):
    row = _accuracy(kind, [95.0, 97.0])
    assert (row.name, row.ours, row.note) == (name, 96.0, "2 seeds, 95.0 to 97.0")


def test_in_floating_point_weights_go_down_the_gradient_of_the_cross_entropy():
    """By the rate that whole numbers of errors have too, twice for a pattern given twice."""
    weights, digits = first_weights(0), _digits()
    given = Digits(digits.inputs[5:6], digits.classes[5:6])
    x, wanted, unit = given.inputs[0] / 127, given.wanted[0, :10] / 127, 1 << SCALING.weight_bits

    def loss(a, b):
        made = 1 / (1 + np.exp(-(1 / (1 + np.exp(-x @ a))) @ b))
        return -np.sum(wanted * np.log(made) + (1 - wanted) * np.log(1 - made))

    start = weights.hidden / unit, weights.outputs[:, :10] / unit
    once = in_floating_point(weights, given, np.array([0]))
    rate = RATE / (1 << (SCALING.error_bits - 7))
    for which, place in ((0, (3, 7)), (0, (64, 200)), (1, (11, given.classes[0])), (1, (9, 1))):
        moved = [[m.copy() for m in start] for _ in range(2)]
        moved[0][which][place] -= 1e-4
        moved[1][which][place] += 1e-4
        slope = (loss(*moved[1]) - loss(*moved[0])) / 2e-4
        change = once[which][place] - start[which][place]
        assert change == pytest.approx(-rate * slope, rel=1e-4, abs=1e-9)
    twice = in_floating_point(weights, given, np.array([0, 0]))
    assert loss(*twice) < loss(*once) < loss(*start)


def test_first_weights_are_small_and_around_zero():
    hidden, outputs = (m / (1 << SCALING.weight_bits) for m in first_weights(0))
    for weights in (hidden, outputs[:, :10]):
        assert weights.mean() == pytest.approx(0, abs=0.01)
        assert weights.std() == pytest.approx(0.15, rel=0.05)
    assert not outputs[:, 10:].any()
    assert (first_weights(1).hidden != first_weights(0).hidden).any()
