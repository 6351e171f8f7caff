"""Folding of nodes whose operands are known before the network runs.

Exporters compute the shapes of reshapes by small integer programs, and store weights transposed;
both are evaluated while the file is read. Only a few operators, on small operands, are folded.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx_importer import Importer
from tilewright.graph.frontends.onnx_model import Constant, OnnxNode

LARGEST_ELEMENTS = 4096
"""Operands above this size are tensors of the network, not parts of a shape."""

_SAME_SIZE = ("Identity", "Transpose")
"""These give as many elements as they take, and are folded at any size."""


def fold(importer: Importer, node: OnnxNode) -> bool:
    """Compute `node` now if that is possible; its result becomes a constant."""
    if node.kind not in FOLDS:
        return False
    if node.kind == "Shape" and importer.builder.has(node.input(0)):
        shape = np.array(importer.builder.shape(node.input(0)), np.int64)
        importer.constants[node.output()] = shape
        return True
    given = [name for name in node.inputs if name]
    operands = [importer.constants[name] for name in given if name in importer.constants]
    small = all(operand.size <= LARGEST_ELEMENTS for operand in operands)
    if len(operands) < len(given) or not (small or node.kind in _SAME_SIZE):
        return False
    try:
        with np.errstate(all="raise"):
            importer.constants[node.output()] = np.asarray(FOLDS[node.kind](node, *operands))
    except (ValueError, IndexError, TypeError, ArithmeticError):
        raise GraphError(f"{node.title()}: its constant operands do not fit each other") from None
    return True


def _constant(node: OnnxNode) -> Constant:
    for name in ("value", "value_int", "value_ints", "value_float", "value_floats"):
        if isinstance(value := node.attributes.get(name), int | tuple):
            return np.array(value, np.int64 if "int" in name else np.float32)
        if isinstance(value, float | np.ndarray):
            return np.asarray(value) if name == "value" else np.array(value, np.float32)
    raise GraphError(f"{node.title()}: holds no number or tensor")


def _axes(node: OnnxNode, rest: tuple[Constant, ...]) -> tuple[int, ...]:
    """The axes, an attribute up to operator set 12 and an input from 13 on."""
    return tuple(map(int, rest[0])) if rest else node.integers("axes", ())


def _squeeze(node: OnnxNode, x: Constant, *rest: Constant) -> Constant:
    return np.squeeze(x, _axes(node, rest) or None)


def _unsqueeze(node: OnnxNode, x: Constant, *rest: Constant) -> Constant:
    return np.expand_dims(x, _axes(node, rest))


def _slice(node: OnnxNode, x: Constant, *rest: Constant) -> Constant:
    """The part between starts and ends; both are attributes up to operator set 9."""
    lists = [tuple(map(int, item)) for item in rest] or [
        node.integers(name, ()) for name in ("starts", "ends", "axes")
    ]
    starts, ends, axes, steps = (*lists, (), ())[:4]
    where = [slice(None)] * x.ndim
    parts = zip(axes or range(len(starts)), starts, ends, steps or (1,) * len(starts), strict=True)
    for axis, start, end, step in parts:
        where[axis] = slice(start, end, step)
    return x[tuple(where)]


def _cast(node: OnnxNode, x: Constant) -> Constant:
    types = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 11: np.float64}
    code = node.integer("to", 0)
    if code not in types:
        raise GraphError(f"{node.title()}: cannot convert to the element type {code}")
    return x.astype(types[code])


def _divide(_: OnnxNode, a: Constant, b: Constant) -> Constant:
    """Integers divide towards zero, as in C."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)))


FOLDS: dict[str, Callable[..., Constant]] = {
    "Add": lambda _, a, b: np.add(a, b),
    "Cast": _cast,
    "Concat": lambda node, *x: np.concatenate(x, node.integer("axis", 0)),
    "Constant": _constant,
    "Div": _divide,
    "Gather": lambda node, x, index: np.take(x, index, node.integer("axis", 0)),
    "Identity": lambda _, x: x,
    "Mul": lambda _, a, b: np.multiply(a, b),
    "Shape": lambda _, x: np.array(x.shape, np.int64),
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": lambda _, a, b: np.subtract(a, b),
    "Transpose": lambda node, x: np.transpose(x, node.integers("perm", ()) or None),
    "Unsqueeze": _unsqueeze,
}
