"""Memory of a plan: copies between forms whose blocks no loops run along together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.notation import define
from tilewright.graph.gradient import with_gradients
from tilewright.network.planning.form import StoredDim, canonical, permuted, row_major
from tilewright.network.planning.lowering import lowered
from tilewright.network.planning.memory import (
    Heading,
    PlannedMemory,
    in_order,
    unbordered,
    with_border,
)
from tilewright.ops import max_pool2d
from tilewright.seeds.mapping import mapping
from tilewright.seeds.steps import Stage


def in_blocks(shape, size):
    """Of the second axis so many lie together, behind the first."""
    rows, columns = shape
    dims = [StoredDim(1, size, columns // size), StoredDim(0, 1, rows), StoredDim(1, 1, size)]
    return canonical(shape, dims, (0, 0))


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        (6, 4, ["sum_layout", "sum"]),
        (4, 6, ["sum_layout", "sum"]),
        (6, 3, ["sum"]),
        (12, 4, ["sum"]),
    ],
)
def test_blocks_that_do_not_divide_each_other_are_left_by_a_copy(before, after, names):
    memory, shape = PlannedMemory("f64"), (3, 12)
    x = memory.value("x", in_blocks(shape, before))
    bias = memory.numbers("bias", np.arange(12.0), (1,))
    y = memory.value("y", in_blocks(shape, after))
    memory.map(Heading("sum", "elementwise"), "x0 + x1", y, (x, bias))
    assert [draft.name for draft in memory.drafts] == names

    numbers = np.arange(36.0).reshape(shape)
    held = {x.value: x.form.stored(numbers), bias.value: np.arange(12.0)}
    for draft in memory.drafts:
        *operands, (_, result) = draft.arguments
        shaped = zip(operands, draft.op.input_shapes, strict=True)
        read = [held[value].reshape(extents) for (_, value), extents in shaped]
        held[result] = draft.op.reference(*read)
    wanted = y.form.stored(numbers + np.arange(12.0))
    np.testing.assert_array_equal(held[y.value].ravel(), wanted.ravel())


def test_a_copy_into_the_order_of_c_needs_no_other():
    memory = PlannedMemory("f64")
    x = memory.value("x", in_blocks((3, 12), 6))
    y = memory.value("y", row_major((3, 12)))
    memory.map(Heading("copy", "layout"), "x0", y, (x,))
    assert [draft.name for draft in memory.drafts] == ["copy"]


def test_copies_of_a_transposed_tensor_are_those_of_the_tensor_in_whose_memory_it_lies():
    memory, shape = PlannedMemory("f64"), (3, 12)
    x = memory.value("x", row_major(shape))
    memory.held |= {"x": [x], "turned": [replace(x, form=permuted(x.form, (1, 0)))]}
    memory.transposed["turned"] = "x", (1, 0)
    copied = memory.in_form("turned", row_major((12, 3)))
    assert memory.in_form("x", in_order(shape, (1, 0))).value == copied.value
    assert [draft.name for draft in memory.drafts] == ["x_layout"]
    assert memory.in_form("turned", in_order((12, 3), (1, 0))).value == x.value


def pool_gradient():
    """The gradient by the images of a pooling whose windows do not overlap, as a node."""
    net = NetworkBuilder("pool", "f64")
    pool = max_pool2d((32, 32, 4, 4), 2)
    y = net.apply(pool, net.input("x", (32, 32, 4, 4)), name="pool")
    loss = define("loss[0] += y[n,c,h,w] * y[n,c,h,w]", y=pool.out_shape, dtype="f64")
    net = net.build((net.apply(loss, y, name="loss"),))
    found, gradients = with_gradients(net, "loss", ["x"])
    return next(node for node in found.nodes if node.output == gradients["x"])


def test_a_map_of_blocks_reads_operands_along_the_dimension_that_it_writes():
    node = pool_gradient()
    memory, numbers = PlannedMemory("f64"), dict[str, np.ndarray]()
    rng = np.random.default_rng(0)
    pixels_last, channels_last = (2, 1, 3, 0), (2, 3, 0, 1)
    for name, shape in dict(zip(node.inputs, node.op.input_shapes, strict=True)).items():
        order = channels_last if shape == (32, 32, 4, 4) else pixels_last
        memory.held[name] = [memory.value(name, in_order(shape, order))]
        numbers[name] = rng.integers(-3, 4, shape).astype(float)
    around = (0, 0, 1, 1)
    y = lowered(memory, node, in_order(node.op.out_shape, channels_last, around, around))
    small = [name for name in numbers if numbers[name].shape != (32, 32, 4, 4)]
    copies = [draft.name for draft in memory.drafts if draft.name.endswith("_layout")]
    assert copies == [f"{name}_layout" for name in small]

    held = {memory.held[n][0].value: memory.held[n][0].form.stored(x) for n, x in numbers.items()}
    held |= {n: v.numbers for n, v in enumerate(memory.values) if v.numbers is not None}
    *before, last = [draft for draft in memory.drafts if "border" not in draft.name]
    for draft in (*before, last):
        *operands, (_, result) = draft.arguments
        shaped = zip(operands, draft.op.input_shapes, strict=True)
        held[result] = draft.op.reference(*(held[v].reshape(s) for (_, v), s in shaped))
    expected = node.op.reference(*(numbers[name] for name in node.inputs))
    np.testing.assert_array_equal(y.form.read(held[y.value]), expected)

    steps, block = [*mapping(last.op).spaces[0].combinations()], len(last.arguments) - 2
    once = {tuple(s for s in own if s != Stage(f"x{block}", "i0")) for own in steps}
    assert len(once) == len(steps) // 2, "which place of a block: once, or for each tile"


@pytest.mark.parametrize("views", [None, {}])
def test_what_gathers_reads_a_tensor_as_it_lies_only_where_stages_work_on_views(views):
    """And of a tensor in blocks a copy in either case."""
    shape = (3, 12)
    for form in (in_blocks(shape, 6), with_border(row_major(shape), (0, 1), (0, 1))):
        memory = PlannedMemory("f64", views)
        memory.held["x"] = [memory.value("x", form)]
        found = memory.source("x")
        stays = views is not None and form != in_blocks(shape, 6)
        assert (found.form == form, len(memory.drafts)) == (stays, 0 if stays else 1)
        assert found.form == (form if stays else unbordered(form))
