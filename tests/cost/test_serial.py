"""Sums of what a core does by itself are what playing its loops through comes to."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.cost.chain import Prepared, take_apart
from tilewright.cost.estimate import BoundNest, costs_of, records_of, tables_of
from tilewright.cost.pipeline import play
from tilewright.cost.pipeline_types import Floats, Tables, first_of
from tilewright.cost.prices import prices_of
from tilewright.cost.steps import CallStep
from tilewright.cost.sums import item_sums
from tilewright.machine.load import load_machine
from tilewright.ops import Conv2d, Op, gemm
from tilewright.passes.lowering import lowering_of
from tilewright.schedule.factors import blocks_of, factor_grid
from tilewright.seeds.space import parameters, seeds_for
from tilewright.tune.legal import structures_on

HOST = load_machine("host_avx2")
CONV = Conv2d(4, 6, 10, 9, 9, (3, 3), (1, 1), (1, 1, 1, 1), dtype="f32")


def played(prepared: Prepared, tables: Tables) -> Floats:
    """The cycles of all items of each tile, its loops played through."""
    width = tables.service.shape[1]
    cycles, least = np.full((1, width), np.inf), np.zeros((1, width))
    state = first_of(records_of(prepared, tables, prices_of(HOST), HOST))
    play(state, tables, np.arange(width), least, np.full((1, 0), np.inf), cycles)
    return cycles[0]


@pytest.mark.parametrize(
    ("op", "algorithm"),
    [(CONV, "direct"), (CONV, "winograd2"), (gemm(70, 90, 50, dtype="f32"), "gemm")],
    ids=["direct", "winograd", "gemm"],
)
@given(st.data())
@examples(12)
def test_every_tile_costs_as_much(op: Op, algorithm: str, data: st.DataObject) -> None:
    (seed,) = seeds_for(op, algorithm, addressed=True)
    space = data.draw(st.sampled_from(seed.spaces))
    structure = data.draw(st.sampled_from(structures_on(HOST, seed, space, op.dtype)))
    sizes = data.draw(st.sampled_from(list(seed.blocks(parameters(op)))))
    values = {**parameters(op), **sizes}
    prepared = take_apart(structure.staged, chains=lowering_of(HOST).chains)
    grid = factor_grid(structure, values, blocks_of(HOST, op.dtype))
    env = {**values, **grid.tiles, **dict.fromkeys(grid.copies, 1)}
    doubles = np.zeros((1, len(prepared.program.buffers)), np.bool_)
    nest = BoundNest(prepared, env, np.zeros(grid.tile_count, np.int64), doubles)
    (costs,) = costs_of([nest], HOST, prices_of(HOST))
    tables = tables_of(nest, costs)
    every, calls = item_sums(prepared, costs, tables.uniform)
    np.testing.assert_allclose(every, played(prepared, tables), rtol=1e-12)
    copies = [not isinstance(item.step, CallStep) for item in prepared.items]
    tables.service[np.repeat(copies, [prod(item.kinds) for item in prepared.moments.items])] = 0
    np.testing.assert_allclose(calls, played(prepared, tables), rtol=1e-12)
