"""From an ONNX model as plain values to a network, node by node, shapes inferred on the way.

Nodes whose operands are all constants, by which exporters compute shapes, are folded; every other
node goes to the translator of its operator.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np
from onnx import helper, numpy_helper, shape_inference

from tilewright.common.errors import GraphError, InternalError, ShapeError, TilewrightError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.onnx.declare import NAMED, TYPES, Operator
from tilewright.graph.frontends.onnx.fold import folded
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import (
    Extents,
    InputDeclaration,
    OnnxModel,
    OnnxNode,
    OutputDeclaration,
    Subgraph,
)
from tilewright.graph.frontends.onnx.operators import OPERATORS
from tilewright.graph.graph import Network
from tilewright.graph.names import quoted
from tilewright.ops.op import Shape, show_shape

_CODES = {name: code for code, name in TYPES.items()}
_LOG = logging.getLogger(__name__)
_FLOATS = ("f32", "f64")
_MOST_NAMED = 40
"""Most nodes whose errors are shown."""
_BEYOND_MEMORY = ("array is too big", "Maximum allowed")
"""NumPy's message for an array beyond the address space."""


def import_model(
    model: OnnxModel, name: str, batch: int | None, dtype: str | None, shapes: Mapping[str, Shape]
) -> Network:
    """The network that `model` describes, called `name`; `shapes` overrides shapes of inputs."""
    if batch is not None and batch < 1:
        raise GraphError(f"batch must be a positive integer, found {batch}")
    if dtype not in (None, *_FLOATS):
        raise GraphError(
            f"an ONNX model can be read in f32, f64 or fixed point, found {quoted(dtype)}",
            fix="name fixed point with its sums, such as q8.8:q48.16:q8.8",
        )
    if not model.outputs:
        raise GraphError("the model has no output", fix="name what it computes as graph outputs")
    declared = [item for item in model.inputs if item.name not in model.constants]
    _require_names(declared, shapes)
    file_dtype = _element_type(declared)
    builder = NetworkBuilder(name, dtype or file_dtype)
    for item in declared:
        kind = TYPES[NAMED[item.dtype]]
        kind = "" if kind == file_dtype else kind
        builder.input(item.name, _input_shape(item, batch, shapes.get(item.name)), kind)
    own_batch = batch or next((shape[0] for shape in shapes.values() if shape), None)
    file_batch = _file_batch(declared)
    importer = Importer(
        builder, dict(model.constants), file_dtype, file_batch, own_batch, imported=_import_node
    )
    _import_nodes(importer, model.nodes)
    names = tuple(importer.output(output.name) for output in model.outputs)
    if batch is None and not shapes:
        _warn_of_other_shapes(model.outputs, builder)
    return builder.build(names, importer.values)


def _warn_of_other_shapes(outputs: Sequence[OutputDeclaration], builder: NetworkBuilder) -> None:
    """Log a warning if an output's declared shape differs from the computed one. The latter is
    used, since exporters leave outdated shapes behind.
    """
    for output in outputs:
        declared, computed = output.extents, builder.shape(output.name)
        if declared is None or _agree(declared, computed):
            continue
        shown = "x".join(str(e or "?") if isinstance(e, int) else "?" for e in declared) or "scalar"
        name, found = quoted(output.name), show_shape(computed)
        _LOG.warning("output %s is declared %s, its nodes compute %s", name, shown, found)


def _agree(declared: Extents, computed: Shape) -> bool:
    """True if all declared extents match; exporters write 0 for open ones."""
    return len(declared) == len(computed) and all(
        a == b for a, b in zip(declared, computed, strict=True) if isinstance(a, int) and a
    )


def _import_nodes(importer: Importer, nodes: Sequence[OnnxNode]) -> None:
    """Translate all nodes. Raises all errors together, except in nodes that depend on bad ones."""
    refused, lost = list[GraphError](), set[str]()
    for node in nodes:
        reads_more = any(isinstance(value, Subgraph) for value in node.attributes.values())
        if lost.isdisjoint(node.inputs) and not (lost and reads_more):
            try:
                _import_node(importer, node)
                continue
            except GraphError as error:
                refused.append(error)
        lost.update(filter(None, node.outputs))
    if len(refused) == 1:
        raise refused[0]
    if refused:
        more = f"\n  and {len(refused) - _MOST_NAMED} more" if len(refused) > _MOST_NAMED else ""
        lines = [f"\n  {error.message}" for error in refused[:_MOST_NAMED]]
        raise GraphError(f"{len(refused)} nodes cannot be read:{''.join(lines)}{more}")


