"""Tensors that are read backwards: axes that are gathered, axes of the result, views."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.definitions import integers_for, network_of
from support.examples import examples
from support.plans import GROUP, quick_search
from tilewright.graph.rewriting import simplified
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.planning.access import forwards_gathered, normalised
from tilewright.network.planning.form import StoredDim, canonical, row_major
from tilewright.network.planning.lowering import lowered
from tilewright.network.planning.memory import PlannedMemory
from tilewright.ops.access import Access, straight
from tilewright.ops.mapping import InMemory
from tilewright.ops.notation import operator_of
from tilewright.targets.sw26010.emulation.run import run_emulated_many
from tilewright.targets.sw26010.network.code import constant_block, emit_network

LONG = 65


def test_the_order_of_what_is_gathered_is_free() -> None:
    windows = Access((9,), (((0, 1), (1, -1)),), (2,))
    op = InMemory((7, 3), straight((7,)), (windows,), gather="max")
    forwards = Access((9,), (((0, 1), (1, 1)),), (0,))
    assert forwards_gathered(normalised(op)).operands == (forwards,)


def test_a_single_number_is_one_place_of_one_loop() -> None:
    """Tensors of more places keep theirs, however few iterations there are."""
    number, third = Access((), (), ()), Access((4,), ((),), (2,))
    for other in (number, third):
        op = InMemory((), number, (number, other), "x0 - x1")
        found = normalised(op)
        assert found.extents == (1,)
        alone = other is number
        assert (straight((1,)) == found.result) is alone
        assert found.operands[1].shape == ((1,) if alone else (4,))
        x, y = np.full(found.operands[0].shape, 7.0), np.full(found.operands[1].shape, 5.0)
        assert found.reference(x, y).ravel().tolist() == [2.0]


@st.composite
def gathered_in_part(draw: st.DrawFn) -> InMemory:
    """Sums over the last axes of one operand, which lies in any order and beyond its tensor."""
    extents = draw(st.lists(st.integers(1, 3), min_size=3, max_size=4))
    order = draw(st.just(range(len(extents))) | st.permutations(range(len(extents))))
    steps = [draw(st.sampled_from([1, 1, -1])) for _ in order]
    shape = [extents[a] + draw(st.sampled_from([0, 0, 1])) for a in order]
    begins = [0 if s > 0 else extents[a] - 1 for a, s in zip(order, steps, strict=True)]
    offsets = [begin + draw(st.sampled_from([0, 0, 1, -1])) for begin in begins]
    terms = tuple(((a, s),) for a, s in zip(order, steps, strict=True))
    x = Access(tuple(shape), terms, tuple(offsets), 0.0)
    kept = straight(tuple(extents[: draw(st.integers(0, len(extents) - 1))]))
    return InMemory(tuple(extents), kept, (x,), gather="sum")


@given(gathered_in_part())
@examples(150)
def test_fewer_loops_and_dimensions_mean_the_same(op: InMemory) -> None:
    found, x = normalised(op), np.arange(1.0, np.prod(op.input_shapes[0]) + 1)
    sums = found.reference(x.reshape(found.input_shapes[0]))
    expected = op.reference(x.reshape(op.input_shapes[0]))
    np.testing.assert_array_equal(sums.ravel(), expected.ravel())


@pytest.mark.parametrize(
    "op",
    [
        operator_of("y[i,j] max= x[i,j-t+2]", i=3, j=5, t=3, x=(3, 7)),
        operator_of("y[i] min= x[2-i,3-k]", i=3, k=4),
        operator_of("y[2*a+b,0*a] += x[k,p-q+2,a]", a=2, b=2, k=3, p=3, q=3, x=(4, 6, 2), y=(4, 1)),
    ],
    ids=lambda op: op.describe(),
)
def test_a_plan_gathers_backwards(op) -> None:
    network = simplified(network_of(op))
    plan = build_plan(network, GROUP, quick_search(network))
    operands = integers_for(np.random.default_rng(0), op)
    found = interpret_plan(plan, {f"x{i}": x for i, x in enumerate(operands)}, {})["y"]
    np.testing.assert_array_equal(found, op.reference(*operands))


def drafted(op, views) -> PlannedMemory:
    (node,) = network_of(op).nodes
    memory = PlannedMemory("f64", views)
    memory.held["x0"] = [memory.value("x0", row_major(op.input_shapes[0]), "input")]
    lowered(memory, node)
    return memory


def test_a_view_is_read_backwards_by_one_stage() -> None:
    op = operator_of("y[i] = x[64-i]", i=LONG)
    (draft,) = drafted(op, {}).drafts
    x = np.arange(float(LONG))
    np.testing.assert_array_equal(draft.op.reference(x), x[::-1])


@pytest.mark.parametrize(
    "op",
    [
        operator_of("y[i] = x[64-i]", i=LONG),
        operator_of("y[i,j] = x[2-i,j]", i=3, j=40),
        operator_of("y[o,i,u,v] = x[i,o,4-u,4-v]", o=16, i=6, u=5, v=5),
        operator_of("y[i,j] = x[3-i,5-j] - z[i,j]", i=4, j=6),
        operator_of("y[i,j] = x[j,2-i] * z[3-j,i]", i=3, j=4),
    ],
    ids=lambda op: op.describe(),
)
def test_generated_code_reads_backwards(op) -> None:
    """A core takes one place after the other, its address going down."""
    network = simplified(network_of(op))
    plan = build_plan(network, GROUP, quick_search(network))
    operands = integers_for(np.random.default_rng(0), op)
    given = {f"x{i}": x for i, x in enumerate(operands)}
    expected = op.reference(*operands)
    np.testing.assert_array_equal(interpret_plan(plan, given, {})["y"], expected)
    artifact = emit_network(plan, GROUP, {})
    (found,) = run_emulated_many([(artifact, {**given, artifact.block: constant_block(plan, {})})])
    assert not isinstance(found, Exception), found
    np.testing.assert_array_equal(found["y"], expected)


@given(blocks=st.tuples(*[st.sampled_from((1, 2, 3, 6))] * 3), step=st.integers(1, 3))
@examples(40)
def test_a_copy_runs_along_the_blocks_that_its_operand_lies_in(blocks, step) -> None:
    op = operator_of(f"y[k,{step}*i,j] = x[i,j,k]", i=6, j=6, k=6)
    (node,), memory = network_of(op).nodes, PlannedMemory("f64")
    outer = [StoredDim(axis, n, 6 // n) for axis, n in enumerate(blocks)]
    inner = [StoredDim(axis, 1, n) for axis, n in enumerate(blocks)]
    form = canonical((6, 6, 6), [*outer, *inner], (0, 0, 0))
    memory.held["x0"] = [memory.value("x0", form, "input")]
    y, last = lowered(memory, node), memory.drafts[-1]
    x = np.arange(6.0**3).reshape(6, 6, 6)
    assert last.arguments[0] == ("x0", 0)  # read where it lies
    found = last.op.reference(form.stored(x).reshape(last.op.input_shapes[0]))
    np.testing.assert_array_equal(y.form.read(found), op.reference(x))


def test_cores_read_backwards_in_one_stage() -> None:
    assert len(drafted(operator_of("y[i] = x[64-i]", i=LONG), None).drafts) == 1


def test_what_is_read_backwards_is_copied_with_that_axis_outside_all_others() -> None:
    memory = drafted(operator_of("y[i,j,k] = x[i,63-j,k]", i=4, j=64, k=5), None)
    copy = memory.drafts[0].arguments[-1][1]
    assert [d.axis for d in memory.values[copy].form.dims] == [1, 0, 2]
