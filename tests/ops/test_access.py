"""Affine addresses against the places of every step."""

from __future__ import annotations

from itertools import product

from hypothesis import example, given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.ops.access import Access

axes = st.lists(st.tuples(st.integers(1, 4), st.sampled_from([0, 1, 2, 3, 4, 6, 8])), max_size=3)


@examples(300)
@given(axes, st.integers(1, 16), st.integers(0, 1))
@example([(2, 1), (3, 2)], 6, 0)
@example([(2, 3), (3, 1)], 6, 0)
@example([(2, 1), (3, 3)], 6, 0)
@example([(2, 1), (2, 1)], 4, 0)
def test_axes_run_through_a_dimension_if_they_reach_each_place_once(own, size, offset):
    extents = [extent for extent, _ in own]
    access = Access((size,), (tuple((a, step) for a, (_, step) in enumerate(own)),), (offset,))
    steps = product(*map(range, extents))
    places = [offset + sum(i * s for i, (_, s) in zip(at, own, strict=True)) for at in steps]
    assert access.runs_through(0, extents) == (sorted(places) == list(range(size)))
