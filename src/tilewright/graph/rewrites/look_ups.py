"""Look-ups as products, for cores that address memory only along loops.

In: a network whose definitions are in normal form. Out: the network with every read or addition at
an index that integers hold replaced by a product with one-hot rows, 1 at the index and 0 elsewhere.
Tables must be finite, since their other elements are multiplied by 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tilewright.common.dtypes import F64, DType, dtype
from tilewright.common.errors import GraphError
from tilewright.graph.graph import Network, Node, Tensor
from tilewright.graph.names import unused
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import definitions_in
from tilewright.ops.op import Array

_WIDEST_EXACT = 4
"""Bytes of the widest integers that a double represents exactly."""


def with_look_ups(network: Network, *, reads: bool = True) -> Network:
    """The network with products in place of additions at looked-up indices and, with `reads`, of
    look-ups, too. Raises GraphError for tables of 64-bit integers.
    """
    found = _Rewriting(network)
    for node in network.nodes:
        own = [] if node.op.is_named else definitions_in(node.op)
        if len(own) == 1 and own[0].has_look_ups and (reads or own[0].result.read_from):
            found.replaced(node, own[0])
        else:
            found.nodes.append(node)
    if len(found.nodes) == len(network.nodes):
        return network
    weights = (*network.weights, *(Tensor(n, v.shape, "i32") for n, v in found.places.items()))
    values = {**network.values, **found.places}
    return replace(network, weights=weights, nodes=tuple(found.nodes), values=values)


@dataclass
class _Rewriting:
    """The nodes so far, and constant tensors of indices 0, 1, ... by name."""

    network: Network
    nodes: list[Node] = field(default_factory=list)
    places: dict[str, Array] = field(default_factory=dict)

    def replaced(self, node: Node, op: Definition) -> None:
        """Append the one-hot rows of each index, and their product with the moved tensor."""
        moving = op.result if op.result.read_from else op.operands[0]
        if op.body != "x0" or len(op.operands) != 1 + len(set(moving.looked_up.values())):
            raise GraphError(f"node {node.name}: {op.describe()[:60]} is no look-up alone")
        kind = self._computed(node, op)
        table = self._as(node, node.inputs[0], op.operands[0].shape, op.numerics.operands[0], kind)
        rank, extents = len(op.extents), list(op.extents)
        terms = list(moving.terms)
        factors, accesses = [table], list[Access]()
        for d, operand in moving.looked_up.items():
            access, size = op.operands[operand], moving.shape[d]
            terms[d] = ((rank, 1),)
            factors.append(self._rows(node, op, operand, size, kind))
            axes = (*sorted(access.axes), rank)
            extents.append(size)
            accesses.append(straight(tuple(extents[a] for a in axes), axes))
            rank += 1
        plain = replace(moving, terms=tuple(terms), read_from=())
        result, first = (plain, op.operands[0]) if op.result.read_from else (op.result, plain)
        body = " * ".join(f"x{i}" for i in range(len(factors)))
        product = Definition(tuple(extents), result, (first, *accesses), body, "sum", "x0", kind)
        self._last(node, product, tuple(factors), op.numerics.result, kind)

    def _computed(self, node: Node, op: Definition) -> str:
        kind = op.numerics.result
        if kind.is_float and kind == op.numerics.operands[0]:
            return kind.name
        if kind.size_bytes > _WIDEST_EXACT:
            raise GraphError(
                f"node {node.name}: a look-up of {kind} is computed in doubles, which lack some of "
                "these",
                fix="a table of i32",
            )
        return F64.name

    def _rows(self, node: Node, op: Definition, operand: int, size: int, kind: str) -> str:
        """Append the one-hot rows of an index tensor, over its axes and the `size` indices."""
        name = unused(f"places of {size}", self.network.tensors)  # a model may use the name
        self.places.setdefault(name, np.arange(size, dtype=np.int32))
        access, index = op.operands[operand], op.numerics.operands[operand].name
        axes = sorted(access.axes)
        numbers = {a: i for i, a in enumerate(axes)}
        own = tuple(tuple((numbers[a], s) for a, s in t if a in numbers) for t in access.terms)
        extents = (*(op.extents[a] for a in axes), size)
        rows = Definition(
            extents, straight(extents), (replace(access, terms=own), straight((size,),
            (len(axes),))), "x0 == x1", None, "x0", f"{index},i32:f64:{kind}",
        )  # fmt: skip
        return self._append(node, f"rows_{operand}", rows, (node.inputs[operand], name))

    def _as(self, node: Node, name: str, shape: tuple[int, ...], own: DType, kind: str) -> str:
        if own == dtype(kind):
            return name
        whole = straight(shape)
        cast = Definition(shape, whole, (whole,), dtype=f"{own}:{kind}")
        return self._append(node, "table", cast, (name,))

    def _last(
        self, node: Node, product: Definition, reads: tuple[str, ...], own: DType, kind: str
    ) -> None:
        if own == dtype(kind):
            self.nodes.append(replace(node, op=product, inputs=reads))
            return
        made = self._append(node, "found", product, reads)
        whole = straight(product.out_shape)
        cast = Definition(product.out_shape, whole, (whole,), dtype=f"{kind}:{kind}:{own}")
        self.nodes.append(replace(node, op=cast, inputs=(made,)))

    def _append(self, node: Node, what: str, op: Definition, reads: tuple[str, ...]) -> str:
        name = f"{node.name}_{what}"
        self.nodes.append(Node(name, op, reads, name))
        return name
