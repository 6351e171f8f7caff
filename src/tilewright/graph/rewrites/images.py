"""The network on fewer images, for groups that divide the batch.

In: a network whose tensors have images as their first dimension. Out: the network on the first
images; the given one if some tensor has images elsewhere, an operator computes across images, or an
output has none, since groups could not work on images of their own then.
"""

from __future__ import annotations

from dataclasses import fields, replace

from tilewright.common.errors import ShapeError, TilewrightError
from tilewright.graph.graph import Network, Node
from tilewright.ops import Op
from tilewright.ops.box import Box


def batch_of(network: Network) -> int | None:
    """The number of images: the first extent of all inputs but states; None if they differ."""
    held = {state.tensor for state in network.states}
    counts = {t.shape[0] if t.shape else 0 for t in network.inputs if t.name not in held}
    return counts.pop() if len(counts) == 1 else None


def fewer_images(network: Network, count: int) -> Network:
    """The network on its first `count` images; the given one if images cannot be divided."""
    batch = batch_of(network)
    if batch is None or count >= batch or network.states:
        return network
    inputs = tuple(replace(t, shape=(count, *t.shape[1:])) for t in network.inputs)
    try:
        nodes = tuple(_smaller(node, batch, count) for node in network.nodes)
        fewer = replace(network, inputs=inputs, nodes=nodes)
    except TilewrightError:
        return network
    before, after = network.tensors, fewer.tensors
    sizes = {(before[name].shape[:1], after[name].shape[:1]) for name in network.outputs}
    return fewer if sizes <= {((batch,), (count,))} else network


def _smaller(node: Node, batch: int, count: int) -> Node:
    shape = node.op.out_shape
    if not shape or shape[0] != batch:
        return node
    if any(f.name == "batch" for f in fields(node.op)):  # type: ignore[arg-type]  # a dataclass
        return replace(node, op=replace(node.op, batch=count))  # type: ignore[type-var]  # as above
    first = Box.whole(shape).along(0, (0, count))
    if node.op.computable(first) != first:
        raise ShapeError(f"{node.name}: its images are not computed one by one")
    op: Op = node.op.part(first)
    return replace(node, op=op)
