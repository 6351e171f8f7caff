"""A tensor is found in whatever form it is asked for, and once there not copied again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.network.planning.form import Form, StoredDim, canonical
from tilewright.network.planning.memory import (
    Heading,
    Located,
    PlannedMemory,
    in_order,
    is_unblocked,
    unbordered,
    with_border,
)
from tilewright.ops.access import Access
from tilewright.ops.mapping import InMemory

SHAPE = (4, 6, 3)
Request = Callable[[PlannedMemory], Located]


def places(access: Access, extents: tuple[int, ...]) -> np.ndarray:
    """The places in memory of each iteration."""
    index = np.indices(extents)
    along = [
        sum((factor * index[loop] for loop, factor in terms), np.full(extents, offset))
        for terms, offset in zip(access.terms, access.offsets, strict=True)
    ]
    return np.ravel_multi_index(along, access.shape) if along else np.zeros(extents, np.int64)


def played(memory: PlannedMemory, held: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """All values, once every stage has copied or filled what it says; others are not numbers."""
    held = dict(held)
    for draft in memory.drafts:
        op, result = draft.op, draft.arguments[-1][1]
        assert isinstance(op, InMemory)
        into = held.setdefault(result, np.full(memory.values[result].form.elements, np.nan))
        at = places(op.result, op.extents)
        assert prod(op.result.shape) == into.size
        if op.operands:
            ((_, given_), _) = draft.arguments
            assert op.body == "x0"
            into[at] = held[given_][places(op.operands[0], op.extents)]
        else:
            into[at] = float(op.body)
    return held


@st.composite
def orders(draw: st.DrawFn) -> list[int]:
    return draw(st.permutations(range(3)))


@st.composite
def forms(draw: st.DrawFn) -> Form:
    """In any order, within a border, or with the second axis in blocks of two or three."""
    order = draw(orders())
    if draw(st.booleans()):
        sides = [draw(st.tuples(*[st.integers(0, 2)] * 3)) for _ in range(2)]
        return in_order(SHAPE, order, *sides)
    size = draw(st.sampled_from([2, 3]))
    dims = [StoredDim(a, size, 6 // size) if a == 1 else StoredDim(a, 1, SHAPE[a]) for a in order]
    return canonical(SHAPE, [*dims, StoredDim(1, 1, size)], (0, 0, 0))


sides = st.one_of(st.just((0, 0, 0)), st.tuples(*[st.integers(0, 2)] * 3))
filled = st.sampled_from([0.0, -1.5])


@given(
    forms(),
    st.lists(st.tuples(forms(), filled), min_size=1, max_size=3),
    orders(),
    sides,
    sides,
    filled,
    st.booleans(),
)
@examples(60)
def test_a_tensor_is_found_in_every_form_that_is_asked_for(
    first, wanted, order, before, after, value, views
) -> None:
    numbers = np.arange(1.0, prod(SHAPE) + 1).reshape(SHAPE)
    memory = PlannedMemory("f64", {} if views else None)
    x = memory.value("x", first)
    memory.held["x"] = [x]
    held = {x.value: first.stored(numbers)}

    def check(request: Request, number: float | None) -> Form:
        found = request(memory)
        elements = played(memory, held)[found.value]
        np.testing.assert_array_equal(found.form.read(elements), numbers)
        if number is not None:
            expected = np.where(found.form.places().reshape(-1) < 0, number, elements)
            np.testing.assert_array_equal(elements, expected)
        drafts = len(memory.drafts)
        assert (request(memory), len(memory.drafts)) == (found, drafts)
        return found.form

    fresh = PlannedMemory("f64")
    fresh.held["x"] = [fresh.value("x", first)]
    outer = fresh.outermost("x", order[:2]).form
    assert sorted(d.axis for d in outer.dims[:2]) == sorted(order[:2])

    for form, number in wanted:
        for own in (number, -1.5 - number):
            drafts = len(memory.drafts)
            assert check(lambda m, f=form, n=own: m.in_form("x", f, n), own) == form
        assert form.has_zeros or len(memory.drafts) == drafts
    wide = check(lambda m: m.inside("x", first, before, after, value), value)
    assert [d.axis for d in wide.dims] == [d.axis for d in with_border(first, before, after).dims]
    assert_wide(wide, before, after)
    outer = check(lambda m: m.outermost("x", order[:2]), None)
    assert sorted(d.axis for d in outer.dims[:2]) == sorted(order[:2])
    assert not outer.has_zeros
    assert is_unblocked(check(lambda m: m.as_it_lies("x"), None))
    source = check(lambda m: m.source("x"), None)
    assert source == (first if views and is_unblocked(first) else unbordered(first))


def assert_wide(form: Form, before: Sequence[int], after: Sequence[int]) -> None:
    """Each axis has places around its elements, so many at least."""
    for axis, size in enumerate(SHAPE):
        (dim,) = form.along(axis)
        assert form.before[axis] >= before[axis]
        assert dim.extent - size - form.before[axis] >= after[axis]


@given(forms(), sides, sides, filled, st.booleans(), st.booleans())
@examples(60)
def test_windows_beyond_a_tensor_read_a_number_or_a_border_that_holds_it(
    first, before, after, value, views, aligned
) -> None:
    """Where stages work on views no border is copied around it; a tensor that has one of zeros is
    only read beyond it where it wants zeros there.
    """
    numbers = np.arange(1.0, prod(SHAPE) + 1).reshape(SHAPE)
    memory = PlannedMemory("f64", {} if views else None, aligned=aligned)
    x = memory.value("x", first)
    memory.held["x"] = [x]
    found, read = memory.around("x", before, after, value)
    elements = played(memory, {x.value: first.stored(numbers)})[found.value]
    np.testing.assert_array_equal(found.form.read(elements), numbers)
    if views and is_unblocked(first):
        reaches = any(before) or any(after)
        assert read == (value if reaches else None)
        assert (found.value == x.value) == (not (reaches and value and first.has_zeros))
    else:
        assert read is None
        assert_wide(found.form, before, after)
        expected = np.where(found.form.places().reshape(-1) < 0, value, elements)
        np.testing.assert_array_equal(elements, expected)


def test_an_axis_of_one_index_is_a_dimension_where_windows_reach_beyond_it() -> None:
    memory = PlannedMemory("f64", {})
    form = in_order((4, 1, 1), (0, 1, 2))
    memory.held["x"] = [memory.value("x", form)]
    assert [d.axis for d in form.dims] == [0]
    for before, after, axes in (
        ((0, 1, 0), (0, 0, 0), [1, 0]),
        ((0, 0, 0), (0, 0, 1), [2, 0]),
        ((1, 0, 0), (1, 0, 0), [0]),
        ((0, 2, 2), (0, 1, 1), [1, 2, 0]),
        ((0, 0, 0), (0, 0, 0), [0]),
    ):
        found, read = memory.around("x", before, after, -1.0)
        assert [d.axis for d in found.form.dims] == axes
        assert {d.step for d in found.form.dims} == {1}
        assert read == (-1.0 if any(before) or any(after) else None)
        np.testing.assert_array_equal(found.form.read(np.arange(4.0)).ravel(), np.arange(4.0))
    assert memory.drafts == []


def test_what_a_stage_writes_has_the_form_that_is_wanted_of_it_unless_in_blocks() -> None:
    own, wanted = in_order(SHAPE, (0, 1, 2)), in_order(SHAPE, (2, 0, 1))
    dims = [StoredDim(0, 1, 4), StoredDim(1, 2, 3), StoredDim(2, 1, 3), StoredDim(1, 1, 2)]
    blocked = canonical(SHAPE, dims, (0, 0, 0))
    memory = PlannedMemory("f64", {"x": wanted, "y": blocked})
    assert [memory.result(name, own).form for name in "xyz"] == [wanted, own, own]
    assert PlannedMemory("f64").result("x", own).form == own


@pytest.mark.parametrize("aligned", [True, False])
def test_aligned_maps_read_all_operands_along_one_order(aligned: bool) -> None:
    """Copies themselves may turn their operand, and a vector has no order to keep."""
    first, other = in_order(SHAPE, (0, 1, 2)), in_order(SHAPE, (2, 1, 0))
    memory = PlannedMemory("f64", aligned=aligned)
    x, y = memory.value("x", first), memory.value("y", other)
    bias = memory.numbers("bias", np.arange(3.0), (2,))
    memory.map(Heading("copy", "layout"), "x0", memory.value("a", other), (x,))
    memory.map(Heading("same", "elementwise"), "x0 + x1", memory.value("b", first), (x, x))
    memory.map(Heading("bias", "elementwise"), "x0 + x1", memory.value("c", first), (x, bias))
    assert [draft.name for draft in memory.drafts] == ["copy", "same", "bias"]
    memory.map(Heading("sum", "elementwise"), "x0 + x1", memory.value("d", first), (x, y))
    memory.map(Heading("minus", "elementwise"), "-x0", memory.value("e", first), (y,))
    names = ["sum_layout", "sum", "minus_layout", "minus"]
    assert [d.name for d in memory.drafts[3:]] == (names if aligned else ["sum", "minus"])
    single = (1, 1, 1)
    one = [memory.value(f"s{n}", in_order(single, o)) for n, o in enumerate([(0, 1, 2), (2, 1, 0)])]
    memory.map(Heading("one", "elementwise"), "x0 + x1", memory.value("f", one[0].form), one)
    assert memory.drafts[-1].name == "one"
    assert memory.drafts[-2].name == "minus"


def test_constants_made_alike_are_one_and_stages_are_labelled_by_their_work() -> None:
    memory = PlannedMemory("f64", types={"w": "f32"})
    form, other = in_order(SHAPE, (0, 1, 2)), in_order(SHAPE, (2, 1, 0))
    made = "turned", ("w", "v")
    found = [memory.constant(made, f, (0, 1, 2)).value for f in (form, other, form)]
    assert found == [0, 1, 0]
    assert [(v.name, v.dtype, v.role) for v in memory.values] == [("w", "f32", "constant")] * 2
    x, y = memory.value("x", form), memory.value("y", form)
    memory.map(Heading("plain", "layout"), "x0", y, (x,))
    memory.map(Heading("named", "layout", "a label"), "x0", y, (x,))
    first, second = (draft.heading for draft in memory.drafts)
    assert (first.label, second.label) == (memory.drafts[0].op.describe(), "a label")
    assert first.flops == 0


def test_names_of_stages_are_counted_from_the_second() -> None:
    memory = PlannedMemory("f64")
    memory.held["x"] = [memory.value("x", in_order(SHAPE, (0, 1, 2)))]
    for order in ((1, 0, 2), (2, 0, 1), (2, 1, 0)):
        memory.in_form("x", in_order(SHAPE, order))
    assert [draft.name for draft in memory.drafts] == ["x_layout", "x_layout_2", "x_layout_3"]


def test_values_that_are_merged_leave_no_gap_and_keep_their_origins() -> None:
    memory = PlannedMemory("f64")
    a, b, c = (memory.value(name, in_order(SHAPE, (0, 1, 2))) for name in "abc")
    seen = memory.elsewhere(c, 2)
    assert memory.elsewhere(c, 2) == seen
    assert memory.elsewhere(c, 1).value == seen.value + 1
    memory.held["c"] = [c]
    memory.in_form("c", in_order(SHAPE, (2, 1, 0)))
    assert memory.merge({b.value: a.value}) == [0, 0, 1, 2, 3, 4]
    assert [v.name for v in memory.values] == ["a", "c", "c", "c", "c"]
    assert [v.origin for v in memory.values] == [None, None, (1, 2), (1, 1), None]
    assert [v for _, v in memory.drafts[0].arguments] == [1, 4]


def test_what_is_merged_into_a_value_that_is_merged_itself_is_where_that_is() -> None:
    memory = PlannedMemory("f64")
    a, b, c = (memory.value(name, in_order(SHAPE, (0, 1, 2))) for name in "abc")
    assert memory.merge({a.value: b.value, b.value: c.value}) == [0, 0, 0]
    assert [v.name for v in memory.values] == ["c"]
