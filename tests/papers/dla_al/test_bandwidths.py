"""The bandwidth that implies a published ratio, found between those that are simulated."""

import pytest

from tilewright.papers.dla_al import bandwidths
from tilewright.papers.lab import Lab


@pytest.mark.parametrize(
    ("ratios", "published", "wanted"),
    [
        ([0.5, 0.6, 0.7, 0.8, 0.9, 1.0], 0.7, 64.0),
        ([0.5, 0.6, 0.7, 0.8, 0.9, 1.0], 0.65, 45.0),
        ([1.4, 1.2, 1.0, 1.0, 1.0, 1.0], 1.3, 23.0),
        ([1.0, 1.1, 1.0, 1.1, 1.0, 1.0], 1.05, 181.0),
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 1.0, None),
        ([0.5, 0.6, 0.7, 0.8, 0.9, 1.0], 1.01, None),
    ],
    ids=["at one", "between", "falling", "the largest of several", "everywhere", "nowhere"],
)
def test_the_bandwidth_lies_between_neighbours(
    ratios: list[float], published: float, wanted: float | None
) -> None:
    assert bandwidths.implied(ratios, published) == wanted


def test_more_bandwidth_shortens_a_layer_until_its_products_bound_it() -> None:
    program = bandwidths.program_of_blocks("fc3", "forward")
    cycles = [cycles for cycles, _ in bandwidths._times(program)]
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[0] > 4 * cycles[-1]


def test_no_bandwidth_makes_an_order_of_fully_connected_blocks_a_percent_faster() -> None:
    (row,) = bandwidths.run(Lab(quick=True)).rows
    assert row.name == "FC: hand-optimised over blocks, forward"
    assert row.ours is None
    assert row.note.startswith("published 0.99; 1.0")
    assert row.note.endswith("; none implies it")
