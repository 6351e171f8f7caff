"""Moves max pooling before order-preserving operators, which then work on fewer elements.

A bias, a rectifier or a bound maps the largest element of a window to the largest result, exactly,
since rounding preserves order, too. A normalisation does so if its scale is not negative: signs of
the scale are moved into the filters of the convolution before it, which changes only the signs of
products and sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.graph.graph import Network, Node
from tilewright.graph.names import fresh
from tilewright.ops import Binary, Op, Reshape, Unary

_RISING, _RISING_BY_ALPHA = ("clip", "identity", "relu"), ("hard_sigmoid", "leaky_relu")


def early_pooling(network: Network) -> Network:
    """The network with max pooling moved as early as results allow: before order-preserving nodes
    whose result only the pooling reads.
    """
    for pool in network.nodes:
        found = pool.op.pooling
        largest = found is not None and found.reduction == "max"
        if largest and pool.output not in network.outputs:
            network = _moved(network, pool.name)
    return network


def _moved(network: Network, name: str) -> Network:
    """The network with one pooling moved before order-preserving nodes, if there are any."""
    pool = next(node for node in network.nodes if node.name == name)
    passed: list[Node] = []
    before, conv = _read_once(network, pool.inputs[0]), None
    while before is not None and conv is None:
        if before.op.normalisation is not None:
            conv = _filtering(network, before)
        if conv is None and not _rises(before.op):
            break
        passed.insert(0, before)
        before = _read_once(network, before.inputs[0])
    if not passed:
        return network
    moved = _exchanged(passed, pool)
    ahead: list[Node] = []
    if conv is not None:
        ahead, moved[1] = _with_signs(network, conv, moved[1])
    nodes: list[Node] = []
    for node in network.nodes:
        if node is conv:
            nodes += [*ahead, replace(node, inputs=(node.inputs[0], ahead[-1].output))]
        elif node is pool:
            nodes += moved
        elif all(node is not other for other in passed):
            last = moved[-1].output
            inputs = (last if name == pool.output else name for name in node.inputs)
            nodes.append(replace(node, inputs=tuple(inputs)))
    return replace(network, nodes=tuple(nodes))


def _read_once(network: Network, name: str) -> Node | None:
    """The node that computes a tensor, if the tensor is read exactly once; else None."""
    return network.makers.get(name) if network.uses[name] == 1 else None


def _rises(op: Op) -> bool:
    """True if `op` is non-decreasing in its first operand."""
    if op.bias_addition is not None:
        return op.bias_addition.axis == 1
    return op.kind in _RISING or (op.kind in _RISING_BY_ALPHA and getattr(op, "alpha", -1.0) >= 0)


def _filtering(network: Network, norm: Node) -> Node | None:
    """The convolution whose filters can absorb the signs of the normalisation after it, or None."""
    weights = {t.name for t in network.weights}
    made = _read_once(network, norm.inputs[0])
    if made is None or made.op.convolution is None or made.inputs[1] not in weights:
        return None
    return made if weights.issuperset(norm.inputs[1:]) else None


def _exchanged(passed: Sequence[Node], pool: Node) -> list[Node]:
    """The pooling, then the nodes that it has moved before, each on the pooled shape."""
    found = [replace(pool, inputs=passed[0].inputs[:1])]
    for node in passed:
        op = replace(node.op, shape=pool.op.out_shape)  # type: ignore[type-var]  # a dataclass
        found.append(replace(node, op=op, inputs=(found[-1].output, *node.inputs[1:])))
    return found


def _with_signs(network: Network, conv: Node, norm: Node) -> tuple[list[Node], Node]:
    """Nodes that move the signs of the scale to the mean and the filters (the filters last), and
    the normalisation that reads them.
    """
    taken = {*network.tensors, *(node.name for node in network.nodes)}
    _, scale, shift, mean, variance = norm.inputs
    kind, filters = norm.op.dtype, conv.op.input_shapes[1]
    channels = norm.op.input_shapes[1]
    along = (*channels, *(1 for _ in filters[1:]))

    def made(word: str, op: Op, *inputs: str) -> Node:
        name = fresh(f"{norm.name}_{word}", taken)
        return Node(name, op, inputs, name)

    signs = made("signs", Unary("sign", channels, dtype=kind), scale)
    stood = made("signs_of_filters", Reshape(channels, along, kind), signs.output)
    ahead = [
        signs,
        stood,
        made("mean", Binary("mul", channels, channels, kind), mean, signs.output),
        made("scale", Unary("abs", channels, dtype=kind), scale),
        made("filters", Binary("mul", filters, along, kind), conv.inputs[1], stood.output),
    ]
    *_, own_mean, own_scale, _ = (node.output for node in ahead)
    inputs = (norm.inputs[0], own_scale, shift, own_mean, variance)
    return ahead, replace(norm, inputs=inputs)
