"""From an ONNX model as plain values to a network, node by node, shapes inferred on the way.

Nodes whose operands are all constants (how exporters compute shapes) are folded; every other node
goes to its translator in `onnx_operators`.
"""

from __future__ import annotations

from tilewright.common.errors import GraphError, ShapeError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.onnx_fold import FOLDS, fold
from tilewright.graph.frontends.onnx_importer import Importer
from tilewright.graph.frontends.onnx_model import InputDeclaration, OnnxModel, OnnxNode
from tilewright.graph.frontends.onnx_operators import TRANSLATORS
from tilewright.graph.graph import Network
from tilewright.graph.names import quoted
from tilewright.ops.op import Shape

SUPPORTED = sorted({*TRANSLATORS, *FOLDS})


def import_model(model: OnnxModel, name: str, batch: int | None, dtype: str | None) -> Network:
    """The network that `model` describes, called `name`."""
    if batch is not None and batch < 1:
        raise GraphError(f"batch must be a positive integer, found {batch}")
    for node in model.nodes:
        _require_supported(node)
    declared = [item for item in model.inputs if item.name not in model.constants]
    builder = NetworkBuilder(name, dtype or _element_type(declared))
    for item in declared:
        builder.input(item.name, _input_shape(item, batch))
    importer = Importer(builder, dict(model.constants), model.opset, _file_batch(declared), batch)
    for node in model.nodes:
        _import_node(importer, node)
    for output in model.outputs:
        importer.use(output, "the model's outputs")
    return builder.finish(tuple(model.outputs), importer.values)


def _import_node(importer: Importer, node: OnnxNode) -> None:
    if fold(importer, node):
        return
    if node.kind not in TRANSLATORS:
        raise GraphError(
            f"{node.title()}: is supported only where its operands are constants, "
            "as in the computation of a shape"
        )
    try:
        TRANSLATORS[node.kind](importer, node)
    except ShapeError as error:
        raise GraphError(f"{node.title()}: {error}") from None


def _require_supported(node: OnnxNode) -> None:
    if node.domain or node.kind not in SUPPORTED:
        origin = f" of domain {quoted(node.domain)}" if node.domain else ""
        raise GraphError(
            f"operator {quoted(node.kind)}{origin} is not supported ({node.title()})",
            fix=f"supported operators: {', '.join(SUPPORTED)}",
        )


def _element_type(declared: list[InputDeclaration]) -> str:
    """The one element type of all inputs."""
    found = sorted({item.dtype for item in declared})
    if len(found) != 1 or found[0] not in ("f32", "f64"):
        raise GraphError(
            f"expected all inputs to be of one floating-point type, found {', '.join(found)}"
            if found
            else "the model has no input"
        )
    return found[0]


def _input_shape(item: InputDeclaration, batch: int | None) -> Shape:
    extents = list(item.extents)
    if batch is not None and extents:
        extents[0] = batch
    for position, extent in enumerate(extents):
        if isinstance(extent, str):
            called = f" {quoted(extent)}" if extent else ""
            fix = "give --batch" if position == 0 else "export the model with a fixed size"
            raise GraphError(
                f"input {quoted(item.name)} leaves dimension {position}{called} open", fix=fix
            )
        if extent < 1:
            raise GraphError(
                f"input {quoted(item.name)} has the extent {extent} at dimension {position}"
            )
    return tuple(int(extent) for extent in extents)


def _file_batch(declared: list[InputDeclaration]) -> int | None:
    """The batch size that the file fixes, if it fixes one."""
    first = declared[0].extents[:1] if declared else ()
    return first[0] if first and isinstance(first[0], int) else None
