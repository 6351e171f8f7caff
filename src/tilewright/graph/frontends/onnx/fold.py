"""Folding of nodes whose operands are known before the network runs.

Exporters compute the shapes of reshapes by small integer programs and store weights transposed;
both are evaluated while the file is read. Large operands are folded by a few operators only.
"""

from __future__ import annotations

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import Operator
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import Constant, OnnxNode, Subgraph

LARGEST_ELEMENTS = 4096
"""Largest operand that counts as part of a shape computation and is folded."""

_SAME_SIZE = ("Identity", "Reshape", "Transpose")
"""Operators that keep the number of elements, and are folded at any size."""


def folded(importer: Importer, operator: Operator, node: OnnxNode) -> bool:
    """Fold `node` into constants if possible; returns True if it was folded."""
    graphs = any(isinstance(value, Subgraph) for value in node.attributes.values())
    if graphs or (operator.fold is None and not node.inputs):
        return False  # a graph may read more than the operands
    operands = [_operand(importer, operator, node, i) for i in range(len(node.inputs))]
    known = [operand for operand in operands if operand is not None]
    declared = operator.inputs_of(node.version)
    for i, name in enumerate(node.inputs):
        of_shape = 0 < i < len(declared) and declared[i].kind == "shape"
        if name and operands[i] is None and not of_shape:
            return False
    if node.kind not in _SAME_SIZE and any(item.size > LARGEST_ELEMENTS for item in known):
        if operator.translate is not None:
            return False
        raise GraphError(
            f"{node.title()}: is computed while the file is read, from at most "
            f"{LARGEST_ELEMENTS} elements"
        )
    own = operator.fold
    found = [np.asarray(own(node, *operands))] if own else _by_meaning(importer, operator, node)
    importer.constants |= dict(zip(node.outputs, found, strict=False))
    return True


def _operand(importer: Importer, operator: Operator, node: OnnxNode, index: int) -> Constant | None:
    """The constant at an input, or the tensor's shape if only that is read; None if unknown."""
    name, declared = node.inputs[index], operator.inputs_of(node.version)
    if declared and declared[0].kind == "shape":
        if importer.builder.has(name):
            return np.array(importer.builder.shape(name), np.int64)
        stored = importer.constants.get(name)
        return None if stored is None else np.array(stored.shape, np.int64)
    return importer.constants.get(name)


def _by_meaning(importer: Importer, operator: Operator, node: OnnxNode) -> list[Constant]:
    """The outputs, evaluated by the references of the node's translation."""
    inner = importer.apart().at(node, operator)
    assert operator.translate is not None
    operator.translate(inner)
    outputs = tuple(name for name in node.outputs if name)
    if inner.constants.keys() >= set(outputs):
        return [inner.constants[name] for name in outputs]
    found = inner.builder.build(outputs, inner.values).evaluate({})
    own = importer.builder.dtype
    kinds = {name: inner.builder.element_type(name) for name in outputs}
    file = dtype(importer.file_dtype).numpy
    return [found[n].astype(file) if kinds[n] == own else found[n] for n in outputs]


def constant(node: OnnxNode) -> Constant:
    """The value of a Constant node. Raises GraphError unless it holds exactly one."""
    given = [name for name in ("value", "value_int", "value_ints", "value_float", "value_floats")
             if name in node.attributes]  # fmt: skip
    if len(given) != 1:
        raise GraphError(f"{node.title()}: holds {len(given) or 'no'} values, expected one")
    kind = {"value": None}.get(given[0], np.int64 if "int" in given[0] else np.float32)
    return np.asarray(node.attributes[given[0]], kind)


def shape(node: OnnxNode, extents: Constant) -> Constant:
    """The extents from `start` to `end`; negative bounds count from the end."""
    start, end = (node.attributes.get(name) for name in ("start", "end"))
    return extents[slice(start, end)]
