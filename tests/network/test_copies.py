"""Copies around products that go: results and operands lie where the copy puts and takes them."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.definitions import integers_for, network_of
from support.examples import examples
from support.plans import GROUP
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.rewriting import simplified
from tilewright.machine import find_machine
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.planning.copies import composed
from tilewright.network.planning.form import row_major
from tilewright.network.planning.memory import with_border
from tilewright.network.planning.placed import (
    enclosing_box,
    places_read,
    places_within,
    places_written,
)
from tilewright.network.plans import Search
from tilewright.network.simulate import simulate_plan
from tilewright.ops import conv2d
from tilewright.ops.access import Access, straight
from tilewright.ops.mapping import InMemory
from tilewright.ops.notation import operator_of
from tilewright.targets.sw26010.emulation.run import run_emulated
from tilewright.targets.sw26010.network.code import constant_block, emit_network

FOUR_GROUPS = find_machine("sw26010")


@st.composite
def copies(draw):
    """Copies of whole tensors, in any order of axes, to places some steps apart."""
    rank = draw(st.integers(1, 3))
    extents = tuple(draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank)))
    order = draw(st.permutations(range(rank)))
    steps = [draw(st.integers(1, 3)) for _ in order]
    first = [draw(st.integers(0, 2)) for _ in order]
    behind = [draw(st.integers(0, 2)) for _ in order]
    shape = tuple(
        f + (extents[a] - 1) * s + 1 + b
        for a, s, f, b in zip(order, steps, first, behind, strict=True)
    )
    terms = tuple(((a, s),) for a, s in zip(order, steps, strict=True))
    return InMemory(extents, Access(shape, terms, tuple(first)), (straight(extents),))


@examples(300)
@given(copies())
def test_an_operand_is_a_box_where_the_copy_puts_it(copy):
    """If it is one: along each dimension of the operand steps are equally long there."""
    box = enclosing_box(copy.extents, places_written(copy))
    if box is None:
        steps = [place[0] for place in copy.result.terms]
        assert steps != [(a, 1) for a in range(len(steps))]
        return
    shape, first = box
    places = np.arange(prod(shape)).reshape(shape)
    inside = places[tuple(slice(f, f + n) for f, n in zip(first, copy.extents, strict=True))]
    expected = np.arange(prod(copy.result.shape)).reshape(copy.result.shape)
    assert (inside == expected[copy.result.index(copy.extents)]).all()


def test_interleaved_pixels_are_a_box_where_rows_and_columns_are_some_steps_apart():
    """Of phase (1, 0) of four: a row of two rows has the columns of both, two pixels a step."""
    pixels = InMemory(
        (32, 33, 8),
        Access((65, 65, 8), (((0, 2),), ((1, 2),), ((2, 1),)), (1, 0, 0)),
        (straight((32, 33, 8)),),
    )
    assert enclosing_box((32, 33, 8), places_written(pixels)) == ((32, 65, 16), (0, 32, 8))


def test_places_inside_a_wider_border_and_those_of_a_slice_are_boxes():
    own, wider = row_major((2, 4, 3)), with_border(row_major((2, 4, 3)), (0, 1, 2), (0, 1, 0))
    assert enclosing_box((2, 4, 3), places_within(own, wider)) == ((2, 6, 5), (0, 1, 2))
    assert places_within(wider, own) is None
    rows = Access((2, 9, 3), (((0, 1),), ((1, 2),), ((2, 1),)), (0, 1, 0))
    slices = InMemory((2, 4, 3), straight((2, 4, 3)), (rows,))
    assert places_read(slices).start == 3
    assert enclosing_box((2, 4, 3), places_read(slices)) is None  # two images are nine rows apart
    assert enclosing_box((4, 3), places_read(slices)) == ((4, 6), (0, 3))


@st.composite
def maps_and_copies(draw):
    """A map that writes all of a tensor, in any order of axes, and a copy of it into another one,
    which it counts through along other axes.
    """
    cut = draw(st.lists(st.integers(1, 3), min_size=2, max_size=4))
    at = draw(st.integers(1, len(cut) - 1))
    halves = (prod(cut[:at]), prod(cut[at:]))
    own = draw(st.sampled_from([tuple(cut), halves]))
    order = draw(st.permutations(range(len(own))))
    read = Access(
        tuple(own[a] + 1 for a in order), tuple(((a, 1),) for a in order), (1,) * len(own)
    )
    first = InMemory(own, straight(own), (read,), "x0 + 1.0")
    others = draw(st.sampled_from([tuple(cut), halves]))
    turned = draw(st.permutations(range(len(others))))
    result = Access(
        tuple(2 * others[a] for a in turned), tuple(((a, 2),) for a in turned), (1,) * len(others)
    )
    return first, InMemory(others, result, (straight(others),))


@examples(200)
@given(maps_and_copies())
def test_a_map_and_the_copy_of_its_result_are_one_map(pair):
    first, copy = pair
    both = composed(first, copy)
    x = np.arange(1.0, 1 + prod(first.operands[0].shape)).reshape(first.operands[0].shape)
    expected = copy.reference(first.reference(x).reshape(copy.operands[0].shape))
    found = both.reference(x.reshape(both.operands[0].shape))
    assert np.array_equal(found.reshape(-1), expected.reshape(-1))


def test_axes_whose_steps_do_not_divide_each_other_stay_apart():
    rows = InMemory((2, 3), straight((2, 3)), (straight((2, 3)),), "x0 + 1.0")
    columns = InMemory((3, 2), straight((3, 2)), (straight((3, 2)),))
    assert composed(rows, columns) is None


def transposed(images, channels, size, kernel, step):
    return operator_of(
        f"y[n,o,{step}*r+u,{step}*c+v] += x[n,i,r,c] * w[i,o,u,v]", dtype="f64",
        n=images, o=channels, i=channels, r=size, c=size, u=kernel, v=kernel,
    )  # fmt: skip


def elsewhere(plan):
    """The products of which a tensor lies in other places, by name, and that tensor."""
    found = {}
    for stage in plan.stages:
        if stage.work == "product":
            changes = [text for nest in stage.candidate.nests for text in nest.structure.changes]
            found[stage.name] = {text[0] for text in changes if " by PlaceMap" in text}
    return found


def require_exact(plan, given, weights, expected):
    """Interpreter and emulated code have the numbers of the definition."""
    artifact, block = emit_network(plan, plan.machine), constant_block(plan, weights)
    for outputs in (
        interpret_plan(plan, given, weights),
        run_emulated(artifact, {**given, artifact.block: block}),
    ):
        (found,) = outputs.values()
        np.testing.assert_array_equal(found, expected)


def test_phases_of_a_transposed_convolution_write_their_pixels():
    op = transposed(2, 32, 8, 4, 2)
    plan = build_plan(simplified(network_of(op)), GROUP, Search(keep=2))
    written = [name for name, tensors in elsewhere(plan).items() if "y" in tensors]
    assert len(written) == 4
    run = simulate_plan(plan)
    for stage, own in zip(plan.stages, run.runs, strict=True):
        if stage.name in written:
            assert own.cycles == pytest.approx(stage.candidate.cycles, rel=0.1)
    given = dict(zip(("x0", "x1"), integers_for(np.random.default_rng(0), op), strict=True))
    require_exact(plan, given, {}, op.reference(*given.values()))


def test_groups_write_pixels_together_and_read_one_copy_of_the_image():
    op = transposed(4, 16, 5, 3, 2)
    plan = build_plan(simplified(network_of(op)), FOUR_GROUPS, Search("implicit_rows", keep=1))
    found = elsewhere(plan)
    assert [*found.values()] == [{"y"}, {"x", "y"}, {"x", "y"}, set()]
    first, *others = (s for s in plan.stages if s.work == "product" and found[s.name])
    assert {s.reads[0] for s in others} == {first.reads[0]}
    given = dict(zip(("x0", "x1"), integers_for(np.random.default_rng(0), op), strict=True))
    require_exact(plan, given, {}, op.reference(*given.values()))


@pytest.mark.parametrize(
    ("text", "goes"),
    [("z[n,c,2*i+1,2*j] = x[n,c,i,j]", True), ("z[2*n,c,i,j] = x[n,c,i,j]", False)],
    ids=["pixels apart, zeros between", "images apart, which lie side by side"],
)
def test_a_product_writes_in_place_of_a_copy_where_runs_stay_whole(text, goes):
    net = NetworkBuilder("apart", "f64")
    op = conv2d(batch=4, in_channels=32, out_channels=32, height=8, width=8, kernel=1)
    y = net.input("x", op.input_shapes[0])
    y = net.apply(op, y, net.weight("w", op.input_shapes[1]), name="conv")
    spread = operator_of(text, dtype="f64", n=4, c=32, i=8, j=8)
    net = net.build((net.apply(spread, y, name="spread"),))
    plan = build_plan(net, GROUP, Search(algorithm="implicit", keep=1))
    assert elsewhere(plan) == {"conv": {"y"} if goes else set()}
    rng = np.random.default_rng(0)
    given = {"x": rng.integers(-3, 4, op.input_shapes[0]).astype(float)}
    weights = {"w": rng.integers(-3, 4, op.input_shapes[1]).astype(float)}
    (expected,) = net.evaluate({**given, **weights}).values()
    require_exact(plan, given, weights, expected)
