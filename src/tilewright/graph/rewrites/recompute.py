"""Activations of a training step that are computed again instead of kept.

In: a training step and a limit of memory. Out: the step whose backward pass reads copies of some
activations, computed just before: the cheapest ones for their bytes, until what lives at once is
within the limit. Nodes that the copies need and nobody keeps are repeated with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from tilewright.graph.graph import Network, Node
from tilewright.graph.liveness import most_bytes, needed_spans
from tilewright.graph.training import passes_of

AGAIN = "_again"
"""The end of the names of repeated nodes."""


@dataclass(frozen=True)
class Recompute:
    """Keeps what lives at once within `limit_bytes`, as far as repeated nodes can."""

    name: ClassVar[str] = "recompute"
    limit_bytes: int

    def apply(self, network: Network) -> Network:
        """The network itself if it is within the limit or has no states."""
        if not network.states:
            return network
        own, again, found = _Step(network), list[str](), network
        needed = most_bytes(needed_spans(network).values())
        for name in own.cheapest():
            if needed <= self.limit_bytes:
                break
            trial = own.repeating([*again, name])
            less = most_bytes(needed_spans(trial).values())
            if less < needed:
                again, found, needed = [*again, name], trial, less
        return found


class _Step:
    """A training step: who makes each tensor, and which the backward pass reads."""

    def __init__(self, network: Network) -> None:
        self.network, passes = network, passes_of(network)
        self.forward = {n.output: n for n in network.nodes if passes[n.name] == "forward"}
        backward = (n for n in network.nodes if n.output not in self.forward)
        self.kept = {name for n in backward for name in n.inputs if name in self.forward}

    def cheapest(self) -> Iterator[str]:
        """The tensors that might be repeated, the largest for their operations first."""
        tensors = self.network.tensors
        outputs = {*self.network.outputs}
        cost = {
            name: sum(self.forward[n].op.flops for n in self.needs(name, ())) / size
            for name in self.kept
            if name not in outputs and (size := prod(tensors[name].shape))
        }
        order = [*self.forward]
        yield from sorted(cost, key=lambda name: (cost[name], order.index(name)))

    def needs(self, name: str, again: tuple[str, ...]) -> list[str]:
        """The tensors that have to be computed for one of them, in order."""
        found: dict[str, None] = {}

        def add(own: str) -> None:
            for read in self.forward[own].inputs:
                kept = read in self.kept and read not in again
                if read in self.forward and not kept and read not in found:
                    add(read)
            found[own] = None

        add(name)
        return [*found]

    def repeating(self, names: list[str]) -> Network:
        """The step with these tensors computed again before they are first read backwards."""
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
