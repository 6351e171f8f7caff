"""Live ranges of the tensors of a network, independent of their layout.

In: a network. Out: for each tensor its bytes and the first and last node that needs it. Views
occupy no memory, and nodes that can be fused are.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from math import prod

from tilewright.common.dtypes import dtype
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.fusion import fused_nodes, members

Span = tuple[int, int, int]
"""Bytes, and the numbers of the first and the last node."""


def needed_spans(network: Network) -> dict[str, Span]:
    """The span of each tensor that has memory. Inputs, weights and outputs live throughout, but a
    state's next value shares the memory of the state.
    """
    fused, tensors = fused_nodes(network), network.tensors
    memory = {t: t for t in tensors} | {state.next: state.tensor for state in network.states}
    found: dict[str, Span] = {}
    given = {t.name for t in (*network.inputs, *network.weights)}
    lasting = given | set(network.outputs)
    for number, node in enumerate(fused.nodes):
        op = members(node)[-1].op
        if op.reshapes or op.permutation is not None:
            memory[node.output] = memory[node.inputs[0]]
        for name in {memory[t] for t in (*node.inputs, node.output)}:
            size = prod(tensors[name].shape) * dtype(tensors[name].dtype).size_bytes
            first = found[name][1] if name in found else number
            ends = (0, len(fused.nodes)) if name in lasting else (first, number)
            found[name] = (size, *ends)
    return found


def most_bytes(found: Iterable[Span]) -> int:
    """The most bytes that are live at once."""
    change: dict[int, int] = {}
    for size, first, last in found:
        change[first] = change.get(first, 0) + size
        change[last + 1] = change.get(last + 1, 0) - size
    return max(accumulate(change[at] for at in sorted(change)), default=0)
