"""Ways of one node in the layouts of a whole network."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from support.plans import GROUP
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Node
from tilewright.network.planning.form import permuted, row_major
from tilewright.network.planning.layouts import (
    _OTHER_ORDER,
    NodeChain,
    WholeNetwork,
    _kept_order,
    _Way,
    _writes_any,
)
from tilewright.network.planning.memory import in_order
from tilewright.network.planning.planner import Planner
from tilewright.network.planning.products import Ranked
from tilewright.network.planning.variants import as_it_stands
from tilewright.ops import Concat, Op, Transpose, conv2d, relu
from tilewright.ops.definitions import Assembly
from tilewright.ops.notation import operator_of
from tilewright.ops.op import Shape
from tilewright.tune.refills import Refills

PRODUCT = conv2d(batch=1, in_channels=32, out_channels=32, height=8, width=8, kernel=1)
MADE, BESIDE = PRODUCT.out_shape, (1, 16, 8, 8)
PLACES = Concat((MADE, BESIDE, BESIDE), 1).definitions[-1].addends
PARTS = Assembly(tuple(part.definition for part in PLACES), ((0,), (1,), (2,)))


def whole_of(op: Op, shapes: Mapping[str, Shape]) -> tuple[WholeNetwork, Node]:
    """A network of a product and of an operator on its result `c` and inputs of these shapes."""
    net = NetworkBuilder("two", "f64")
    given = [net.input(name, shape) for name, shape in shapes.items()]
    x = net.input("x", PRODUCT.input_shapes[0])
    c = net.apply(PRODUCT, x, net.weight("w", PRODUCT.input_shapes[1]), name="c")
    network = net.build((net.apply(op, c, *given, name="y"),))
    chains = as_it_stands(network).chains
    whole = WholeNetwork(network, chains, Ranked({}), {}, Planner(GROUP), GROUP, Refills(GROUP))
    return whole, network.nodes[-1]


@pytest.mark.parametrize("order", [(1, 2, 3), (2, 3, 1)])
def test_a_part_is_moved_unless_a_product_writes_it_where_it_lies(order: tuple[int, ...]) -> None:
    """A result in another order than the first part's is not put together at all."""
    whole, node = whole_of(PARTS, {"b": BESIDE, "e": BESIDE})
    form, other = (in_order(MADE, own) for own in (order, (2, 1, 3)))
    way = _Way(0.0, in_order(PARTS.out_shape, order), {"c": form}, follows="c", reads=("b", "e"))
    beside = in_order(BESIDE, order)
    assert whole._edge(node, "c", form, way) == 0
    assert whole._edge(node, "c", other, way) == _OTHER_ORDER * whole._moving(other)
    for name in "be":
        assert whole._edge(node, name, beside, way) == whole._moving(beside)


def test_parts_follow_the_first_of_them_and_maps_nothing() -> None:
    """A map is made in any form, a pass over all its operands; a copy keeps its operand's order."""
    whole, node = whole_of(PARTS, {"b": BESIDE, "e": BESIDE})
    whole._held["c"] = [row_major(MADE)]
    assert whole._put_together(node, "c") == ("b", "e")
    assert whole._put_together(node, "b") == ("c", "e")
    larger = operator_of("y[n,c,i,j] = max(x[n,c,i,j], z[n,c,i,j])", n=1, c=32, i=8, j=8)
    whole, node = whole_of(larger, {"z": MADE})
    whole._held["c"] = [row_major(MADE)]
    assert whole._put_together(node, "c") == ()
    ways = whole._gathering_ways(NodeChain((node,), None))
    assert {(way.reads, way.follows, len(way.takes)) for way in ways} == {(("c", "z"), "", 0)}
    turned = in_order(MADE, (2, 3, 1))
    assert _kept_order(PARTS, turned) == row_major(PARTS.out_shape)
    assert _kept_order(PARTS, turned, follows=True) == in_order(PARTS.out_shape, (2, 3, 1))
    moved = Transpose(MADE, (0, 2, 1, 3))
    assert _kept_order(moved, turned) == permuted(turned, moved.permutation)
    assert [_writes_any(op) for op in (PARTS, moved, relu(MADE))] == [False, False, True]
