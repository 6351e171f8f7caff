"""ONNX's operators whose outputs are numbers that are known: shapes, ranges, diagonals."""

from __future__ import annotations

from math import prod

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.graph.frontends.onnx.operators.typed import TYPES

_ANY = Input("X", elements="any")


def _constant_of_shape(importer: Importer, node: OnnxNode) -> None:
    value = node.attributes.get("value", np.zeros(1, np.float32))
    numbers = np.full(importer.integers(node, 0), np.asarray(value).reshape(-1)[0])
    _as_constant(importer, node, numbers)


def _range(importer: Importer, node: OnnxNode) -> None:
    start, limit, delta = (importer.constant(node, i).reshape(-1)[0] for i in range(3))
    _as_constant(importer, node, np.arange(start, limit, delta, dtype=start.dtype))


def _eye_like(importer: Importer, node: OnnxNode) -> None:
    """Ones on a diagonal, in the type of the operand or one that is named."""
    name = node.input(0)
    kind = importer.element_type(name, node.title())
    rows, columns = importer.shape(node, 0, (kind,))
    if "dtype" in node.attributes:
        kind = TYPES.get(node.integer("dtype"), "")
    if not kind:
        raise GraphError(f"{node.title()}: dtype = {node.integer('dtype')} is not supported")
    _as_constant(importer, node, np.eye(rows, columns, node.integer("k"), dtype(kind).numpy))


def _size(importer: Importer, node: OnnxNode) -> None:
    count = prod(importer.builder.shape(importer.operand(node, 0)))
    _as_constant(importer, node, np.array(count, np.int64))


def _as_constant(importer: Importer, node: OnnxNode, numbers: np.ndarray) -> None:
    """Numbers that are known as the output."""
    importer.constants[node.output()] = numbers


KNOWN = (
    Operator(
        "ConstantOfShape",
        (9, 20, 21, 23, 24, 25),
        (Input("input", "constant", "integer"),),
        (Attribute("value", "tensor"),),
        _constant_of_shape,
    ),
    Operator(
        "EyeLike",
        (9, 22),
        (Input("input", elements="any"),),
        (Attribute("dtype", "integer"), Attribute("k", "integer", 0)),
        _eye_like,
    ),
    Operator(
        "Range",
        (11, 27),
        (
            Input("start", "constant", "number"),
            Input("limit", "constant", "number"),
            Input("delta", "constant", "number"),
        ),
        (Attribute("stash_type", "integer", 1, since=27),),
        _range,
    ),
    Operator("Size", (1, 13, 19, 21, 23, 24, 25), (_ANY,), (), _size),
)
