"""Elementwise nodes behind a result that is put together of parts join each of the parts.

The gradient of a pooling is a part for each place in the windows; a rectifier's mask behind it
would read and write all of it once more. Parts that write every place once may each be finished
by themselves.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from tilewright.graph.graph import Network, Node
from tilewright.ir.scalar import Element, Scalar, renumbered
from tilewright.ops.access import Access
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import Assembly, pointwise


@dataclass(frozen=True)
class FinishedParts:
    """Joins an elementwise node with the parts of the result that it alone reads."""

    name: ClassVar[str] = "finished_parts"

    def apply(self, network: Network) -> Network:
        """The network without tensors that are put together and only mapped."""
        readers = Counter(name for node in network.nodes for name in node.inputs)
        readers.update(network.outputs)
        made = {node.output: node for node in network.nodes}
        gone, nodes = set[str](), list[Node]()
        for node in network.nodes:
            for before in (made[name] for name in node.inputs if name in made):
                joined = _joined(before, node) if readers[before.output] == 1 else None
                if joined is not None:
                    gone.add(before.name)
                    node = joined
                    break
            nodes.append(node)
        kept = tuple(node for node in nodes if node.name not in gone)
        return replace(network, nodes=kept) if gone else network


def _joined(parts: Node, behind: Node) -> Node | None:
    """The parts with what stands behind them on each, None where they are not all of a tensor, or
    compute more than a map of floats.
    """
    last = pointwise(behind.op)
    if not isinstance(parts.op, Assembly) or last is None or last.finish != "x0":
        return None
    own = parts.op.parts
    maps = all((p.gather, p.finish, p.has_look_ups) == (None, "x0", False) for p in own)
    whole = sum(prod(p.extents) for p in own) == prod(parts.op.out_shape)
    alike = (parts.op.out_shape, parts.op.dtype) == (last.extents, behind.op.dtype)
    if not (maps and whole and alike and parts.op.numerics.is_float):
        return None
    found = [
        _finished(part, [parts.inputs[i] for i in numbers], last, behind, parts.output)
        for part, numbers in zip(own, parts.op.reads, strict=True)
    ]
    names = tuple(dict.fromkeys(name for _, read in found for name in read))
    reads = tuple(tuple(names.index(name) for name in read) for _, read in found)
    op = Assembly(tuple(part for part, _ in found), reads, parts.op.dtype)
    return replace(behind, op=op, inputs=names)


def _finished(
    part: Definition, read: list[str], last: Definition, behind: Node, made: str
) -> tuple[Definition, list[str]]:
    """A part with the map of what it makes, and the tensors that it reads."""
    places, names = list(part.operands), list(read)
    numbers: list[Scalar] = []
    for access, name in zip(last.operands, behind.inputs, strict=True):
        if name == made:
            numbers.append(part.scalar)
            continue
        pair = (name, _at(access, part.result))
        if pair not in zip(names, places, strict=True):
            names.append(name)
            places.append(pair[1])
        numbers.append(Element(list(zip(names, places, strict=True)).index(pair)))
    body = str(renumbered(last.scalar, numbers))
    return replace(part, operands=tuple(places), body=body, tensors=()), names


def _at(access: Access, result: Access) -> Access:
    """The access by axes of the result, at the places where a part of that lies."""
    terms, offsets = [], []
    for place, offset in zip(access.terms, access.offsets, strict=True):
        terms.append(tuple((a, s * step) for d, step in place for a, s in result.terms[d]))
        offsets.append(offset + sum(step * result.offsets[d] for d, step in place))
    return replace(access, terms=tuple(terms), offsets=tuple(offsets))


REWRITE = FinishedParts()
