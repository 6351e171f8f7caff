"""A graph's nodes gathered into groups that are computed in one go.

In: a network. Out: groups in an order in which they can run: a matrix product or convolution with
the per-channel and elementwise operators that follow it alone, a chain of elementwise operators, or
any other node by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.graph.graph import Network, Node
from tilewright.ops import (
    BatchNorm,
    Bias,
    Binary,
    Conv2d,
    Gemm,
    LocalResponseNorm,
    Reshape,
    Softmax,
    SpaceToDepth,
    Unary,
)
from tilewright.ops.op import Shape
from tilewright.targets.host.network.constants import Affine


@dataclass(frozen=True)
class Elementwise:
    """An operator on each element; `other` is the tensor of a binary one, `reversed` if that is
    the first operand. A vector lies along `axis`.
    """

    op: Unary | Binary
    other: str = ""
    reversed: bool = False
    axis: int | None = None


@dataclass
class Group:
    """Nodes that are computed in one go.

    `first` is the node that reads `source`; `affine` are the biases and normalisations per channel
    that follow, `steps` the elementwise operators after those. `output` names the result.
    """

    first: Node
    members: list[str] = field(default_factory=list)
    affine: list[Affine] = field(default_factory=list)
    steps: list[Elementwise] = field(default_factory=list)
    output: str = ""
    shape: Shape = ()
    flops: int = 0

    @property
    def reads_row_major(self) -> bool:
        """Whether it takes its input as a C array and no other way."""
        return isinstance(self.first.op, Softmax | LocalResponseNorm | Reshape | SpaceToDepth)

    @property
    def is_product(self) -> bool:
        """Whether it begins with a convolution or matrix product."""
        return isinstance(self.first.op, Conv2d | Gemm)


def grouped(network: Network) -> list[Group]:
    """The groups of a network in order; each node is in one of them."""
    consumers: dict[str, list[Node]] = {}
    for node in network.nodes:
        for name in node.inputs:
            consumers.setdefault(name, []).append(node)
    weights = {tensor.name for tensor in network.weights}
    known = weights | {tensor.name for tensor in network.inputs}
    taken: set[str] = set()
    groups = []
    for node in network.nodes:
        if node.name in taken:
            continue
        group = Group(node, [node.name], output=node.output, shape=node.op.out_shape)
        group.flops = node.op.flops
        if not group.is_product:
            _begin(group, weights)
        if group.is_product or isinstance(node.op, Unary | Binary | Bias | BatchNorm):
            _extend(group, consumers, set(network.outputs), known, weights)
        taken.update(group.members)
        known.add(group.output)
        groups.append(group)
    return groups


def source(group: Group, weights: set[str]) -> str:
    """The tensor that a chain of elementwise operators begins with."""
    inputs = group.first.inputs
    if isinstance(group.first.op, Binary) and (
        inputs[0] in weights or group.first.op.a_shape != group.shape
    ):
        return inputs[1]
    return inputs[0]


def _begin(group: Group, weights: set[str]) -> None:
    """Take up the first node's own operation."""
    node = group.first
    match node.op:
        case Bias() | BatchNorm() if _affine(node, weights):
            group.affine.append(_affine_of(node))
        case Bias(shape, axis, 1.0, kind):
            op = Binary("add", shape, shape, kind)
            group.steps.append(Elementwise(op, node.inputs[1], axis=axis))
        case Unary():
            group.steps.append(Elementwise(node.op))
        case Binary():
            first = source(group, weights)
            other = node.inputs[1] if first == node.inputs[0] else node.inputs[0]
            group.steps.append(Elementwise(node.op, other, reversed=first != node.inputs[0]))
        case _:
            pass


def _extend(
    group: Group,
    consumers: Mapping[str, Sequence[Node]],
    outputs: set[str],
    known: set[str],
    weights: set[str],
) -> None:
    """Add the operators that alone use the result, as long as what else they read is there."""
    while group.output not in outputs and len(consumers.get(group.output, ())) == 1:
        (node,) = consumers[group.output]
        match node.op:
            case Bias() | BatchNorm() if _affine(node, weights) and not group.steps:
                if not _foldable(group, node):
                    return
                group.affine.append(_affine_of(node))
            case Unary():
                group.steps.append(Elementwise(node.op))
            case Binary() if node.op.out_shape == group.shape:
                at = node.inputs.index(group.output)
                other = node.inputs[1 - at]
                if other not in known or other == group.output:
                    return
                group.steps.append(Elementwise(node.op, other, reversed=at == 1))
            case _:
                return
        group.members.append(node.name)
        group.output = node.output
        group.flops += node.op.flops


def _affine(node: Node, weights: set[str]) -> bool:
    """Whether a node scales and shifts channels by numbers that are weights."""
    along_channels = not isinstance(node.op, Bias) or node.op.axis == 1
    return along_channels and all(name in weights for name in node.inputs[1:])


def _foldable(group: Group, node: Node) -> bool:
    """A product's C operand would have to be scaled too."""
    op = group.first.op
    return not (isinstance(op, Gemm) and op.beta != 0 and isinstance(node.op, BatchNorm))


def _affine_of(node: Node) -> Affine:
    match node.op:
        case BatchNorm(_, epsilon, _):
            return Affine("batch_norm", node.inputs[1:], epsilon)
        case Bias(_, _, scale, _):
            return Affine("bias", node.inputs[1:], scale)
        case _:
            raise AssertionError(node.op)
