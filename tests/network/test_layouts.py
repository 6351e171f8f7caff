"""Layouts of a whole network: what no neighbour's choice can make cheaper is left out."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilewright.network.planning.layouts import _may_be_cheaper

costs = st.integers(0, 9)


@given(st.lists(costs, min_size=3, max_size=3), st.lists(costs, min_size=12, max_size=12),
       st.integers(0, 2), costs)  # fmt: skip
def test_an_option_may_be_cheaper_if_some_choice_of_the_neighbours_makes_it_so(
    own, between, option, added
):
    """A node of three options with a neighbour before it and one behind, of two options each."""
    before, behind = np.array(between[:6]).reshape(2, 3), np.array(between[6:]).reshape(3, 2)
    nodes = [np.zeros(2), np.array(own, float), np.zeros(2)]
    found = _may_be_cheaper(1, option, added, nodes, {(0, 1): before, (1, 2): behind})
    totals = [
        [own[i] + before[a, i] + behind[i, b] + (added if i == option else 0) for i in range(3)]
        for a, b in product(range(2), range(2))
    ]
    cheaper = {i for total in totals for i in range(3) if i != option and total[i] < total[option]}
    assert {i for i in found if i != option} == cheaper
    assert (option in found) == (added > 0)
