"""Channel shuffles, which frameworks write as a reshape, a transpose and a reshape: one operator,
which needs no C array, and which a slice behind it joins.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.graph.graph import Network, Node
from tilewright.graph.rewrites.dead_nodes import without_dead_nodes
from tilewright.ops import Op, Shuffle, Slice


def with_shuffles(network: Network) -> Network:
    """The network with a shuffle in place of each such three nodes, and of a slice of one."""
    made: dict[str, Node] = {}
    for node in network.nodes:
        before = [made[name] for name in node.inputs[:1] if name in made]
        found = _shuffle(node.op, before[0], made) if before else None
        made[node.output] = replace(node, op=found[0], inputs=(found[1],)) if found else node
    nodes = tuple(made.values())
    return network if nodes == network.nodes else without_dead_nodes(replace(network, nodes=nodes))


def _shuffle(op: Op, before: Node, made: dict[str, Node]) -> tuple[Shuffle, str] | None:
    """The shuffle that an operator behind a node ends, and what it reads."""
    if isinstance(op, Slice) and isinstance(before.op, Shuffle):
        sliced = _sliced(op, before.op)
        return (sliced, before.inputs[0]) if sliced else None
    cut = made.get(before.inputs[0]) if before.inputs else None
    order = before.op.permutation
    if order is None or cut is None or not (op.reshapes and cut.op.reshapes):
        return None
    (shape,), split = cut.op.input_shapes, cut.op.out_shape
    if op.out_shape != shape or len(split) != len(shape) + 1:
        return None
    for axis in range(len(shape)):
        parts, each = split[axis : axis + 2]
        turned = (*range(axis), axis + 1, axis, *range(axis + 2, len(split)))
        if split == (*shape[:axis], parts, each, *shape[axis + 1 :]) and order == turned:
            return Shuffle(shape, axis, parts, 0, each, op.out_dtype), cut.inputs[0]
    return None


def _sliced(op: Slice, shuffle: Shuffle) -> Shuffle | None:
    """The shuffle of what a slice takes along its axis, where that is as much of each part."""
    axis, parts = shuffle.axis, shuffle.parts
    whole = all(op.counts[d] == extent for d, extent in enumerate(shuffle.out_shape) if d != axis)
    start, count = op.start[axis], op.counts[axis]
    if not whole or op.step[axis] != 1 or start % parts or count % parts:
        return None
    return replace(shuffle, start=shuffle.start + start // parts, count=count // parts)
