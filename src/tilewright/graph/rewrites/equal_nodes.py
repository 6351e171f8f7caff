"""Common subexpressions: nodes with equal operators and operands are computed once."""

from __future__ import annotations

from tilewright.graph.graph import Network
from tilewright.graph.rewriting import reading_instead
from tilewright.ops import Op


def without_equal_nodes(network: Network) -> Network:
    """The network without nodes that repeat an earlier one, except for outputs."""
    first: dict[tuple[Op, tuple[str, ...]], str] = {}
    instead: dict[str, str] = {}
    for node in network.nodes:
        operands = tuple(instead.get(name, name) for name in node.inputs)
        known = first.setdefault((node.op, operands), node.output)
        if known != node.output and node.output not in network.outputs:
            instead[node.output] = known
    return reading_instead(network, instead)


REWRITE = without_equal_nodes
