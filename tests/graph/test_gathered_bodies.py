"""Bodies that are computed where they are gathered, and those that are not."""

from __future__ import annotations

import numpy as np
import pytest

from support.definitions import integers_for
from tilewright.graph.frontends.notation import define, network_of
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.definitions import gathered_bodies
from tilewright.graph.rewriting import simplified


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("y[n,o] += abs(x[n,i] - w[o,i])", {"n": 3, "o": 4, "i": 5}),
        ("y[r] max= x[r-u+2] + w[u]", {"r": 6, "u": 3, "x": (6,)}),
        ("y[2*n,o] min= x[n,i,o] * w[i]", {"n": 3, "o": 4, "i": 5}),
    ],
)
def test_no_tensor_is_made_of_what_is_only_gathered(text, sizes) -> None:
    op = define(text, fill=1.0 if "x" in sizes else None, **sizes)
    network = simplified(network_of(op))
    joined = gathered_bodies(network)
    assert (len(network.nodes), len(joined.nodes)) == (2, 1)
    operands = integers_for(np.random.default_rng(0), op)
    found = joined.nodes[0].op.reference(*operands)
    np.testing.assert_array_equal(found, op.reference(*operands))


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("y[n,o] += exp(x[n,i] - w[o,i])", "noi"),  # computed by vectors
        ("y[n,o,m] += abs(x[n,i] - w[o,i])", "noim"),  # once for all steps of m
        ("d[n,i] = x[n,i] - w[n,i]; y[n] += d[n,i]; z[n] max= d[n,i]", "ni"),  # gathered twice
        ("y[n,o] += x[n,i] * w[o,i]", "noi"),  # a matrix product
    ],
)
def test_what_is_left_alone(text, axes) -> None:
    found = define(text, **dict.fromkeys(axes, 3))
    network = simplified(found if isinstance(found, Network) else network_of(found))
    assert gathered_bodies(network) is network
