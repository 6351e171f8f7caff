"""Long reversals in two short ones, for cores that copy each place of a reversed axis by itself.

In: a network. Out: the same network, in which what is read backwards of a tensor, along more than
`most` places, is reversed before: within blocks, then block by block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

from tilewright.graph.graph import Network, Node
from tilewright.ops.access import Access, straight
from tilewright.ops.box import Box
from tilewright.ops.definition import Addend, Definition
from tilewright.ops.definitions import are_apart, assembled, definitions_in


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
        made, inputs = list[Node](), list(node.inputs)
        tensors = node.op.definitions if definitions_in(node.op) else ()
        addends = tensors[0].addends if len(tensors) == 1 else ()
        turned = [self._turned(node, own, made, inputs) for own in addends]
        if not made or not are_apart([part for part, _ in turned]):
            return [node]
        kept = list(dict.fromkeys(n for _, reads in turned for n in reads))
        reads = [[kept.index(n) for n in own] for _, own in turned]
        forwards = assembled([part for part, _ in turned], reads, node.op.dtype)
        return [*made, replace(node, op=forwards, inputs=tuple(inputs[n] for n in kept))]

    def _turned(
        self, node: Node, addend: Addend, made: list[Node], inputs: list[str]
    ) -> tuple[Definition, list[int]]:
        """(the definition on reversed operands, their numbers among the `inputs`)."""
        op = addend.definition
        operands, numbers = list(op.operands), list(addend.reads)
        for i, access in enumerate(() if op.has_look_ups else op.operands):
            for d in range(len(access.shape)):
                first, count = _read(op, access, d)
                if self._is_long(op, access, d) and 0 < count <= self.most**2:
                    name = f"{node.name}_reversed_{len(made) // 2}"
                    kind = op.numerics.operands[i].name
                    within, by_block = _reversing(operands[i], d, first, count, kind)
                    made += [
                        Node(f"{name}_within", within, (inputs[numbers[i]],), f"{name}_within"),
                        Node(name, by_block, (f"{name}_within",), name),
                    ]
                    numbers[i] = len(inputs)
                    inputs.append(name)
                    operands[i] = _from_behind(operands[i], d, by_block.out_shape[d], first)
        return replace(op, operands=tuple(operands)), numbers

    def _is_long(self, op: Definition, access: Access, d: int) -> bool:
        steps = [(op.extents[a], step) for a, step in access.terms[d]]
        return all(s < 0 for _, s in steps) and any(n > self.most for n, _ in steps)


def _read(op: Definition, access: Access, d: int) -> tuple[int, int]:
    """(the first place along dimension `d` that is read, how many up to the last one)."""
    least, end = access.span(d, Box.whole(op.extents))
    first = max(least, 0)
    return first, min(end, access.shape[d]) - first


def _reversing(
    access: Access, d: int, first: int, count: int, kind: str
) -> tuple[Definition, Definition]:
    """The reversals of `count` places of dimension `d` from the `first` on, within blocks, the last
    one filled, and block by block.
    """
    before, size, after = access.shape[:d], access.shape[d], access.shape[d + 1 :]
    length = min(range(1, count + 1), key=lambda n: max(n, ceil(count / n)))
    blocks = ceil(count / length)
    extents = (*before, blocks, length, *after)
    apart = straight(extents)
    single = [(term,) for (term,) in apart.terms]

    def joint(places: int, step: int, start: int, last: int) -> Access:
        terms = (*single[:d], ((d, length), (d + 1, step)), *single[d + 2 :])
        offsets = tuple(start if a == d else 0 for a in range(len(access.shape)))
        beyond = None if last <= places else access.fill or 0.0
        return Access((*before, places, *after), terms, offsets, beyond)

    held = blocks * length
    back = joint(size, -1, first + length - 1, first + held)
    within = Definition(extents, apart, (back,), dtype=kind)
    turned = _from_behind(apart, d, blocks, 0)
    return within, Definition(extents, joint(held, 1, 0, held), (turned,), dtype=kind)


def _from_behind(access: Access, d: int, size: int, first: int) -> Access:
    """The access to a tensor that has `size` places of dimension `d`, reversed, from the `first`
    on.
    """
    shape, terms, offsets = list(access.shape), list(access.terms), list(access.offsets)
    shape[d], offsets[d] = size, first + size - 1 - offsets[d]
    terms[d] = tuple((a, -step) for a, step in terms[d])
    return replace(access, shape=tuple(shape), terms=tuple(terms), offsets=tuple(offsets))
