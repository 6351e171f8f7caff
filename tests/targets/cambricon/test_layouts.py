"""How data with segments lies in main memory: a bijection, a transfer for each segment."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.targets.cambricon.dla.declarations import Layout


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    extents = tuple(draw(st.integers(1, 5)) for _ in range(4))
    return Layout(extents, tuple(draw(st.integers(1, extent)) for extent in extents))


@given(layouts())
@examples(100)
def test_every_element_has_a_place_of_its_own(layout: Layout) -> None:
    places = [layout.element(place) for place in product(*map(range, layout.extents))]
    assert sorted(places) == list(range(layout.size))


@given(layouts())
@examples(100)
def test_arrays_are_arranged_by_the_places_of_their_elements(layout: Layout) -> None:
    array = np.arange(layout.size).reshape(layout.extents)
    flat = layout.arranged(array)
    for place in product(*map(range, layout.extents)):
        assert flat[layout.element(place)] == array[place]
    assert np.array_equal(layout.restored(flat), array)


@given(layouts())
@examples(100)
def test_segments_follow_each_other_without_gaps(layout: Layout) -> None:
    end = 0
    for index in layout.indices():
        assert layout.offset(index) == end
        end += prod(layout.shape(index))
    assert end == layout.size


def test_three_segments_of_feature_maps() -> None:
    """As in Fig. 9 of the paper: the maps of a segment lie together, pixel after pixel."""
    layout = Layout((1, 2, 2, 6), (1, 2, 2, 2))
    array = np.arange(24).reshape(1, 2, 2, 6)
    assert layout.arranged(array).tolist() == [
        0, 1, 6, 7, 12, 13, 18, 19, 2, 3, 8, 9, 14, 15, 20, 21, 4, 5, 10, 11, 16, 17, 22, 23,
    ]  # fmt: skip
