"""How far products reach from their pointers: no candidate of a search is refused as code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tilewright import ops
from tilewright.common.errors import CapacityError
from tilewright.machine import load_machine
from tilewright.schedule.factors import blocks_of, factor_grid
from tilewright.seeds.space import bindings, seeds_for
from tilewright.targets.sw26010.code import CODE
from tilewright.targets.sw26010.dma import Reach, reaches
from tilewright.targets.sw26010.gemm.shape import LARGEST_DISPLACEMENT
from tilewright.tune.candidate import Candidate
from tilewright.tune.fit import mesh_values
from tilewright.tune.search import rank

WIDE = ops.Conv2d(1, 3, 64, 224, 224, (3, 3), padding=(1, 1, 1, 1))
"""The first layer of VGG-16 on one core group: four channels of results and thousands of pixels."""
ONE_GROUP = load_machine("sw26010", {"groups.count": "1"})


def ranked() -> tuple[Candidate, ...]:
    (seed,) = seeds_for(WIDE, "implicit")
    (ranking,) = rank([(WIDE, seed)], ONE_GROUP, keep=8)
    return ranking.best


def test_every_candidate_that_is_ranked_can_be_emitted():
    for candidate in ranked():
        assert CODE.emit(candidate.program(ONE_GROUP), ONE_GROUP).files


def test_what_the_search_leaves_out_is_what_the_routine_refuses():
    roomy = load_machine("sw26010", {"memory.spm.capacity_bytes": "4194304"})
    best = ranked()[0]
    (nest,) = best.nests
    values = bindings(WIDE, best.seed)[0]
    grid = factor_grid(nest.structure, values, blocks_of(roomy, "f64"))
    copies = dict.fromkeys(grid.copies, 1)
    env = {**values, **grid.tiles, **copies, **mesh_values(roomy)}
    (reach,) = reaches(nest.structure.staged, env)
    found = np.asarray(reach.found_bytes)
    whole = (224 % grid.tiles["out_row_tile"] == 0) & (224 % grid.tiles["out_col_tile"] == 0)
    (beyond_reach,) = np.nonzero(whole & (found > LARGEST_DISPLACEMENT))
    for i in beyond_reach[:: max(1, len(beyond_reach) // 8)]:
        factors = {name: int(column[i]) for name, column in grid.tiles.items()} | copies
        beyond = replace(best, nests=(replace(nest, factors=factors),))
        with pytest.raises(CapacityError) as error:
            CODE.emit(beyond.program(roomy), roomy)
        assert str(error.value) == (
            f"the block reaches {found[i]} bytes from its pointer, a displacement at most 32767; "
            "use a smaller leading dimension"
        )


def test_a_nest_none_of_whose_tiles_is_in_reach_is_refused_by_its_shortest():
    found = Reach("y_tile", np.int64(40_000)).least("conv2d 1x3x8x8 -> 64", "implicit")
    assert str(found) == (
        "no tile of conv2d 1x3x8x8 -> 64 fits: of the tiles of 'implicit' the one with the "
        "shortest rows adds to 'y_tile' 40000 bytes from a pointer, a displacement is at most "
        "32767; another algorithm"
    )
