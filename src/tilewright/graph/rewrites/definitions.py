"""Definitions become the steps that machines have ways for (`ops.normal_form`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.graph.graph import Network, Node
from tilewright.ops.access import straight
from tilewright.ops.definition import Definition
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
            match node.op:
                case Definition() as op:
                    nodes += _steps(node, op, taken)
                case Assembly() as op:
                    nodes += _parts(node, op, taken)
                case _:
                    nodes.append(node)
        return replace(network, nodes=tuple(nodes))


def _parts(node: Node, op: Assembly, taken: set[str]) -> list[Node]:
    """Parts that are several steps, but for the last, which writes into the result."""
    nodes: list[Node] = []
    parts: list[tuple[Definition, tuple[str, ...]]] = []
    for part, numbers in zip(op.parts, op.reads, strict=True):
        read = tuple(node.inputs[i] for i in numbers)
        *before, last = _steps(Node(node.name, part, read, node.output), part, taken)
        if not isinstance(last.op, Definition):
            last = replace(last, name=_fresh(node.name, taken), output=_fresh(node.output, taken))
            before.append(last)
            whole = straight(part.out_shape)
            placed = Definition(part.out_shape, whole, (whole,), dtype=op.dtype)
            last = Node(node.name, placed, (last.output,), node.output)
        assert isinstance(last.op, Definition)
        nodes += before
        parts.append((last.op, last.inputs))
    names = tuple(dict.fromkeys(name for _, read in parts for name in read))
    reads = tuple(tuple(names.index(name) for name in read) for _, read in parts)
    whole_op = Assembly(tuple(part for part, _ in parts), reads, op.dtype)
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
