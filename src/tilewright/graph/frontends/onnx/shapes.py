"""Shapes that nodes give as numbers: reshapes, and broadcasting before operator set 7."""

from __future__ import annotations

import math

from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.ops.op import Shape, show_shape


def aligned(node: OnnxNode, a: Shape, b: Shape) -> Shape:
    """The shape of the second operand that broadcasts to the first by NumPy's rule.

    Up to operator set 6, both shapes are equal, or with `broadcast` = 1 the second matches
    consecutive axes of the first: from `axis` on, or the last ones.
    """
    if a == b:
        return b
    if not node.integer("broadcast"):
        raise GraphError(
            f"{node.title()}: {show_shape(a)} and {show_shape(b)} differ, and broadcast = 0"
        )
    if math.prod(b) == 1 and len(b) <= len(a):
        return (1,) * len(a)
    axis = node.integer("axis") if "axis" in node.attributes else len(a) - len(b)
    return aligned_at(node, a, b, axis)


def aligned_at(node: OnnxNode, a: Shape, b: Shape, axis: int) -> Shape:
    """`b` padded with extents of 1 to match `a` from `axis` on. Raises GraphError if it cannot."""
    if not 0 <= axis <= len(a) - len(b) or any(
        extent not in (1, a[axis + place]) for place, extent in enumerate(b)
    ):
        raise GraphError(
            f"{node.title()}: {show_shape(b)} does not lie along the axes of {show_shape(a)} from "
            f"axis {axis} on"
        )
    return (*(1,) * axis, *b, *(1,) * (len(a) - axis - len(b)))


def reshaped(node: OnnxNode, shape: Shape, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """The target shape of a reshape: 0 keeps an extent, -1 is inferred."""
    if any(extent < -1 for extent in wanted) or wanted.count(-1) > 1:
        raise GraphError(f"{node.title()}: {wanted} is not a shape")
    if "allowzero" in node.attributes and node.integer("allowzero") and 0 in wanted:
        raise GraphError(f"{node.title()}: {wanted} with allowzero = 1 has no element")
    if any(extent == 0 and index >= len(shape) for index, extent in enumerate(wanted)):
        raise GraphError(f"{node.title()}: {wanted} keeps an extent that {shape} lacks")
    target = [shape[index] if extent == 0 else extent for index, extent in enumerate(wanted)]
    if -1 in target:
        known = math.prod(extent for extent in target if extent != -1)
        target[target.index(-1)] = math.prod(shape) // max(known, 1)
    return tuple(target)
