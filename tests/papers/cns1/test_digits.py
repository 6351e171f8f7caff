"""Digits: scaled arithmetic learns, the literal one does not, and nodes have the same bits."""

import numpy as np
import pytest

from support.examples import one_in
from tilewright.common.digits import handwritten_digits
from tilewright.papers.cns1.digits import (
    Trial,
    _accuracy,
    _digits,
    accuracy,
    bits_agree,
    first_weights,
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
