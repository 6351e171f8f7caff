"""Prices of a few candidates of each algorithm: cycles, those of their calls, of their transfers.

They are what a change of the model changes; `pytest tests/cost --update-golden` writes them anew.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from support.cambricon_operators import KINDS
from support.cambricon_operators import MACHINE as DLA
from support.golden import Golden
from tilewright.cost.chain import take_apart
from tilewright.cost.estimate import estimate
from tilewright.cost.prices import prices_of
from tilewright.machine import Machine, load_machine
from tilewright.ops import Conv2d, Op, gemm
from tilewright.passes.lowering import lowering_of
from tilewright.schedule.factors import blocks_of, factor_grid
from tilewright.schedule.structures import Structure
from tilewright.seeds.space import Seed, parameters, seeds_for
from tilewright.tune.legal import structures_on

STRUCTURES, COPIES, TILES = 3, 2, 3
"""How many of each space, and of each structure, evenly apart."""
SW26010 = load_machine("sw26010")
HOST = load_machine("host_avx2")
IMAGES = Conv2d(8, 6, 10, 9, 9, (3, 3), (2, 1), (1, 1, 1, 1))
MANY_IMAGES = Conv2d(128, 8, 16, 5, 9, (3, 3))
SMALL = Conv2d(4, 6, 10, 9, 9, (3, 3), (1, 1), (1, 1, 1, 1), dtype="f32")
PADDED = Conv2d(2, 6, 8, 5, 6, (3, 3), (1, 1), (1, 1, 1, 1), dtype=KINDS)
IN_WINDOW = Conv2d(1, 13, 5, 2, 7, (2, 2), (2, 2), (1, 1, 1, 1), dtype=KINDS)
CASES: dict[str, tuple[Machine, Op, tuple[str, ...]]] = {
    "sw26010_products": (SW26010, gemm(100, 300, 70), ("gemm", "padded")),
    "sw26010_images": (SW26010, IMAGES, ("implicit", "explicit")),
    "sw26010_winograd": (SW26010, Conv2d(32, 16, 8, 10, 10, (3, 3)), ("winograd2",)),
    "sw26010_many_images": (SW26010, MANY_IMAGES, ("swdnn_image", "swdnn_batch")),
    "host": (HOST, SMALL, ("direct", "winograd2", "implicit")),
    "dla_products": (DLA, gemm(8, 12, 134, transpose_b=True, dtype=KINDS), ("gemm", "whole_depth")),
    "dla_images": (DLA, IN_WINDOW, ("loading_order", "gathered_windows")),
    "dla_rows": (DLA, PADDED, ("implicit_rows", "whole_windows")),
}


@pytest.mark.parametrize("name", CASES)
def test_prices(name: str, golden: Golden) -> None:
    machine, op, algorithms = CASES[name]
    rows = list[str]()
    for algorithm in algorithms:
        for seed in seeds_for(op, algorithm, whole=machine is DLA, addressed=machine is HOST):
            rows += _rows_of(machine, op, seed)
    golden(f"{name}.txt", "\n".join([*rows, ""]))


def _rows_of(machine: Machine, op: Op, seed: Seed) -> Iterator[str]:
    values = {**parameters(op), **next(iter(seed.blocks(parameters(op))))}
    for space in seed.spaces:
        every = structures_on(machine, seed, space, op.dtype)
        for number in _apart(len(every), STRUCTURES):
            yield f"{seed.name}, {space.nest.name}, structure {number}"
            yield from _priced(machine, op, every[number], values)


def _priced(
    machine: Machine, op: Op, structure: Structure, values: dict[str, int]
) -> Iterator[str]:
    grid = factor_grid(structure, values, blocks_of(machine, op.numerics.sums.name))
    chosen = _apart(grid.tile_count, TILES)
    tiles = {name: column[chosen] for name, column in grid.tiles.items()}
    chains, places = lowering_of(machine).chains, prices_of(machine).told_by_place
    prepared = take_apart(structure.staged, chains=chains, places=places)
    found = estimate(prepared, machine, {**values, **tiles, **grid.copies})
    prices = found.cycles, found.compute_cycles, found.dma_cycles
    yield f"  {' '.join(grid.chosen(0, 0))}"
    for c in _apart(len(found.cycles), COPIES):
        for t, tile in enumerate(chosen):
            factors = " ".join(map(str, grid.chosen(c, tile).values()))
            yield f"  {factors}: {' '.join(f'{price[c, t]:.6g}' for price in prices)}"


def _apart(count: int, wanted: int) -> list[int]:
    """Some of the first `count` whole numbers, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, wanted).astype(int)).tolist()
