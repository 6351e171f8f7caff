"""Random definitions that a plan was once refused for; `make fuzz-definitions` draws others."""

import numpy as np
import pytest

from support.definitions import by_index, integers_for, network_of, random_definition
from support.plans import GROUP, quick_search
from tilewright.graph.rewriting import simplified
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.simulate import simulate_plan


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(74, id="one block of which every other place is read"),
        pytest.param(139, id="a border around the only place of an axis"),
        pytest.param(3383, id="blocks that begin inside a border"),
        pytest.param(3536, id="blocks in one operand, places of them in the other"),
        pytest.param(3861, id="rows that lie backwards"),
        pytest.param(10967, id="places within a block that lie backwards"),
    ],
)
def test_a_random_definition_has_a_plan(seed):
    rng = np.random.default_rng(seed)
    op = random_definition(rng, look_ups=True)
    operands = integers_for(rng, op)
    plan = build_plan(network := simplified(network_of(op)), GROUP, quick_search(network))
    found = interpret_plan(plan, {f"x{i}": x for i, x in enumerate(operands)}, {})["y"]
    np.testing.assert_array_equal(found, by_index(op, *operands))
    assert simulate_plan(plan).cycles > 0
