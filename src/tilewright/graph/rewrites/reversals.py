"""Long reversals in two short ones, for cores that copy each place of a reversed axis by itself.

In: a network. Out: the same network, in which a tensor that is read backwards along more than
`most` places is reversed before: within blocks, then block by block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

from tilewright.graph.graph import Network, Node
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import definitions_in


@dataclass(frozen=True)
class Reversals:
    """Leaves no reversal of more than `most` places that has fewer than `most` squared."""

    name: ClassVar[str] = "reversals"
    most: int

    def apply(self, network: Network) -> Network:
        """The network with short reversals, the given one where none is long."""
        nodes: list[Node] = []
        for node in network.nodes:
            nodes += self._replaced(node)
        return network if len(nodes) == len(network.nodes) else replace(network, nodes=tuple(nodes))

    def _replaced(self, node: Node) -> list[Node]:
        parts = definitions_in(node.op)
        if len(parts) != 1 or parts[0].has_look_ups:
            return [node]
        (op,), before, inputs = parts, list[Node](), list(node.inputs)
        operands = list(op.operands)
        for i, access in enumerate(op.operands):
            for d, size in enumerate(access.shape):
                if self._is_long(op, access, d) and size <= self.most**2:
                    name = f"{node.name}_reversed_{i}_{d}"
                    kind = op.numerics.operands[i].name
                    within, by_block = _reversing(operands[i], d, kind)
                    before += [
                        Node(f"{name}_within", within, (inputs[i],), f"{name}_within"),
                        Node(name, by_block, (f"{name}_within",), name),
                    ]
                    inputs[i] = name
                    operands[i] = _from_behind(operands[i], d, by_block.out_shape[d])
        if not before:
            return [node]
        forwards = replace(op, operands=tuple(operands))
        return [*before, replace(node, op=forwards, inputs=tuple(inputs))]

    def _is_long(self, op: Definition, access: Access, d: int) -> bool:
        steps = [(op.extents[a], step) for a, step in access.terms[d]]
        return all(s < 0 for _, s in steps) and any(n > self.most for n, _ in steps)


def _reversing(access: Access, d: int, kind: str) -> tuple[Definition, Definition]:
    """The reversals of dimension `d` within blocks, the last one filled, and block by block."""
    before, size, after = access.shape[:d], access.shape[d], access.shape[d + 1 :]
    length = min(range(1, size + 1), key=lambda n: max(n, ceil(size / n)))
    blocks = ceil(size / length)
    extents = (*before, blocks, length, *after)
    apart = straight(extents)
    single = [(term,) for (term,) in apart.terms]

    def joint(places: int, step: int, first: int) -> Access:
        terms = (*single[:d], ((d, length), (d + 1, step)), *single[d + 2 :])
        offsets = tuple(first if a == d else 0 for a in range(len(access.shape)))
        beyond = None if places == blocks * length else access.fill or 0.0
        return Access((*before, places, *after), terms, offsets, beyond)

    within = Definition(extents, apart, (joint(size, -1, length - 1),), dtype=kind)
    turned = _from_behind(apart, d, blocks)
    return within, Definition(extents, joint(blocks * length, 1, 0), (turned,), dtype=kind)


def _from_behind(access: Access, d: int, size: int) -> Access:
    """The access to a tensor of which dimension `d` is reversed and has `size` places."""
    shape, terms, offsets = list(access.shape), list(access.terms), list(access.offsets)
    shape[d], offsets[d] = size, size - 1 - offsets[d]
    terms[d] = tuple((a, -step) for a, step in terms[d])
    return replace(access, shape=tuple(shape), terms=tuple(terms), offsets=tuple(offsets))
