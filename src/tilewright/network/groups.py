"""Nodes gathered into groups that one stage may compute: a node, and the elementwise operators that
alone use its result.

A graph rewrite, in words: convolution -> batch_norm -> relu becomes one group whose `steps` follow
the convolution. What a step reads beside must be there before the group's first node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.graph.graph import Network, Node
from tilewright.network.expressions import elementwise


@dataclass
class Group:
    """`first` and the elementwise nodes after it, each with the operand that it takes from the one
    before.
    """

    first: Node
    steps: list[tuple[Node, int]] = field(default_factory=list)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes in order."""
        return (self.first, *(node for node, _ in self.steps))

    @property
    def output(self) -> str:
        """The tensor that is made."""
        return self.nodes[-1].output


def grouped(network: Network, *, fuse: bool) -> list[Group]:
    """The groups in order; without `fuse` each node is one."""
    consumers: dict[str, list[Node]] = {}
    for node in network.nodes:
        for name in dict.fromkeys(node.inputs):
            consumers.setdefault(name, []).append(node)
    known = {t.name for t in (*network.inputs, *network.weights)}
    taken: set[str] = set()
    groups = []
    for node in network.nodes:
        if node.name in taken:
            continue
        group = Group(node)
        if fuse:
            _extend(group, consumers, set(network.outputs), known)
        taken.update(member.name for member in group.nodes)
        known.add(group.output)
        groups.append(group)
    return groups


def _extend(
    group: Group, consumers: Mapping[str, Sequence[Node]], outputs: set[str], known: set[str]
) -> None:
    """Add the elementwise operators that alone use the result."""
    while group.output not in outputs and len(consumers.get(group.output, ())) == 1:
        (node,) = consumers[group.output]
        found = elementwise(node.op)
        if found is None or node.inputs.count(group.output) != 1:
            return
        at = node.inputs.index(group.output)
        whole = node.op.input_shapes[at] == node.op.out_shape
        others = [name for name in node.inputs if name != group.output]
        if not whole or any(name not in known for name in others):
            return
        group.steps.append((node, at))
