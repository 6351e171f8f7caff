"""Folding of nodes whose operands are known before the network runs.

Exporters compute the shapes of reshapes by small integer programs, and store weights transposed;
both are evaluated while the file is read. Only a few operators, on small operands, are folded.
"""

from __future__ import annotations

import numpy as np

from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import Operator
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import Constant, OnnxNode, integers_of
from tilewright.graph.frontends.onnx.shapes import aligned, reshaped

LARGEST_ELEMENTS = 4096
"""Operands above this size are tensors of the network, not parts of a shape."""

_SAME_SIZE = ("Identity", "Reshape", "Transpose")
"""These give as many elements as they take, and are folded at any size."""


def folded(importer: Importer, operator: Operator, node: OnnxNode) -> bool:
    """Compute `node` now if that is possible; its result becomes a constant."""
    if operator.fold is None:
        return False
    operands = [_operand(importer, operator, node, i) for i in range(len(node.inputs))]
    known = [operand for operand in operands if operand is not None]
    if len(known) < sum(map(bool, node.inputs)):
        return False
    if node.kind not in _SAME_SIZE and any(item.size > LARGEST_ELEMENTS for item in known):
        if operator.translate is not None:
            return False
        raise GraphError(
            f"{node.title()}: is computed while the file is read, from at most "
            f"{LARGEST_ELEMENTS} elements"
        )
    importer.constants[node.output()] = _computed(operator, node, operands)
    return True


def _operand(importer: Importer, operator: Operator, node: OnnxNode, index: int) -> Constant | None:
    """The constant, or an array of the tensor's shape if only that is read; None if unknown."""
    name, declared = node.inputs[index], operator.inputs_of(node.version)
    if declared and declared[0].kind == "shape":
        if importer.builder.has(name):
            return np.array(importer.builder.shape(name), np.int64)
        stored = importer.constants.get(name)
        return None if stored is None else np.array(stored.shape, np.int64)
    return importer.constants.get(name)


def _computed(operator: Operator, node: OnnxNode, operands: list[Constant | None]) -> Constant:
    assert operator.fold is not None
    floats = node.kind != "Cast" and all(o is None or o.dtype.kind == "f" for o in operands)
    try:
        with np.errstate(all="ignore" if floats else "raise"):
            return np.asarray(operator.fold(node, *operands))
    except (ValueError, IndexError, TypeError, ArithmeticError):
        raise GraphError(f"{node.title()}: its constant operands do not fit each other") from None


def constant(node: OnnxNode) -> Constant:
    """The value of a Constant node. Raises GraphError unless it holds exactly one."""
    given = [name for name in ("value", "value_int", "value_ints", "value_float", "value_floats")
             if name in node.attributes]  # fmt: skip
    if len(given) != 1:
        raise GraphError(f"{node.title()}: holds {len(given) or 'no'} values, expected one")
    kind = {"value": None}.get(given[0], np.int64 if "int" in given[0] else np.float32)
    return np.asarray(node.attributes[given[0]], kind)


def shape(node: OnnxNode, extents: Constant) -> Constant:
    """The extents from `start` to `end`, which count from the back where they are negative."""
    if node.version < 15:
        return extents
    end = node.integer("end") if "end" in node.attributes else None
    return extents[node.integer("start") : end]


def _axes(node: OnnxNode, rest: tuple[Constant | None, ...]) -> tuple[int, ...]:
    """The axes, an attribute up to operator set 12 and an input from 13 on."""
    if rest and rest[0] is not None:
        return tuple(map(int, rest[0]))
    return node.integers("axes") if "axes" in node.attributes else ()


def squeeze(node: OnnxNode, x: Constant, *rest: Constant | None) -> Constant:
    """`x` without the named axes of one element, or without all of them."""
    return np.squeeze(x, _axes(node, rest) or None)


def unsqueeze(node: OnnxNode, x: Constant, *rest: Constant | None) -> Constant:
    """`x` with new axes of one element."""
    return np.expand_dims(x, _axes(node, rest))


def slices(node: OnnxNode, x: Constant, *rest: Constant | None) -> Constant:
    """The part between starts and ends; both are attributes up to operator set 9."""
    if node.version < 10:
        axes = node.integers("axes") if "axes" in node.attributes else None
        lists = [node.integers("starts"), node.integers("ends"), axes, None]
    else:
        lists = [None if item is None else tuple(map(int, item)) for item in (*rest, None, None)]
    starts, ends, axes, steps = lists[:4]
    assert starts is not None
    assert ends is not None
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    where = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        where[axis] = slice(start, end, step)
    return x[tuple(where)]


_CAST = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 11: np.float64}
CAST_TO = tuple(_CAST)
_NAMED = {"FLOAT": 1, "INT32": 6, "INT64": 7, "BOOL": 9, "DOUBLE": 11}
CAST_TO_NAMES = tuple(_NAMED)
"""The element types that constants are cast to: their numbers, and their names."""


def cast(node: OnnxNode, x: Constant) -> Constant:
    """The numbers in another element type, which the first version names by a word."""
    return x.astype(_CAST[_NAMED[node.text("to")] if node.version < 6 else node.integer("to")])


def gather(node: OnnxNode, x: Constant, index: Constant) -> Constant:
    """The entries along an axis that the integers of `index` name."""
    if index.dtype.kind != "i":
        raise TypeError
    return np.take(x, index, node.integer("axis"))


def reshape(node: OnnxNode, x: Constant, wanted: Constant | None = None) -> Constant:
    """The numbers under another shape."""
    extents = node.integers("shape") if wanted is None else integers_of(wanted)
    if extents is None:
        raise TypeError
    return x.reshape(reshaped(node, x.shape, extents))


def transpose(node: OnnxNode, x: Constant) -> Constant:
    """`x` with its axes in the order `perm`, by default reversed."""
    return np.transpose(x, node.integers("perm") if "perm" in node.attributes else None)


def concatenate(node: OnnxNode, *x: Constant) -> Constant:
    """The operands concatenated along `axis`."""
    return np.concatenate(x, node.integer("axis"))


def add(node: OnnxNode, a: Constant, b: Constant) -> Constant:
    """a + b."""
    return np.add(*_alike(node, a, b))


def subtract(node: OnnxNode, a: Constant, b: Constant) -> Constant:
    """a - b."""
    return np.subtract(*_alike(node, a, b))


def multiply(node: OnnxNode, a: Constant, b: Constant) -> Constant:
    """a b."""
    return np.multiply(*_alike(node, a, b))


def divide(node: OnnxNode, a: Constant, b: Constant) -> Constant:
    """a / b; integers divide towards zero, as in C."""
    a, b = _alike(node, a, b)
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)))


def _alike(node: OnnxNode, a: Constant, b: Constant) -> tuple[Constant, Constant]:
    """Both operands, with `b` reshaped to broadcast by the rules of the operator's version."""
    if a.dtype != b.dtype or a.dtype.kind == "b":
        raise TypeError
    return a, b if node.version >= 7 else b.reshape(aligned(node, a.shape, b.shape))
