"""ONNX's operators that move elements or name shapes, most of them also on constants."""

from __future__ import annotations

import math

from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx import fold as fold
from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.graph.frontends.onnx.operators.windows import IMAGES
from tilewright.graph.frontends.onnx.shapes import reshaped
from tilewright.ops import Concat, SpaceToDepth, flatten

_ANY = Input("X", elements="any")
_TYPES = (13, 21, 23, 24, 25)
"""Versions that only add element types."""


def _flatten(importer: Importer, node: OnnxNode) -> None:
    shape = importer.shape(node, 0)
    axis = node.integer("axis")
    axis = axis if axis == len(shape) else importer.axis(node, axis, len(shape))
    importer.emit(node, flatten(shape, axis=axis, dtype=importer.dtype), importer.operand(node, 0))


def _reshape(importer: Importer, node: OnnxNode) -> None:
    """A batch size fixed by the file is replaced where another one is wanted."""
    shape = importer.shape(node, 0)
    wanted = node.integers("shape") if node.version < 5 else importer.integers(node, 1)
    target = reshaped(node, shape, wanted)
    starts_with_batch = wanted[:1] == (importer.file_batch,)
    if importer.batch and starts_with_batch and math.prod(target) != math.prod(shape):
        target = reshaped(node, shape, (importer.batch, *wanted[1:]))
    importer.reshape(node, importer.operand(node, 0), target)


def _squeeze(importer: Importer, node: OnnxNode) -> None:
    shape = importer.shape(node, 0)
    axes = {importer.axis(node, axis, len(shape)) for axis in importer.axes(node)}
    if any(shape[axis] != 1 for axis in axes):
        raise GraphError(f"{node.title()}: an axis of {shape} to drop is longer than 1")
    dropped = axes or {axis for axis, extent in enumerate(shape) if extent == 1}
    rest = tuple(extent for axis, extent in enumerate(shape) if axis not in dropped)
    importer.reshape(node, importer.operand(node, 0), rest)


def _unsqueeze(importer: Importer, node: OnnxNode) -> None:
    shape, given = importer.shape(node, 0), importer.axes(node)
    rank = len(shape) + len(given)
    axes = {importer.axis(node, axis, rank) for axis in given}
    if len(axes) < len(given):
        raise GraphError(f"{node.title()}: the axes {given} are not different ones")
    rest = iter(shape)
    wanted = tuple(1 if axis in axes else next(rest) for axis in range(rank))
    importer.reshape(node, importer.operand(node, 0), wanted)


def _concat(importer: Importer, node: OnnxNode) -> None:
    filled = [i for i, name in enumerate(node.inputs) if not _is_empty(importer, name)]
    operands = tuple(importer.operand(node, index) for index in filled)
    shapes = tuple(importer.builder.shape(name) for name in operands)
    axis = importer.axis(node, node.integer("axis"), len(shapes[0]))
    importer.emit(node, Concat(shapes, axis, importer.dtype), *operands)


def _is_empty(importer: Importer, name: str) -> bool:
    return name in importer.constants and not importer.constants[name].size


def _space_to_depth(importer: Importer, node: OnnxNode) -> None:
    batch, channels, height, width = importer.images(node)
    block = node.integer("blocksize")
    op = SpaceToDepth(batch, channels, height, width, block, importer.dtype)
    importer.emit(node, op, importer.operand(node, 0))


def _constants(*names: str, since: int = 1, optional: bool = False) -> tuple[Input, ...]:
    return tuple(
        Input(name, "constant", "integer", optional=optional, since=since) for name in names
    )


SHAPING = (
    Operator(
        "Concat",
        (1, 4, 11, 13),
        (_ANY,),
        (
            Attribute("axis", "integer", 1, until=3),
            Attribute("axis", "integer", required=True, since=4),
        ),
        _concat,
        fold.concatenate,
        variadic=True,
    ),
    Operator(
        "Constant",
        (1, 9, 11, 12, 13, 19, 21, 23, 24, 25),
        (),
        (
            Attribute("value", "tensor"),
            Attribute("value_float", "limit", since=12),
            Attribute("value_floats", "numbers", since=12),
            Attribute("value_int", "integer", since=12),
            Attribute("value_ints", "integers", since=12),
        ),
        fold=fold.constant,
    ),
    Operator(
        "Flatten",
        (1, 9, 11, *_TYPES),
        (_ANY,),
        (Attribute("axis", "integer", 1),),
        _flatten,
    ),
    Operator(
        "Reshape",
        (1, 5, 13, 14, 19, 21, 23, 24, 25),
        (_ANY, *_constants("shape", since=5)),
        (
            Attribute("shape", "integers", required=True, until=4),
            Attribute("allowzero", "integer", 0, (0, 1), since=14),
            Attribute("consumed_inputs", "integers", until=4),
        ),
        _reshape,
        fold.reshape,
    ),
    Operator(
        "Shape",
        (1, 13, 15, 19, 21, 23, 24, 25),
        (Input("data", "shape", "any"),),
        (Attribute("start", "integer", 0, since=15), Attribute("end", "integer", since=15)),
        fold=fold.shape,
    ),
    Operator(
        "SpaceToDepth",
        (1, 13, 28),
        (_ANY,),
        (
            Attribute("blocksize", "integer", required=True),
            Attribute("mode", "text", "DCR", ("DCR",), since=28),
        ),
        _space_to_depth,
        limits=IMAGES,
    ),
    Operator(
        "Squeeze",
        (1, 11, *_TYPES),
        (_ANY, *_constants("axes", since=13, optional=True)),
        (Attribute("axes", "integers", until=12),),
        _squeeze,
        fold.squeeze,
    ),
    Operator(
        "Unsqueeze",
        (1, 11, *_TYPES),
        (_ANY, *_constants("axes", since=13)),
        (Attribute("axes", "integers", required=True, until=12),),
        _unsqueeze,
        fold.unsqueeze,
    ),
)
