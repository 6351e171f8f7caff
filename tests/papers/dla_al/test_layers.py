"""The layers of Tables 2 and 3: their programs are small, and the matrix unit bounds their time."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from support.cambricon import device
from tilewright.machine import load_machine
from tilewright.papers.dla_al import layers
from tilewright.papers.lab import Lab

PEAK = 1024
"""Products of a cycle."""


def test_a_layer_takes_no_less_than_its_products() -> None:
    (row,) = layers.run(Lab(quick=True)).rows
    assert (row.name, row.unit) == ("conv1", "cycles")
    assert row.ours is not None
    products = 7 * 7 * 512 * 2048 / PEAK
    assert products < row.ours < 10 * products
    found = re.fullmatch(r"\d+ instructions; the matrix unit works (\d+) % of the time", row.note)
    assert found
    assert 100 * products / row.ours <= int(found[1]) <= 100


def test_the_step_of_lstm_is_lstm() -> None:
    """Against real numbers, within two elements: gates and products are rounded one by one."""
    rng = np.random.default_rng(0)
    found = device(layers.lstm_step(3, 8, 5, 4), load_machine("dla-al"))

    def drawn(name: str, *extents: int) -> NDArray[np.float64]:
        values = rng.integers(-64, 64, extents) / 256
        found.upload(name, values)
        return values

    x, hidden, cell, v = drawn("x", 3), drawn("hidden", 8), drawn("cell", 8), drawn("v", 5, 8)
    sums = {
        gate: drawn(f"w_{gate}", 8, 3) @ x
        + drawn(f"u_{gate}", 8, 8) @ hidden
        + drawn(f"b_{gate}", 8)
        for gate in "ifog"
    }
    found.launch()
    i, f, o = (1 / (1 + np.exp(-sums[gate])) for gate in "ifo")
    cell_next = f * cell + i * np.tanh(sums["g"])
    hidden_next = o * np.tanh(cell_next)
    wanted = {"cell_next": cell_next, "hidden_next": hidden_next, "y": v @ hidden_next}
    for name, values in wanted.items():
        np.testing.assert_allclose(found.real(name).reshape(-1), values, rtol=0, atol=2 / 256)
