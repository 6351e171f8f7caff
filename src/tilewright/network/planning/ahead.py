"""Nodes that depend on weights alone, computed ahead of all runs with the constants.

In: a network. Out: the network without these nodes, whose results become weights of it, and
the nodes; then, given the numbers of weights, the numbers of these results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from tilewright.codegen.artifact import Array
from tilewright.common.errors import GraphError
from tilewright.graph.graph import Network, Node, Tensor
from tilewright.graph.names import quoted
from tilewright.graph.rewrites.constants import is_small


def without_ahead(network: Network) -> tuple[Network, tuple[Node, ...]]:
    """(network without the nodes that depend on weights alone, those nodes in order)."""
    weights = {t.name: t for t in network.weights}
    ahead, nodes = list[Node](), list[Node]()
    for node in network.nodes:
        known = node.inputs and weights.keys() >= set(node.inputs)
        if known and node.output not in network.outputs and is_small(node):
            weights[node.output] = Tensor(node.output, node.op.out_shape, node.op.out_dtype)
            ahead.append(node)
        else:
            nodes.append(node)
    if not ahead:
        return network, ()
    read = {name for node in nodes for name in node.inputs} | set(network.outputs)
    kept = tuple(t for name, t in weights.items() if name in read)
    return replace(network, weights=kept, nodes=tuple(nodes)), tuple(ahead)


class WithAhead(Mapping[str, Array]):
    """Weights, and results of nodes over them, computed anew at each look-up."""

    def __init__(self, weights: Mapping[str, Array], ahead: Iterable[Node]) -> None:
        self._weights, self._nodes = weights, {node.output: node for node in ahead}

    def __getitem__(self, name: str) -> Array:
        if (node := self._nodes.get(name)) is None:
            if name not in self._weights:
                raise GraphError(f"no numbers are given for {quoted(name)}")
            return self._weights[name]
        operands = [self[operand] for operand in node.inputs]
        with np.errstate(all="ignore"):
            return node.op.reference(*operands)

    def __contains__(self, name: object) -> bool:
        return name in self._nodes or name in self._weights

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._weights, *self._nodes)))

    def __len__(self) -> int:
        return len(list(iter(self)))
