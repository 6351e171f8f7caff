"""Moves loop-invariant factors out of sums: `sum(c * x)` is `c * sum(x)`.

Gradients of a normalisation sum equal products over images and pixels, with different factors per
channel. Without the factors these are one common sum, and a sum of plain elements needs no map
before it.

Powers of one base are also joined: `x / pow(a, p) / pow(a, q)` is `x * pow(a, -(p + q))`. Machines
compute each power by a logarithm and an exponential, and fixed point would round each factor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from math import inf, prod

from tilewright.graph.graph import Network, Node
from tilewright.graph.names import fresh
from tilewright.ir.scalar import Apply, Element, Number, Scalar, operand_numbers, renumbered
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import definitions_in


def separable_sums(network: Network, most_terms: float = inf, *, finite: bool = False) -> Network:
    """The network with invariant factors of float sums moved into a map after the sum. Rounding
    changes. Sums over more than `most_terms` terms stay unchanged. If all numbers are `finite`,
    guards of the form `0 if x0 == 0 else x0 * y` are dropped, since zero times y is zero.
    """
    taken = {*network.tensors, *(node.name for node in network.nodes)}
    nodes: list[Node] = []
    for node in network.nodes:
        every = definitions_in(node.op)
        op = every[0] if every == [node.op] else None
        if op is not None and finite:
            op = _without_guards(op)
        left = _separable_factors(op) if op is not None else []
        if op is not None and prod(op.extents[a] for a in op.gathered) > most_terms:
            left = []
        if op is not None and left:
            nodes += _apart(node, op, left, fresh(f"{node.name}_terms", taken))
        else:
            nodes.append(node)
    return replace(network, nodes=tuple(nodes)) if len(nodes) > len(network.nodes) else network


def _without_guards(op: Definition) -> Definition:
    """The definition with `0 if x0 == 0 else x0 * y` replaced by `x0 * y`."""
    match op.scalar:
        case Apply("if", (Apply("==", (x, Number(0.0))), Number(0.0), inner)):
            return replace(op, body=str(inner)) if x in _factors(inner) else op
        case _:
            return op


def _separable_factors(op: Definition) -> list[Scalar]:
    """The factors to move out of a sum. Empty if only constants or all factors could be moved, or
    if the sum does not write its result in order.
    """
    plain = (op.gather, op.finish, op.has_look_ups) == ("sum", "x0", False)
    whole = op.result == straight(tuple(op.extents[a] for a in op.kept), op.kept)
    if not (plain and whole and op.numerics.is_float and not op.numerics.is_mixed):
        return []
    factors = [*_factors(op.scalar)]
    found = [factor for factor in factors if not _moves(op, factor)]
    return found if any(map(operand_numbers, found)) and len(found) < len(factors) else []


def _factors(scalar: Scalar) -> Iterator[Scalar]:
    """The factors of an expression."""
    match scalar:
        case Apply("*", (a, b)):
            yield from _factors(a)
            yield from _factors(b)
        case Apply("/", (a, b)):
            yield from _factors(a)
            yield from (Apply("/", (Number(1.0), factor)) for factor in _factors(b))
        case Apply("negative", (a,)):
            yield Number(-1.0)
            yield from _factors(a)
        case _:
            yield scalar


def _moves(op: Definition, factor: Scalar) -> bool:
    """True if the factor varies over the terms of the sum."""
    read = [op.operands[number] for number in operand_numbers(factor)]
    return any(not (x.axes.isdisjoint(op.gathered) and _is_inside(x, op)) for x in read)


def _is_inside(access: Access, op: Definition) -> bool:
    """True if no step reaches beyond the border of a tensor."""
    return access.fill is None or access.is_inside(op.extents)


def _apart(node: Node, op: Definition, left: Sequence[Scalar], name: str) -> list[Node]:
    """A node `name` for the sum without the factors `left`, and the node of their product."""
    inside = [factor for factor in _factors(op.scalar) if factor not in left]
    body, used = _product(inside, 0)
    given = tuple(op.operands[number] for number in used)
    terms = replace(op, operands=given, body=str(body), axes=(), tensors=())
    first = Node(name, terms, tuple(node.inputs[number] for number in used), name)
    body, used = _product(left, 1)
    places = {axis: place for place, axis in enumerate(op.kept)}
    every = straight(op.out_shape)
    behind = [every]
    for number in used:
        access = op.operands[number]
        moved = (tuple((places[a], step) for a, step in dim) for dim in access.terms)
        behind.append(replace(access, terms=tuple(moved), fill=None))
    product = Definition(
        op.out_shape,
        every,
        tuple(behind),
        str(Apply("*", (Element(0), body))),
        dtype=str(op.numerics.sums),
    )
    return [first, replace(node, op=product, inputs=(name, *(node.inputs[n] for n in used)))]


def _product(factors: Sequence[Scalar], first: int) -> tuple[Scalar, list[int]]:
    """The product of factors with operands renumbered from `first`, and their original numbers."""
    whole = reduce(lambda a, b: Apply("*", (a, b)), factors)
    used = sorted(operand_numbers(whole))
    numbers = {number: Element(first + place) for place, number in enumerate(used)}
    every = [numbers.get(number, Element(0)) for number in range(max(used, default=-1) + 1)]
    return renumbered(whole, every), used


def joined_powers(network: Network) -> Network:
    """The network with powers of one base joined in products of floats. Rounding changes."""
    nodes = []
    for node in network.nodes:
        every = definitions_in(node.op)
        if every == [node.op] and every[0].numerics.is_float:
            node = replace(
                node, op=replace(every[0], body=str(_with_joined_powers(every[0].scalar)))
            )
        nodes.append(node)
    return replace(network, nodes=tuple(nodes))


def _with_joined_powers(scalar: Scalar) -> Scalar:
    """The expression with powers of one base joined wherever they are factors of a product."""
    if not isinstance(scalar, Apply):
        return scalar
    factors = [*_powers(scalar, 1.0)]
    bases = Counter(base for base, _, is_power in factors if is_power)
    if max(bases.values(), default=0) < 2:
        return replace(scalar, arguments=tuple(map(_with_joined_powers, scalar.arguments)))
    number, above, below = 1.0, list[Scalar](), list[Scalar]()
    exponents: dict[Scalar, float] = {}
    for base, exponent, is_power in factors:
        if is_power:
            exponents[base] = exponents.get(base, 0.0) + exponent
        elif isinstance(base, Number):
            number *= base.number**exponent
        else:
            (above if exponent > 0 else below).append(_with_joined_powers(base))
    above += [Apply("pow", (base, Number(n))) for base, n in exponents.items()]
    made = reduce(lambda a, b: Apply("*", (a, b)), [Number(number), *above])
    return reduce(lambda a, b: Apply("/", (a, b)), below, made)


def _powers(scalar: Scalar, sign: float) -> Iterator[tuple[Scalar, float, bool]]:
    """Each factor of a product as its base, its exponent, and True if it is an explicit power."""
    match scalar:
        case Apply("*", (a, b)):
            yield from _powers(a, sign)
            yield from _powers(b, sign)
        case Apply("/", (a, b)):
            yield from _powers(a, sign)
            yield from _powers(b, -sign)
        case Apply("negative", (a,)):
            yield Number(-1.0), 1.0, False
            yield from _powers(a, sign)
        case Apply("pow", (base, Number(exponent))):
            yield base, sign * exponent, True
        case _:
            yield scalar, sign, False
