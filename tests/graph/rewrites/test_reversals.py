"""Long reversals are two short ones, of the same meaning."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from support.definitions import integers_for, network_of
from tilewright.graph.rewrites.reversals import Reversals
from tilewright.ops.notation import define


@given(st.integers(5, 16), st.integers(-3, 3), st.booleans())
def test_a_reversal_is_cut_where_it_is_long(places, first, gathered):
    taps = " - u] * w[u]" if gathered else "]"
    sizes = {"u": 3, "w": (3,)} if gathered else {}
    sign = "+=" if gathered else "="
    text = f"y[a,b] {sign} x[a,{places - 1 + first}-b{taps}"
    op = define(text, a=2, b=places, x=(2, places), fill={"x": 0}, **sizes)
    network = network_of(op)
    short = Reversals(4).apply(network)
    assert len(short.nodes) == len(network.nodes) + 2
    feeds = {f"x{i}": x for i, x in enumerate(integers_for(np.random.default_rng(0), op))}
    assert np.array_equal(short.evaluate(feeds)["y"], network.evaluate(feeds)["y"])
    longest = [
        node.op.extents[axis]
        for node in short.nodes[:-1]
        for place in node.op.operands[0].terms
        for axis, step in place
        if step < 0
    ]
    assert max(longest) <= 4


@pytest.mark.parametrize("places", [4, 17])
def test_short_reversals_and_those_of_too_many_places_stay(places):
    network = network_of(define(f"y[b] = x[{places - 1}-b]", b=places))
    assert Reversals(4).apply(network) is network


def test_cores_reverse_a_long_tensor():
    op = define("y[a,b] = x[a,66-b]", a=3, b=67)
    assert str(tw.compile(op, machine="sw26010_cg").check()) == "exact"
