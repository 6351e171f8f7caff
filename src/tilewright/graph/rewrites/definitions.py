"""Definitions become the steps that machines have ways for (`ops.normal_form`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.graph.graph import Network, Node
from tilewright.ops.definition import Definition
from tilewright.ops.normal_form import normal_form


@dataclass(frozen=True)
class Definitions:
    """Takes a node apart whose definition is several steps, or a named operator's."""

    name: ClassVar[str] = "definitions"

    def apply(self, network: Network) -> Network:
        """The network whose definitions are in normal form."""
        taken = {*network.tensors, *(node.name for node in network.nodes)}
        nodes: list[Node] = []
        for node in network.nodes:
            nodes += _steps(node, taken) if isinstance(node.op, Definition) else [node]
        return replace(network, nodes=tuple(nodes))


def _steps(node: Node, taken: set[str]) -> list[Node]:
    assert isinstance(node.op, Definition)
    steps = normal_form(node.op)
    tensors, nodes = list(node.inputs), []
    for number, step in enumerate(steps, 1):
        inputs = tuple(tensors[i] for i in step.operands)
        if number == len(steps):
            nodes.append(Node(node.name, step.op, inputs, node.output))
        else:
            name = _fresh(f"{node.name}_{number}", taken)
            nodes.append(Node(name, step.op, inputs, name))
            tensors.append(name)
    return nodes


def _fresh(name: str, taken: set[str]) -> str:
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


REWRITE = Definitions()
