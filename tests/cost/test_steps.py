"""Places of a region's cores: how far they are apart, and what is left to the tensor's end."""

import numpy as np
import pytest

from tilewright.common.expr import Const, Var, evaluate, minimum
from tilewright.cost.chain import take_apart
from tilewright.cost.estimate import estimate
from tilewright.cost.steps import TransferStep, places_of, steps_of
from tilewright.ir.nodes import at
from tilewright.ir.parser import parse
from tilewright.machine import load_machine
from tilewright.simulate.kernel.level import simulate

MACHINE = load_machine("sw26010_cg")
MESH = {"mesh_rows": 8, "mesh_columns": 8}


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("extent", [27, 32, 40])
def test_cores_of_a_row_have_at_most_so_many_indices_as_the_tensor(extent, step):
    """Tiles of 4 indices, `step` apart: 8 rows have 32 of them, whatever the step."""
    own = at(Var("rid") * (4 * step), minimum(Const(4), Const(extent) - Var("rid") * 4), step)
    places = places_of((own,), {})
    found = [evaluate(each[0], MESH) for each in (places.distances, places.cores, places.left)]
    assert found == [4 * step, 8, min(extent, 32)]
    assert places.lines == ("rid",)


FILL = """\
def fills():
    y: tensor('f64', 'output', rows=64, cols=128)
    tile: buffer('f64', 4)
    for row in range(8):
        for part in range(3):
            fill(tile[0](shape=(4,), roles='.'), value=0.0)
            put(tile[0], y[rid * 8 + row, at(part * 32 + {start}, 4)])
            wait(tile[0])
"""


@pytest.mark.parametrize("start", [0, 5])
def test_a_transfer_starts_in_its_first_turn_where_it_is_placed(start):
    """Row 0 of core (0, 0), 5 elements behind its start; the moves are those of both loops."""
    (rows,) = steps_of(parse(FILL.format(start=start)))
    (parts,) = rows.body
    (put,) = (step for step in parts.body if isinstance(step, TransferStep))
    values = [evaluate(number, MESH) for number in put.numbers]
    shape = put.shape([64, 128], values)
    assert shape.offset_bytes == 8 * start
    assert shape.moves == ((1024, 8), (256, 3))
    assert put.placed is (start > 0)
    assert put.anywhere().shape([64, 128], values[: 5 * 2]).offset_bytes == 0


@pytest.mark.parametrize("start", [0, 5, 14])
def test_a_block_across_the_end_of_a_transaction_costs_two(start):
    """4 of 16 elements, wherever the loops put them; 14 elements behind a start they need two."""
    program = parse(FILL.format(start=start))
    (priced,) = np.ravel(estimate(take_apart(program), MACHINE, {}).cycles)
    assert priced == pytest.approx(simulate(program, MACHINE).cycles, rel=1e-3)
