"""Long reversals are two short ones, of the same meaning."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from support.definitions import integers_for, network_of
from tilewright.graph.rewrites.reversals import Reversals
from tilewright.ops.access import Access
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import assembled
from tilewright.ops.notation import operator_of


@given(st.integers(5, 16), st.integers(-3, 3), st.booleans())
def test_a_reversal_is_cut_where_it_is_long(places, first, gathered):
    taps = " - u] * w[u]" if gathered else "]"
    sizes = {"u": 3, "w": (3,)} if gathered else {}
    sign = "+=" if gathered else "="
    text = f"y[a,b] {sign} x[a,{places - 1 + first}-b{taps}"
    op = operator_of(text, a=2, b=places, x=(2, places), fill={"x": 0}, **sizes)
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


@given(st.integers(6, 40), st.integers(5, 12), st.integers(0, 3))
def test_parts_reverse_what_they_read_alone(size, border, rest):
    border = min(border, size - 1)
    whole = (border + size + rest,)
    mirrored = Definition((border,), along_axis(whole, 1, 0), (along_axis((size,), -1, border),))
    own = Definition((size,), along_axis(whole, 1, border), (along_axis((size,), 1, 0),))
    op = assembled((mirrored, own), [(0,), (0,)], "f64")
    network = network_of(op)
    short = Reversals(4).apply(network)
    assert len(short.nodes) == 3
    assert max(node.op.out_shape for node in short.nodes[:2])[0] < border + 4
    feeds = {"x0": np.arange(float(size))}
    found, expected = (n.evaluate(feeds)["y"] for n in (short, network))
    assert np.array_equal(found, expected)
    assert np.array_equal(found[: border + size], np.pad(feeds["x0"], (border, 0), "reflect"))


def along_axis(shape, step, first):
    return Access(shape, (((0, step),),), (first,))


@pytest.mark.parametrize("places", [4, 17])
def test_short_reversals_and_those_of_too_many_places_stay(places):
    network = network_of(operator_of(f"y[b] = x[{places - 1}-b]", b=places))
    assert Reversals(4).apply(network) is network


def test_cores_reverse_a_long_tensor():
    op = operator_of("y[a,b] = x[a,66-b]", a=3, b=67)
    assert str(tw.compile(op, machine="sw26010_cg").check()) == "exact"
