"""Definitions become the steps that machines have ways for (`ops.normal_form`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.graph.graph import Network, Node
from tilewright.ops.access import straight
from tilewright.ops.definition import Addend, Definition
from tilewright.ops.definitions import Assembly
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
            parts = () if node.op.is_named else node.op.definitions[0].addends
            if len(parts) == 1:
                nodes += _steps(node, parts[0].definition, taken)
            else:
                nodes += _parts(node, parts, taken) if parts else [node]
        return replace(network, nodes=tuple(nodes))


def _parts(node: Node, addends: Sequence[Addend], taken: set[str]) -> list[Node]:
    """Parts that are several steps, but for the last, which writes into the result."""
    nodes: list[Node] = []
    parts: list[tuple[Definition, tuple[str, ...]]] = []
    for addend in addends:
        part, read = addend.definition, tuple(node.inputs[i] for i in addend.reads)
        *before, last = _steps(Node(node.name, part, read, node.output), part, taken)
        if last.op.is_named:
            last = replace(last, name=_fresh(node.name, taken), output=_fresh(node.output, taken))
            before.append(last)
            whole = straight(part.out_shape)
            placed = Definition(part.out_shape, whole, (whole,), dtype=node.op.dtype)
            last = Node(node.name, placed, (last.output,), node.output)
        nodes += before
        parts.append((last.op.definitions[0].addends[0].definition, last.inputs))
    names = tuple(dict.fromkeys(name for _, read in parts for name in read))
    reads = tuple(tuple(names.index(name) for name in read) for _, read in parts)
    whole_op = Assembly(tuple(part for part, _ in parts), reads, node.op.dtype)
    return [*nodes, Node(node.name, whole_op, names, node.output)]


def _steps(node: Node, op: Definition, taken: set[str]) -> list[Node]:
    steps = normal_form(op)
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
