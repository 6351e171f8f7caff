"""Fuses an elementwise node into each part of an assembled operand.

The gradient of a pooling has one part for each element of the windows; a rectifier's mask after it
would read and write all of it once more. If the parts write every element once, each can apply the
mask itself. The data gradient of a strided convolution is one such part, with zeros as the other
parts; sums of two such gradients are handled alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from math import prod

from tilewright.graph.graph import Network, Node
from tilewright.ir.scalar import Element, Scalar, operand_numbers, renumbered, without_zeros
from tilewright.ops.access import Access
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import pointwise, put_together

Part = tuple[Definition, tuple[str, ...]]
"""A definition, and the tensors that it reads."""
_MOST_PARTS = 16
_MOST_OPERANDS = 8
"""Most tensors that a map reads."""


def finished_parts(network: Network) -> Network:
    """The network with maps of assembled tensors applied to each of the parts instead."""
    gone, nodes = set[str](), list[Node]()
    for node in network.nodes:
        read = (network.makers.get(x) for x in node.inputs if network.uses[x] == 1)
        single = filter(None, read)
        parts = {own.output: found for own in single if (found := _parts(own))}
        first = next(iter(parts.values()), ())
        alike = {x: own for x, own in parts.items() if _places(own) == _places(first)}
        joined = _parts_with_map(alike, node)
        if joined is not None:
            gone |= {network.makers[name].name for name in alike}
            node = joined
        nodes.append(node)
    kept = tuple(node for node in nodes if node.name not in gone)
    return replace(network, nodes=kept) if gone else network


def _places(parts: tuple[Part, ...]) -> list[tuple[tuple[int, ...], Access]]:
    return [(part.extents, part.result) for part, _ in parts]


def _parts(node: Node) -> tuple[Part, ...]:
    """The float maps that together write every element of a result once; empty for other nodes."""
    op = node.op
    if op.is_named or len(op.definitions) > 1:
        return ()
    addends = op.definitions[0].addends
    own = tuple((a.definition, tuple(node.inputs[i] for i in a.reads)) for a in addends)
    own = _with_zeros(*own[0]) if len(own) == 1 else own
    maps = all((p.gather, p.finish, p.has_look_ups) == (None, "x0", False) for p, _ in own)
    whole = sum(prod(p.extents) for p, _ in own) == prod(op.out_shape)
    return own if maps and whole and op.numerics.is_float else ()


def _with_zeros(op: Definition, read: tuple[str, ...]) -> tuple[Part, ...]:
    """A part that writes elements at strides, and zeros for all others; empty if it is not so."""
    plain = all(len(place) == 1 for place in op.result.terms)
    steps = tuple(place[0][1] for place in op.result.terms) if plain else ()
    reach = tuple(op.extents[place[0][0]] * place[0][1] for place in op.result.terms if place)
    if not 1 < prod(steps) <= _MOST_PARTS or reach != op.out_shape:
        return ()
    own = op.result.offsets
    return tuple(
        (op, read) if at == own else (replace(
            op, result=replace(op.result, offsets=at), operands=(), body="0.0", tensors=(),
            dtype=str(op.numerics.result)), ())
        for at in product(*map(range, steps))
    )  # fmt: skip


def _parts_with_map(made: Mapping[str, tuple[Part, ...]], behind: Node) -> Node | None:
    """The node with its map applied to each part of its assembled operands. None if the node is no
    map of whole operands, or a part would read too many tensors.
    """
    last = pointwise(behind.op)
    if not made or last is None or last.finish != "x0":
        return None
    parts = [dict(zip(made, own, strict=True)) for own in zip(*made.values(), strict=True)]
    first = next(iter(parts[0].values()))[0]
    alike = first.out_shape == last.extents
    if not alike or any(p.out_dtype != behind.op.dtype for own in parts for p, _ in own.values()):
        return None
    found = [_finished(own, last, behind) for own in parts]
    if max(len(read) for _, read in found) > _MOST_OPERANDS:
        return None
    op, names = put_together(found, behind.op.dtype)
    return replace(behind, op=op, inputs=names)


def _finished(made: Mapping[str, Part], last: Definition, behind: Node) -> Part:
    """The map `last` applied to parts that write the same elements, and the tensors it reads."""
    pairs: list[tuple[str, Access]] = []
    numbers: list[Scalar] = []
    first = next(iter(made.values()))[0]

    def read(name: str, access: Access) -> Element:
        if (name, access) not in pairs:
            pairs.append((name, access))
        return Element(pairs.index((name, access)))

    for access, name in zip(last.operands, behind.inputs, strict=True):
        if name in made:
            part, names = made[name]
            own = [read(*pair) for pair in zip(names, part.operands, strict=True)]
            numbers.append(renumbered(part.scalar, own))
        else:
            numbers.append(read(name, _at(access, first.result)))
    body = without_zeros(renumbered(last.scalar, numbers))
    used = sorted(operand_numbers(body))
    places = [Element(used.index(i) if i in used else 0) for i in range(len(pairs))]
    part = replace(
        first, operands=tuple(pairs[i][1] for i in used), body=str(renumbered(body, places)),
        tensors=(), dtype=behind.op.dtype,
    )  # fmt: skip
    return part, tuple(pairs[i][0] for i in used)


def _at(access: Access, result: Access) -> Access:
    """The access composed with a part's access of the result."""
    terms, offsets = [], []
    for place, offset in zip(access.terms, access.offsets, strict=True):
        terms.append(tuple((a, s * step) for d, step in place for a, s in result.terms[d]))
        offsets.append(offset + sum(step * result.offsets[d] for d, step in place))
    return replace(access, terms=tuple(terms), offsets=tuple(offsets))


REWRITE = finished_parts
