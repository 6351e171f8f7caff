"""Networks of floats in fixed point: products sum exactly, all else computes in real numbers.

In: a network of one floating-point type, and the element types of its products. Out: the network on
fixed-point elements. Every result, and every weight with known numbers, is rounded once, to nearest
and ties to even, and saturates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tilewright.common.dtypes import F64, DType, converted, dtype
from tilewright.common.errors import GraphError
from tilewright.graph.graph import Network, Node
from tilewright.ops import CONTRACTIONS
from tilewright.ops.definitions import assembled, definitions_in
from tilewright.ops.numerics import Numerics, real_types
from tilewright.ops.op import Array, Op
from tilewright.ops.recognition import recognised


def is_fixed(types: str) -> bool:
    """True if operands and result of the element types `types` share one fixed-point type.

    >>> is_fixed("q8.8:q48.16:q8.8"), is_fixed("i16:i32"), is_fixed("f32")
    (True, False, False)
    """
    numerics = Numerics.of(types)
    return numerics.result.kind == "fixed" and {*numerics.operands} == {numerics.result}


@dataclass(frozen=True)
class FixedPoint:
    """Computes matrix products and convolutions in the types `elements`, such as
    `q8.8:q48.16:q8.8`, and everything else on elements of their result's type.

    Raises GraphError for a network with tensors of several types.
    """

    name: ClassVar[str] = "fixed_point"
    elements: str

    @property
    def stored(self) -> DType:
        """The type of all tensors."""
        return Numerics.of(self.elements).result

    def apply(self, network: Network) -> Network:
        """The network in fixed point."""
        kinds = {t.dtype for t in network.tensors.values()}
        if len(kinds) > 1 or not all(dtype(kind).is_float for kind in kinds):
            raise GraphError(
                f"{network.name} has tensors of {', '.join(sorted(kinds))}, fixed point takes the "
                "place of one type of floats"
            )
        stored = self.stored
        return _retyped(network, self.types_of, stored, lambda x: converted(x, stored))

    def types_of(self, op: Op) -> str:
        """The `dtype` that an operator gets."""
        parts = definitions_in(op)
        moves = parts and all(p.gather is None and p.body == p.finish == "x0" for p in parts)
        named = op.is_named or any(recognised(part) for part in parts)
        if op.kind in CONTRACTIONS and named:
            return self.elements
        return self.stored.name if moves else real_types(self.stored.name)


def in_reals(network: Network) -> Network:
    """A fixed-point network on doubles, which hold the numbers that elements represent."""
    kinds = {t.name: dtype(t.dtype) for t in network.weights}
    one = 2.0 ** max(kind.fraction_bits for kind in kinds.values())
    return _retyped(network, lambda _: F64.name, F64, lambda x: x / one)


def _retyped(
    network: Network, types: Callable[[Op], str], stored: DType, convert: Callable[[Array], Array]
) -> Network:
    """The network on elements of other types, with known numbers converted."""
    return replace(
        network,
        inputs=tuple(replace(t, dtype=stored.name) for t in network.inputs),
        weights=tuple(replace(t, dtype=stored.name) for t in network.weights),
        nodes=tuple(_node(node, types(node.op)) for node in network.nodes),
        values={name: convert(x) for name, x in network.values.items()},
    )


def _node(node: Node, types: str) -> Node:
    changed: Any = node.op
    if node.op.is_named:
        op: Op = replace(changed, dtype=types)
    else:
        addends = [a for tensor in node.op.definitions for a in tensor.addends]
        own = [replace(a.definition, dtype=types) for a in addends]
        op = assembled(own, [a.reads for a in addends], types)
    return replace(node, op=op)
