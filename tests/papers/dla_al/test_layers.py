"""The layers of Tables 2 and 3: their programs are small, and the matrix unit bounds their time."""

from __future__ import annotations

from tilewright.papers.dla_al import layers
from tilewright.papers.lab import Lab

PEAK = 1024
"""Products of a cycle."""


def test_a_layer_takes_no_less_than_its_products() -> None:
    (row,) = layers.run(Lab(quick=True)).rows
    assert (row.name, row.unit) == ("conv1", "cycles")
    assert row.ours is not None
    assert 7 * 7 * 512 * 2048 / PEAK < row.ours < 10 * 7 * 7 * 512 * 2048 / PEAK
