"""Operators that move elements, as copies between views of the same memory.

In: the operator, and the values of C arrays that are read and written. Out: a `Map` without steps.
What it cannot say is refused before kernels are searched for.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.common.errors import GraphError
from tilewright.graph.graph import Network
from tilewright.network.form import Form, StoredDim, canonical, row_major
from tilewright.ops import Pad, Reduce, Resize, Slice, SpaceToDepth
from tilewright.ops.op import Shape
from tilewright.targets.host.network.plan import Map, Operand


def require_moves(network: Network) -> None:
    """Raise GraphError for operators on elements' places that no copy between views computes."""
    for node in network.nodes:
        match node.op:
            case Pad(value=value) if value:
                why = "pads with zeros"
            case Slice(step=step) if any(by > 1 for by in step):
                why = "takes slices of elements that follow each other"
            case Reduce():
                why = "reduces the pixels of images by pooling"
            case _:
                continue
        raise GraphError(
            f"node {node.name}: {node.op.describe()} cannot be run on this computer, which {why}",
            fix="another --machine",
        )


def moved(op: Pad | Resize | Slice | SpaceToDepth, x: int, y: int) -> Map:
    """The copy from the C array of value `x` to that of value `y`."""
    match op:
        case Pad():
            whole = Operand(y, _inside(op.shape, op.out_shape, op.before))
            return Map(whole, (_plain(x, op.shape),))
        case Slice():
            part = Operand(x, _inside(op.counts, op.shape, op.start))
            return Map(_plain(y, op.counts), (part,))
        case Resize():
            return _resized(op, x, y)
        case SpaceToDepth():
            return _space_to_depth(op, x, y)


def _plain(value: int, shape: Shape) -> Operand:
    return Operand(value, row_major(shape))


def _inside(shape: Shape, around: Shape, before: Sequence[int]) -> Form:
    """The form of a tensor that is a part of a larger C array."""
    dims = tuple(StoredDim(axis, 1, extent) for axis, extent in enumerate(around) if extent > 1)
    return Form(shape, dims, tuple(before))


def _resized(op: Resize, x: int, y: int) -> Map:
    """Along a dimension that grows, views have one for elements and one for their copies."""
    copied: list[int] = []
    single: list[int] = []
    for extent, factor in zip(op.shape, op.factors, strict=True):
        copied += [extent, factor] if factor > 1 else [extent]
        single += [extent, 1] if factor > 1 else [extent]
    return Map(_plain(y, tuple(copied)), (_plain(x, tuple(single)),))


def _space_to_depth(op: SpaceToDepth, x: int, y: int) -> Map:
    """Views of six dimensions: batch, block row and column, channel, pixel."""
    block, (_, _, rows, columns) = op.block, op.out_shape
    shape = (op.batch, block, block, op.channels, rows, columns)
    order = (0, 3, 4, 1, 5, 2)
    dims = [StoredDim(axis, 1, shape[axis]) for axis in order]
    return Map(_plain(y, shape), (Operand(x, canonical(shape, dims, (0,) * 6)),))
