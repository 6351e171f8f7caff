"""Places of a region's cores: how far they are apart, and what is left to the tensor's end."""

import pytest

from tilewright.common.expr import Const, Var, evaluate, minimum
from tilewright.cost.steps import places_of
from tilewright.ir.nodes import at

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
