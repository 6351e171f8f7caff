"""Operators that move elements: concatenation, slices, padding, resizing and transposes as stages.

In: the operator and what the plan has so far. Out: drafts, appended: mappings whose accesses say
where an element comes from and goes to. A transpose moves nothing: the tensor lies as before, and
only its dimensions are called otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.graph.graph import Node
from tilewright.network.access import Index, access_of, plain
from tilewright.network.form import canonical, permuted, row_major
from tilewright.network.memory import Located, Memory, bordered, in_order
from tilewright.ops import Concat, Pad, Reshape, Resize, Slice, SpaceToDepth, Transpose
from tilewright.ops.mapping import Mapping
from tilewright.ops.op import Shape


def transposed(memory: Memory, node: Node, op: Transpose) -> Located:
    """The operand's memory with its dimensions permuted."""
    x = memory.held[node.inputs[0]][0]
    return Located(x.value, permuted(x.form, op.order), tuple(range(len(op.order))))


def reshaped(memory: Memory, node: Node, op: Reshape) -> Located:
    """The operand in C order, with the new extents."""
    x = memory.in_form(node.inputs[0], row_major(op.shape))
    return Located(x.value, row_major(op.out_shape), tuple(range(len(op.out_shape))))


def padded(memory: Memory, node: Node, op: Pad) -> Located:
    """A copy inside a border; the border belongs to the result."""
    (name,) = node.inputs
    wider = bordered(memory.held[name][0].form, op.before, op.after)
    x = memory.in_form(name, wider, op.value)
    form = canonical(op.out_shape, wider.dims, (0,) * len(op.out_shape))
    return Located(x.value, form, tuple(range(len(op.out_shape))))


def sliced(memory: Memory, node: Node, op: Slice) -> Located:
    """Elements a step apart."""
    numbers = zip(op.start, op.step, strict=True)
    source = [(((axis, step),), start) for axis, (start, step) in enumerate(numbers)]
    return _moved(memory, node, op.out_shape, op.counts, source, plain(len(op.counts)))


def resized(memory: Memory, node: Node, op: Resize) -> Located:
    """A loop over the elements and one over the copies of each, along every dimension."""
    extents = tuple(n for pair in zip(op.shape, op.factors, strict=True) for n in pair)
    rank = len(op.shape)
    source = [(((2 * axis, 1),), 0) for axis in range(rank)]
    target = [(((2 * axis, f), (2 * axis + 1, 1)), 0) for axis, f in enumerate(op.factors)]
    return _moved(memory, node, op.out_shape, extents, source, target)


def space_to_depth(memory: Memory, node: Node, op: SpaceToDepth) -> Located:
    """The pixels of a block become channels."""
    batch, _, rows, columns = op.out_shape
    block, channels = op.block, op.channels
    extents = (batch, channels, rows, block, columns, block)
    source = (
        (((0, 1),), 0),
        (((1, 1),), 0),
        (((2, block), (3, 1)), 0),
        (((4, block), (5, 1)), 0),
    )
    target = (
        (((0, 1),), 0),
        (((3, block * channels), (5, channels), (1, 1)), 0),
        (((2, 1),), 0),
        (((4, 1),), 0),
    )
    return _moved(memory, node, op.out_shape, extents, source, target)


def concatenated(memory: Memory, node: Node, op: Concat) -> Located:
    """Each tensor into its part of the result, all in the order of the first."""
    tensors = [memory.source(name) for name in node.inputs]
    order = [d.axis for d in tensors[0].form.dims]
    y, start = memory.result(node.output, in_order(op.out_shape, order)), 0
    for x, shape in zip(tensors, op.input_shapes, strict=True):
        index = [(((axis, 1),), start if axis == op.axis else 0) for axis in range(len(shape))]
        _move(memory, node, shape, (x, y), (plain(len(shape)), index))
        start += shape[op.axis]
    return y


def _moved(
    memory: Memory,
    node: Node,
    shape: Shape,
    extents: Sequence[int],
    source: Sequence[Index],
    target: Sequence[Index],
) -> Located:
    """A new tensor whose elements at `target` are the operand's elements at `source`."""
    (name,) = node.inputs
    x = memory.source(name)
    y = memory.result(node.output, in_order(shape, [d.axis for d in x.form.dims]))
    _move(memory, node, extents, (x, y), (source, target))
    return y


def _move(
    memory: Memory,
    node: Node,
    extents: Sequence[int],
    places: tuple[Located, Located],
    indices: tuple[Sequence[Index], Sequence[Index]],
) -> None:
    x, y = places
    source, target = (
        access_of(place.form, index, extents) for place, index in zip(places, indices, strict=True)
    )
    mapping = Mapping(tuple(extents), target, (source,), "x0", memory.values[y.value].dtype)
    memory.mapped(node.name, "layout", mapping, y, (x,), nodes=(node.name,))
