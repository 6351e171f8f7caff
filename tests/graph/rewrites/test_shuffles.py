"""A reshape, a transpose and a reshape that shuffle channels are one operator; slices join it."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.definitions import with_shuffles
from tilewright.ops import Reshape, Shuffle, Slice, Transpose

SHAPE = (2, 12, 3, 5)


def shuffled(
    split: tuple[int, ...] = (2, 2, 6, 3, 5),
    order: tuple[int, ...] = (0, 2, 1, 3, 4),
    start: int = 6,
    count: int = 6,
) -> Network:
    """Channels in other places, and some of them."""
    net = NetworkBuilder("shuffled", "f64")
    x = net.apply(Reshape(SHAPE, split), net.input("x", SHAPE), name="cut")
    turn = Transpose(split, order)
    x = net.apply(turn, x, name="turn")
    x = net.apply(Reshape(turn.out_shape, SHAPE), x, name="join")
    some = Slice(SHAPE, (0, start, 0, 0), (2, count, 3, 5), (1, 1, 1, 1))
    return net.build((x, net.apply(some, x, name="some")))


def test_both_are_shuffles_of_what_is_reshaped() -> None:
    network = shuffled()
    found = with_shuffles(network)
    assert [node.op for node in found.nodes] == [
        Shuffle(SHAPE, 1, 2, 0, 6),
        Shuffle(SHAPE, 1, 2, 3, 3),
    ]
    given = {"x": np.arange(360.0).reshape(SHAPE)}
    for own, expected in zip(
        found.evaluate(given).values(), network.evaluate(given).values(), strict=True
    ):
        np.testing.assert_array_equal(own, expected)


@pytest.mark.parametrize(("start", "count"), [(3, 6), (4, 3)])
def test_slices_of_unequal_shares_stay(start: int, count: int) -> None:
    kinds = [node.op.kind for node in with_shuffles(shuffled(start=start, count=count)).nodes]
    assert kinds == ["shuffle", "slice"]


@pytest.mark.parametrize(
    ("split", "order"),
    [
        ((2, 2, 6, 3, 5), (0, 1, 2, 4, 3)),
        ((2, 2, 6, 15), (0, 2, 1, 3)),
        ((2, 2, 6, 3, 5), (1, 2, 0, 3, 4)),
        ((4, 6, 3, 5), (1, 0, 2, 3)),
    ],
)
def test_other_moves_stay(split: tuple[int, ...], order: tuple[int, ...]) -> None:
    network = shuffled(split, order)
    assert with_shuffles(network) is network
