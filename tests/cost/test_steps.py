"""Places of a region's cores: how far they are apart, and what is left to the tensor's end."""

import pytest

from tilewright.common.expr import Const, Var, evaluate, minimum
from tilewright.cost.steps import TransferStep, places_of, steps_of
from tilewright.ir.nodes import at
from tilewright.ir.parser import parse

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
    y: tensor('f64', 'output', rows=64, cols=100)
    tile: buffer('f64', 4)
    for row in range(8):
        for part in range(3):
            fill(tile[0](shape=(4,), roles='.'), value=0.0)
            put(tile[0], y[rid * 8 + row, at(part * 20 + {start}, 4)])
            wait(tile[0])
"""


@pytest.mark.parametrize("start", [0, 5])
def test_a_transfer_starts_in_its_first_turn_where_it_is_placed(start):
    """Row 0 of core (0, 0), 5 elements behind its start; the moves are those of both loops."""
    (rows,) = steps_of(parse(FILL.format(start=start)))
    (parts,) = rows.body
    (put,) = (step for step in parts.body if isinstance(step, TransferStep))
    values = [evaluate(number, MESH) for number in put.numbers]
    shape = put.shape([64, 100], values)
    assert shape.offset_bytes == 8 * start
    assert shape.moves == ((800, 8), (160, 3))
    assert put.placed is (start > 0)
    assert put.anywhere().shape([64, 100], values[: 5 * 2]).offset_bytes == 0
