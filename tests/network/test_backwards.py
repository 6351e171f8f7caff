"""Tensors that are read backwards: axes that are gathered, axes of the result, views."""

from __future__ import annotations

import numpy as np
import pytest

from support.definitions import integers_for, network_of
from support.plans import GROUP, quick_search
from tilewright.common.errors import GraphError
from tilewright.graph.rewriting import simplified
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.planning.access import forwards_gathered, normalised
from tilewright.network.planning.form import row_major
from tilewright.network.planning.lowering import lowered
from tilewright.network.planning.memory import PlannedMemory
from tilewright.ops.access import Access, straight
from tilewright.ops.mapping import InMemory
from tilewright.ops.notation import operator_of

LONG = 65


def test_the_order_of_what_is_gathered_is_free() -> None:
    windows = Access((9,), (((0, 1), (1, -1)),), (2,))
    op = InMemory((7, 3), straight((7,)), (windows,), gather="max")
    forwards = Access((9,), (((0, 1), (1, 1)),), (0,))
    assert forwards_gathered(normalised(op)).operands == (forwards,)


@pytest.mark.parametrize(
    "op",
    [
        operator_of("y[i,j] max= x[i,j-t+2]", i=3, j=5, t=3, x=(3, 7)),
        operator_of("y[i] min= x[2-i,3-k]", i=3, k=4),
        operator_of("y[2*a+b,0*a] += x[k,p-q+2,a]", a=2, b=2, k=3, p=3, q=3, x=(4, 6, 2), y=(4, 1)),
    ],
    ids=lambda op: op.describe(),
)
def test_a_plan_gathers_backwards(op) -> None:
    network = simplified(network_of(op))
    plan = build_plan(network, GROUP, quick_search(network))
    operands = integers_for(np.random.default_rng(0), op)
    found = interpret_plan(plan, {f"x{i}": x for i, x in enumerate(operands)}, {})["y"]
    np.testing.assert_array_equal(found, op.reference(*operands))


def drafted(op, views) -> PlannedMemory:
    (node,) = network_of(op).nodes
    memory = PlannedMemory("f64", views)
    memory.held["x0"] = [memory.value("x0", row_major(op.input_shapes[0]), "input")]
    lowered(memory, node)
    return memory


def test_a_view_is_read_backwards_by_one_stage() -> None:
    op = operator_of("y[i] = x[64-i]", i=LONG)
    (draft,) = drafted(op, {}).drafts
    x = np.arange(float(LONG))
    np.testing.assert_array_equal(draft.op.reference(x), x[::-1])


def test_cores_copy_few_places_one_by_one() -> None:
    assert len(drafted(operator_of("y[i] = x[3-i]", i=4), None).drafts) == 4
    with pytest.raises(GraphError) as refused:
        drafted(operator_of("y[i] = x[64-i]", i=LONG), None)
    assert str(refused.value) == (
        "a tensor is read backwards along 65 places, at most 64 are copied one by "
        "one, 4096 in two steps"
    )
