"""ONNX's comparisons, truth values, bits and conversions: tensors that differ in type."""

from __future__ import annotations

from functools import partial

from tilewright.common.dtypes import BOOL, dtype
from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator
from tilewright.graph.frontends.onnx.importer import EVERY_TYPE, Importer, converting
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.graph.frontends.onnx.shapes import aligned
from tilewright.graph.names import quoted
from tilewright.ops import Reshape

TYPES = {
    1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "f16",
    11: "f64", 12: "u32", 13: "u64", 16: "bf16",
}  # fmt: skip
NAMED = {
    "FLOAT": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7, "BOOL": 9,
    "FLOAT16": 10, "DOUBLE": 11, "UINT32": 12, "UINT64": 13, "BFLOAT16": 16,
}  # fmt: skip
"""Element types by the numbers of the standard, and these by their names."""


_OF_BITS = ("&", "|", "^", "~", "<<", ">>")


def _expressed(importer: Importer, node: OnnxNode, *, body: str, truth: bool = False) -> None:
    """An expression over all inputs, in their type; up to operator set 6 the second one is moved
    along the first.
    """
    names = [importer.operand(node, index) for index in range(len(node.inputs))]
    if node.version < 7 and len(names) > 1 and "broadcast" in node.attributes:
        a, b = (importer.builder.shape(name) for name in names)
        if (wanted := aligned(node, a, b)) != b:
            along = Reshape(b, wanted, importer.dtype)
            names[1] = importer.step(node, along, names[1], suffix="_along")
    if importer.is_float and any(sign in body for sign in _OF_BITS):
        raise GraphError(f"{node.title()} takes {quoted(names[0])}, which holds {importer.dtype}")
    op = importer.mapped(body, *names, result=BOOL.name if truth else importer.dtype)
    importer.emit(node, op, *names)


def _shifted(importer: Importer, node: OnnxNode) -> None:
    """Bits to the left or right."""
    sign = {"LEFT": "<<", "RIGHT": ">>"}[node.text("direction")]
    _expressed(importer, node, body=f"x0 {sign} x1")


def _is_infinite(importer: Importer, node: OnnxNode) -> None:
    """Infinities of the signs that are asked for."""
    signs = [s for s in ("positive", "negative") if node.integer(f"detect_{s}")]
    tests = [f"x0 == {'-' * (sign == 'negative')}inf" for sign in signs]
    _expressed(importer, node, body=" or ".join(tests) or "0 * x0 == 1", truth=True)


def _where(importer: Importer, node: OnnxNode) -> None:
    """Each element of one of two tensors."""
    test = importer.operand(node, 0, (BOOL.name,))
    kind = importer.element_type(node.input(1), node.title())
    a, b = (importer.operand(node, index, (kind,)) for index in (1, 2))
    computed = dtype(kind).computed.name
    op = importer.mapped("x1 if x0 else x2", test, a, b, computed=computed, result=kind)
    importer.emit(node, op, test, a, b)


def _cast(importer: Importer, node: OnnxNode) -> None:
    code = NAMED[node.text("to")] if node.version < 6 else node.integer("to")
    kind = TYPES[code]
    _convert(importer, node, importer.builder.dtype if kind == importer.file_dtype else kind)


def _cast_like(importer: Importer, node: OnnxNode) -> None:
    _convert(importer, node, importer.element_type(node.input(1), node.title()))


def _convert(importer: Importer, node: OnnxNode, kind: str) -> None:
    x = importer.operand(node, 0, EVERY_TYPE)
    own = importer.builder.element_type(x)
    importer.emit(node, converting(importer.builder.shape(x), own, kind), x)


def _of_any(kind: str, versions: tuple[int, ...], body: str, *, truth: bool = False,
            inputs: int = 2) -> Operator:  # fmt: skip
    names = ("A", "B")[:inputs]
    attributes = (
        Attribute("broadcast", "integer", 0, (0, 1), until=6),
        Attribute("axis", "integer", until=6),
    )
    translate = partial(_expressed, body=body, truth=truth)
    own = tuple(Input(name, elements="number") for name in names)
    given = attributes if inputs > 1 and min(versions) < 7 else ()
    return Operator(kind, versions, own, given, translate)


TYPED = (
    _of_any("And", (1, 7), "x0 and x1"),
    _of_any("BitwiseAnd", (18,), "x0 & x1"),
    _of_any("BitwiseNot", (18,), "~x0", inputs=1),
    _of_any("BitwiseOr", (18,), "x0 | x1"),
    _of_any("BitwiseXor", (18,), "x0 ^ x1"),
    Operator(
        "BitShift",
        (11, 28),
        (Input("X", elements="number"), Input("Y", elements="number")),
        (Attribute("direction", "text", required=True, accepted=("LEFT", "RIGHT")),),
        _shifted,
    ),
    Operator(
        "Cast",
        (1, 6, 9, 13, 19, 21, 23, 24, 25, 28),
        (Input("X", elements="any"),),
        (
            Attribute("to", "text", accepted=tuple(NAMED), required=True, until=5),
            Attribute("to", "integer", accepted=tuple(TYPES), required=True, since=6),
            Attribute("saturate", "integer", 1, since=19),
            Attribute("round_mode", "text", "up", since=24),
        ),
        _cast,
    ),
    Operator(
        "CastLike",
        (15, 19, 21, 23, 24, 25),
        (Input("X", elements="any"), Input("target", "shape", "any")),
        (
            Attribute("saturate", "integer", 1, since=19),
            Attribute("round_mode", "text", "up", since=24),
        ),
        _cast_like,
    ),
    _of_any("Equal", (1, 7, 11, 13, 19), "x0 == x1", truth=True),
    _of_any("Greater", (1, 7, 9, 13), "x0 > x1", truth=True),
    _of_any("GreaterOrEqual", (12, 16), "x0 >= x1", truth=True),
    Operator(
        "IsInf",
        (10, 20),
        (Input("X", elements="number"),),
        (
            Attribute("detect_negative", "integer", 1, (0, 1)),
            Attribute("detect_positive", "integer", 1, (0, 1)),
        ),
        _is_infinite,
    ),
    _of_any("IsNaN", (9, 13, 20), "x0 != x0", truth=True, inputs=1),
    _of_any("Less", (1, 7, 9, 13), "x0 < x1", truth=True),
    _of_any("LessOrEqual", (12, 16), "x0 <= x1", truth=True),
    _of_any("Not", (1,), "not x0", inputs=1),
    _of_any("Or", (1, 7), "x0 or x1"),
    Operator(
        "Where",
        (9, 16),
        (
            Input("condition", elements="bool"),
            Input("X", elements="any"),
            Input("Y", elements="any"),
        ),
        (),
        _where,
    ),
    _of_any("Xor", (1, 7), "x0 != x1"),
)
