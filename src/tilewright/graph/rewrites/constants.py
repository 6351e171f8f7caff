"""Nodes whose operands are all known numbers: computed once, ahead of all runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from tilewright.graph.graph import Network, Node, Tensor

_LARGEST_ELEMENTS = 1 << 20
"""Results above this size, and above that of their operands, are computed in each run."""


@dataclass(frozen=True)
class FoldConstants:
    """The result of such a node becomes a weight with its numbers, unless it is an output."""

    name: ClassVar[str] = "constants"

    def apply(self, network: Network) -> Network:
        """The network whose nodes all need an input, or a weight whose numbers are not known."""
        values, weights = dict(network.values), list(network.weights)
        kept, known = [], values.keys() - {t.name for t in network.inputs}  # states change
        for node in network.nodes:
            ahead = node.inputs and known >= set(node.inputs) and is_small(node)
            if not ahead or node.output in network.outputs:
                kept.append(node)
                continue
            with np.errstate(all="ignore"):
                values[node.output] = node.op.reference(*(values[name] for name in node.inputs))
            known.add(node.output)
            weights.append(Tensor(node.output, node.op.out_shape, node.op.out_dtype))
        if len(kept) == len(network.nodes):
            return network
        return replace(network, weights=tuple(weights), nodes=tuple(kept), values=values)


def is_small(node: Node) -> bool:
    """True if the result is no larger than the largest operand or `_LARGEST_ELEMENTS`."""
    largest = max(prod(shape) for shape in node.op.input_shapes)
    return prod(node.op.out_shape) <= max(largest, _LARGEST_ELEMENTS)


REWRITE = FoldConstants()
