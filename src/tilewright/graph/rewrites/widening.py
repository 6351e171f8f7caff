"""Truth values and short integers in 32 bits, for memories that only move words.

In: a network. Out: the network with 32-bit integers in place of narrower ones and equal values:
bodies of definitions do the wrapping or clamping to the narrow type.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.common.dtypes import BOOL, I32, DType, dtype
from tilewright.graph.graph import Network, Node, Tensor
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import assembled
from tilewright.ops.numerics import Numerics
from tilewright.ops.op import Op


def widened(network: Network) -> Network:
    """The network with integers narrower than a word widened; the given one if there are none."""
    if not any(_is_narrow(dtype(t.dtype)) for t in network.tensors.values()):
        return network
    return replace(
        network,
        inputs=tuple(map(_tensor, network.inputs)),
        weights=tuple(map(_tensor, network.weights)),
        nodes=tuple(_node(node) for node in network.nodes),
    )


def _is_narrow(kind: DType) -> bool:
    return kind.kind == "integer" and kind.size_bytes < I32.size_bytes


def _wide(kind: DType) -> str:
    return I32.name if _is_narrow(kind) else kind.name


def _tensor(tensor: Tensor) -> Tensor:
    return replace(tensor, dtype=_wide(dtype(tensor.dtype)))


def _node(node: Node) -> Node:
    if not any(map(_is_narrow, (*node.op.numerics.operands, node.op.numerics.result))):
        return node
    return replace(node, op=_widened(node.op))


def _widened(op: Op) -> Op:
    changed: Any = op
    if op.is_named:
        found: Op = replace(changed, dtype=_types(op.numerics))
        return found
    addends = op.definitions[0].addends
    parts = [_definition(addend.definition) for addend in addends]
    return assembled(parts, [addend.reads for addend in addends], _types(op.numerics))


def _definition(op: Definition) -> Definition:
    numerics, body = op.numerics, op.body
    if body != "x0" or numerics.operands[0] != numerics.result:
        body = _limited(body, numerics.result, floats=numerics.is_float)
    return replace(op, body=body, dtype=_types(numerics))


def _types(numerics: Numerics) -> str:
    kinds = [_wide(kind) for kind in numerics.operands]
    sums, result = _wide(numerics.sums), _wide(numerics.result)
    if {*kinds, result} <= {sums}:
        return sums
    wrap = "" if numerics.is_float or sums == result else ":even:wrap"
    return f"{','.join(kinds) or sums}:{sums}:{result}{wrap}"


def _limited(body: str, kind: DType, *, floats: bool) -> str:
    """`body` converted to the range of `kind`: integers wrap, floats are clamped, NaN becomes the
    least value.
    """
    if not _is_narrow(kind):
        return body
    if kind == BOOL:
        return f"({body}) != 0"
    low, high = kind.limits
    if floats:
        return f"({high} if ({body}) > {high} else {body}) if ({body}) > {low} else {low}"
    return f"(({body}) - {low} & {high - low}) + {low}" if low else f"({body}) & {high}"
