"""Places in memory of what loops read and write."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.errors import ProgramError
from tilewright.network.planning.access import _of_diagonals, access_of, counted_places
from tilewright.network.planning.form import row_major
from tilewright.ops.access import Access

EXTENTS = (2, 3)
terms = st.lists(
    st.tuples(st.integers(0, 1), st.integers(1, 3)), max_size=2, unique_by=lambda term: term[0]
).map(tuple)


@given(st.lists(st.tuples(terms, st.integers(0, 2)), min_size=1, max_size=3))
def test_dimensions_of_a_diagonal_are_one_with_the_same_places(dims):
    """No loop runs along two dimensions of what is left."""
    access = Access((12,) * len(dims), *zip(*dims, strict=True))
    found = _of_diagonals(access)
    moved = [loop for own in found.terms for loop, _ in own]
    assert len(moved) == len(set(moved))
    assert prod(found.shape) == prod(access.shape)
    places = []
    for each in (access, found):
        index = np.broadcast_arrays(*each.index(EXTENTS))
        places.append(np.broadcast_to(np.ravel_multi_index(index, each.shape), EXTENTS))
    np.testing.assert_array_equal(*places)


def test_an_index_beside_the_only_one_of_a_dimension_is_refused():
    form = row_major((1, 3))
    assert access_of(form, [((), 0), (((0, 1),), 0)], (3,)).shape == (3,)
    with pytest.raises(ProgramError):
        access_of(form, [((), 1), (((0, 1),), 0)], (3,))


@given(
    st.permutations(range(3)),
    st.tuples(*[st.integers(1, 3)] * 3),
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from([None, 0.0]),
)
def test_places_are_counted_where_each_is_read_once(order, extents, first, behind, fill):
    """Not where some are left, nor where an index may lie beyond the tensor."""
    along, *others = (extents[axis] for axis in order)
    beyond = 0 if fill is None else first
    shape = (along + behind + first - beyond, *others)
    access = Access(shape, tuple(((axis, 1),) for axis in order), (first, 0, 0), fill)
    found = counted_places(access, extents)
    if first or behind or fill is not None:
        assert found is None
        return
    places = [0]
    for step, count, axis in found:
        assert count == extents[axis]
        places = [place + step * turn for turn in range(count) for place in places]
    assert places == list(range(prod(shape)))
