"""Constant folding: nodes over weights alone are computed once, ahead of all runs.

If the weights' numbers are known, the results become weights with numbers. Otherwise the nodes are
removed from the network, to be computed once the numbers are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from math import prod

import numpy as np

from tilewright.common.errors import GraphError
from tilewright.graph.graph import Network, Node, Tensor
from tilewright.graph.names import quoted
from tilewright.graph.weights import InParts, in_parts
from tilewright.ops.op import Array, Arrays

_LARGEST_ELEMENTS = 1 << 20
"""Results that are larger than this and than their operands are computed in each run."""


def fold_constants(network: Network) -> Network:
    """The network with nodes over known numbers folded: their results become weights with numbers,
    unless they are outputs.
    """
    states = {t.name for t in network.inputs}  # their values change
    kept, ahead = _parted(network, network.values.keys() - states)
    if not ahead:
        return network
    values = dict(network.values)
    for node in ahead:
        values[node.output] = _result(node, values)
    weights = (*network.weights, *map(_weight, ahead))
    return replace(network, weights=weights, nodes=kept, values=values)


def without_ahead(network: Network) -> tuple[Network, tuple[Node, ...]]:
    """The network without nodes that depend on weights alone, and these nodes in order.

    The results of these nodes become weights; weights that nothing else reads are dropped.
    """
    kept, ahead = _parted(network, {t.name for t in network.weights})
    if not ahead:
        return network, ()
    read = {name for node in kept for name in node.inputs} | set(network.outputs)
    weights = (*network.weights, *map(_weight, ahead))
    return replace(network, weights=tuple(t for t in weights if t.name in read), nodes=kept), ahead


class WithAhead(InParts):
    """Weights, and results of nodes over them, which are computed on each look-up."""

    def __init__(self, weights: Arrays, ahead: Iterable[Node]) -> None:
        self._weights, self._nodes = weights, {node.output: node for node in ahead}

    def __getitem__(self, name: str) -> Array:
        needed = {name}
        for node in reversed(self._nodes.values()):
            if node.output in needed:
                needed.update(node.inputs)
        known = {each: self._given(each)[each] for each in sorted(needed - self._nodes.keys())}
        for node in self._nodes.values():
            if node.output in needed:
                known[node.output] = _result(node, known)
        return known[name]

    def parts(self, name: str) -> Iterator[Array]:
        if name in self._nodes:
            return iter([self[name].reshape(-1)])
        return in_parts(self._given(name), name)

    def _given(self, name: str) -> Arrays:
        """The weights, among which this one has to be."""
        if name not in self._weights:
            raise GraphError(f"no numbers are given for {quoted(name)}")
        return self._weights

    def __contains__(self, name: object) -> bool:
        return name in self._nodes or name in self._weights

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._weights, *self._nodes)))

    def __len__(self) -> int:
        return len(list(iter(self)))


def _parted(network: Network, known: Set[str]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """The nodes that remain, and the nodes whose operands all follow from `known` tensors."""
    found, kept, ahead = set(known), list[Node](), list[Node]()
    for node in network.nodes:
        follows = node.inputs and found >= set(node.inputs) and _is_small(node)
        if follows and node.output not in network.outputs:
            found.add(node.output)
            ahead.append(node)
        else:
            kept.append(node)
    return tuple(kept), tuple(ahead)


def _result(node: Node, values: Arrays) -> Array:
    with np.errstate(all="ignore"):
        return node.op.reference(*(values[name] for name in node.inputs))


def _weight(node: Node) -> Tensor:
    return Tensor(node.output, node.op.out_shape, node.op.out_dtype)


def _is_small(node: Node) -> bool:
    """True if the result is at most as large as the largest operand or `_LARGEST_ELEMENTS`."""
    largest = max(prod(shape) for shape in node.op.input_shapes)
    return prod(node.op.out_shape) <= max(largest, _LARGEST_ELEMENTS)


REWRITE = fold_constants