def _import_node(importer: Importer, node: OnnxNode) -> None:
    operator = OPERATORS[node.kind]
    try:
        if folded(importer, operator, node):
            return
        if operator.translate is None:
            missing = next(name for name in node.inputs if name not in importer.constants)
            raise GraphError(
                f"{node.title()} reads {quoted(missing)}, which nothing before it produces"
            )
        operator.translate(importer.at(node, operator))
    except ShapeError as error:
        raise GraphError(f"{node.title()}: {error}") from None
    except TilewrightError:
        raise
    except Exception as error:
        if isinstance(error, MemoryError) or str(error).startswith(_BEYOND_MEMORY):
            raise GraphError(f"{node.title()}: its result does not fit memory") from None
        if reason := _reason_against(importer, operator, node):
            raise GraphError(f"{node.title()}: its operands do not fit: {reason}") from None
        raise InternalError(
            f"{node.title()}: a fault of tilewright's, not of the model: "
            f"{type(error).__name__}: {error}",
            fix="report it with the model",
        ) from error


def _reason_against(importer: Importer, operator: Operator, node: OnnxNode) -> str:
    """The standard's own objection to the operands of a node; empty if there is none."""
    schema, types, data = operator.definitions[node.version], {}, {}
    given = {
        name: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in node.attributes.items()
        if not isinstance(value, Subgraph) and not (isinstance(value, tuple) and not value)
    }
    for name in filter(None, node.inputs):
        if importer.builder.has(name):
            kind = _CODES[importer.builder.element_type(name)]
            types[name] = helper.make_tensor_type_proto(kind, importer.builder.shape(name))
        elif name not in importer.constants:
            return f"{quoted(name)} is produced by nothing before it"
        else:
            data[name] = numpy_helper.from_array(importer.constants[name], name)
            types[name] = helper.make_tensor_type_proto(data[name].data_type, data[name].dims)
    try:
        proto = helper.make_node(node.kind, node.inputs, node.outputs, **given)  # type: ignore[arg-type]  # any values
        opset = [helper.make_opsetid("", node.version)]
        shape_inference.infer_node_outputs(schema, proto, types, data, opset_imports=opset)
    except Exception as error:  # any exception of the package explains the fault
        return str(error).splitlines()[0].removeprefix("[ShapeInferenceError] ")
    return ""


def _require_names(declared: Sequence[InputDeclaration], shapes: Mapping[str, Shape]) -> None:
    names = [item.name for item in declared]
    for name in shapes:
        if name not in names:
            raise GraphError(
                f"a shape is given for {quoted(name)}, which is not an input",
                fix=f"inputs: {', '.join(map(quoted, names))}",
            )


def _element_type(declared: Sequence[InputDeclaration]) -> str:
    """Element type of the first float input, f32 if there is none. Raises GraphError."""
    for item in declared:
        if item.dtype not in NAMED:
            raise GraphError(
                f"input {quoted(item.name)} has the element type {item.dtype}",
                fix=f"supported are {', '.join(NAMED)}",
            )
    kinds = (TYPES[NAMED[item.dtype]] for item in declared)
    return next((kind for kind in kinds if kind in _FLOATS), "f32")


def _input_shape(item: InputDeclaration, batch: int | None, given: Shape | None) -> Shape:
    what = f"input {quoted(item.name)}"
    own = item.extents
    wanted = own if given is None else given
    if wanted is None:
        option = f"give --shape {quoted(item.name)[1:-1]}=EXTENTS, one for each dimension"
        raise GraphError(f"{what} leaves its shape open", fix=f"{option}, with an x between them")
    if item.extents is not None and len(wanted) != len(item.extents):
        raise GraphError(
            f"{what} has {len(item.extents)} dimensions, its given shape {len(wanted)}"
        )
    extents = list(wanted)
    if batch is not None and extents and given is None:
        extents[0] = batch
    for position, extent in enumerate(extents):
        if isinstance(extent, str):
            called = f" {quoted(extent)}" if extent else ""
            only = not any(isinstance(other, str) for other in extents[1:])
            fix = "give --batch" if only else _shape_option(item, extents)
            raise GraphError(f"{what} leaves dimension {position}{called} open", fix=fix)
        if extent < 1:
            raise GraphError(f"{what} has the extent {extent} at dimension {position}")
    return tuple(int(extent) for extent in extents)


def _shape_option(item: InputDeclaration, extents: Sequence[int | str]) -> str:
    """The option that sets an input's shape, with a question mark for each open extent."""
    shown = "x".join("?" if isinstance(extent, str) else str(extent) for extent in extents)
    return f"give --shape {quoted(item.name)[1:-1]}={shown}"


def _file_batch(declared: Sequence[InputDeclaration]) -> int | None:
    """The batch size that the file fixes, if it fixes one."""
    first = declared[0].extents if declared else None
    return first[0] if first and isinstance(first[0], int) else None
