"""Rematerialisation: activations of a training step that are computed again instead of kept.

In: a training step and a memory limit. Out: the step in which the backward pass reads copies of
some activations, computed just before. Activations are chosen by least time per byte until the live
bytes are within the limit; choices that turn out to be unnecessary are dropped. Nodes whose results
the copies need and nothing keeps are repeated, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from tilewright.common.dtypes import dtype
from tilewright.graph.graph import Network, Node
from tilewright.graph.liveness import most_bytes, needed_spans
from tilewright.graph.training import passes_of

AGAIN = "_again"
"""Suffix of the names of repeated nodes."""


def recomputing(network: Network, limit_bytes: int, flops_per_byte: float = 0.0) -> Network:
    """The network with its live bytes reduced to `limit_bytes`, or as far as repeating nodes can;
    unchanged if they are within the limit, or if there are no states. `flops_per_byte` is the
    number of operations that the machine performs while main memory moves a byte.
    """
    if not network.states:
        return network
    own, again = _Step(network), list[str]()
    needed = own.needed_bytes(again)
    for name in own.cheapest(flops_per_byte):
        if needed <= limit_bytes:
            break
        less = own.needed_bytes([*again, name])
        if less < needed:
            again, needed = [*again, name], less
    for name in reversed(again):  # costliest first: a later choice may have made it unnecessary
        rest = [other for other in again if other != name]
        if own.needed_bytes(rest) <= max(needed, limit_bytes):
            again = rest
    return own.repeating(again) if again else network


class _Step:
    """A training step: the `forward` nodes by output, and the results `kept` for backward nodes."""

    def __init__(self, network: Network) -> None:
        self.network, passes = network, passes_of(network)
        self.forward = {n.output: n for n in network.nodes if passes[n.name] == "forward"}
        backward = (n for n in network.nodes if n.output not in self.forward)
        self.kept = {name for n in backward for name in n.inputs if name in self.forward}

    def cheapest(self, flops_per_byte: float) -> list[str]:
        """The tensors that may be repeated, least time per byte first."""
        outputs = {*self.network.outputs}
        time = {
            name: self._flops(name, flops_per_byte) / size
            for name in self.kept
            if name not in outputs and (size := self._bytes(name))
        }
        order = [*self.forward]
        return sorted(time, key=lambda name: (time[name], order.index(name)))

    def _flops(self, name: str, per_byte: float) -> float:
        """The cost of repeating a tensor, in operations: of arithmetic or of moving its bytes."""
        made = [self.forward[own] for own in self.needs(name, ())]
        read = {x for node in made for x in node.inputs} - {node.output for node in made}
        moved = sum(self._bytes(x) for x in (name, *read))
        return max(sum(node.op.flops for node in made), per_byte * moved)

    def _bytes(self, name: str) -> int:
        tensor = self.network.tensors[name]
        return prod(tensor.shape) * dtype(tensor.dtype).size_bytes

    def needed_bytes(self, again: Sequence[str]) -> int:
        """The most live bytes if the tensors `again` are computed again."""
        step = self.repeating(again) if again else self.network
        return most_bytes(needed_spans(step).values())

    def needs(self, name: str, again: tuple[str, ...]) -> list[str]:
        """The tensors to compute, in order, to obtain `name` if `again` are not kept."""
        found: dict[str, None] = {}

        def add(own: str) -> None:
            for read in self.forward[own].inputs:
                kept = read in self.kept and read not in again
                if read in self.forward and not kept and read not in found:
                    add(read)
            found[own] = None

        add(name)
        return [*found]

    def repeating(self, names: Sequence[str]) -> Network:
        """The step with these tensors computed again just before backward nodes read them."""
        nodes: list[Node] = []
        made: dict[str, str] = {}
        wanted = {*names}
        for node in self.network.nodes:
            if node.output not in self.forward:
                for name in (n for n in node.inputs if n in wanted and n not in made):
                    nodes += self._copies(name, tuple(names), made)
                node = replace(node, inputs=tuple(made.get(n, n) for n in node.inputs))
            nodes.append(node)
        return replace(self.network, nodes=tuple(nodes))

    def _copies(self, name: str, again: tuple[str, ...], made: dict[str, str]) -> Iterator[Node]:
        for own in self.needs(name, again):
            if own not in made:
                node = self.forward[own]
                made[own] = f"{own}{AGAIN}"
                inputs = tuple(made.get(n, n) for n in node.inputs)
                yield Node(f"{node.name}{AGAIN}", node.op, inputs, made[own])
