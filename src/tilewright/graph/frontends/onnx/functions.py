"""Expansion of operators that the ONNX standard defines as functions of other operators.

In: the nodes of a model. Out: the nodes with every unsupported operator that the standard defines
as a function replaced by that function's nodes, with unique names.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

import onnx
from onnx import defs

from tilewright.graph.frontends.onnx.declare import schema_of

_DEEPEST = 4
"""Most levels of nested definitions that are expanded."""


def expanded_nodes(
    model: onnx.ModelProto, opset: int, read: Container[str]
) -> list[onnx.NodeProto]:
    """The nodes of a model, with operators outside `read` expanded by their definitions."""
    nodes = list(model.graph.node)
    if all(node.op_type in read or node.domain for node in nodes):
        return nodes
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    for _ in range(_DEEPEST):
        own = (n for n in nodes if n.domain in ("", "ai.onnx"))
        unread = (n.op_type for n in own if n.op_type not in read)
        types = _types(whole) if any(_by_types(kind, opset) for kind in unread) else {}
        found = [own for number, node in enumerate(nodes) for own in _defined(
            node, number, opset, types, read)]  # fmt: skip
        if len(found) == len(nodes):
            break
        nodes = found
        del whole.graph.node[:]
        whole.graph.node.extend(nodes)
    return nodes


def _by_types(kind: str, opset: int) -> bool:
    """True if an operator's definition depends on the types of its inputs."""
    schema = schema_of(kind, opset)
    return schema is not None and bool(schema.context_dependent_function_opset_versions)


def _types(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """Types of tensors by name, as far as the standard's inference determines them."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except Exception:  # any fault is reported by name in the checks that follow
        inferred = model
    graph = inferred.graph
    found = {v.name: v.type for v in (*graph.input, *graph.value_info, *graph.output)}
    for tensor in graph.initializer:
        found[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    return found


def _defined(
    node: onnx.NodeProto,
    number: int,
    opset: int,
    types: dict[str, onnx.TypeProto],
    read: Container[str],
) -> Iterator[onnx.NodeProto]:
    """The nodes of a node's definition; the node itself if it has none or is supported."""
    function = None
    if node.op_type not in read and node.domain in ("", "ai.onnx"):
        function = _function(node, opset, types)
    if function is None:
        yield node
        return
    names = dict(zip(function.input, node.input, strict=False))
    names |= dict.fromkeys(function.input[len(node.input) :], "")
    names |= dict(zip(function.output, node.output, strict=False))
    prefix = f"{node.output[0]}/{node.op_type}{number}"
    given = {attribute.name: attribute for attribute in node.attribute}
    defaults = defs.get_schema(node.op_type, opset, "").attributes.values()
    usual = {a.name: a.default_value for a in defaults if a.default_value.name}
    given = {**usual, **{a.name: a for a in function.attribute_proto}, **given}
    for place, inner in enumerate(function.node):
        made = onnx.NodeProto()
        made.CopyFrom(inner)
        made.name = f"{node.name or node.op_type}_{place}"
        made.input[:] = [names.setdefault(n, f"{prefix}/{n}") if n else "" for n in inner.input]
        made.output[:] = [names.setdefault(n, f"{prefix}/{n}") if n else "" for n in inner.output]
        del made.attribute[:]
        made.attribute.extend(_attributes(inner.attribute, given))
        for attribute in made.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, names)
        yield made


def _rename(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    """Rename the tensors that a branch reads from outside."""
    own = {name for node in graph.node for name in node.output}
    own |= {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        node.input[:] = [n if n in own else names.get(n, n) for n in node.input]
    for output in graph.output:
        if output.name not in own:
            output.name = names.get(output.name, output.name)


def _attributes(
    own: Iterable[onnx.AttributeProto], given: dict[str, onnx.AttributeProto]
) -> Iterator[onnx.AttributeProto]:
    """Attributes, with references replaced by the attributes of the expanded node."""
    for attribute in own:
        if not attribute.ref_attr_name:
            yield attribute
        elif attribute.ref_attr_name in given:
            made = onnx.AttributeProto()
            made.CopyFrom(given[attribute.ref_attr_name])
            made.name = attribute.name
            yield made


def _function(
    node: onnx.NodeProto, opset: int, types: dict[str, onnx.TypeProto]
) -> onnx.FunctionProto | None:
    schema = schema_of(node.op_type, opset)
    if schema is None:
        return None
    versions = (*schema.function_opset_versions, *schema.context_dependent_function_opset_versions)
    fitting = [version for version in versions if version <= opset]
    if not fitting:
        return None
    with_types = max(fitting) in schema.context_dependent_function_opset_versions
    if with_types and any(name and name not in types for name in node.input):
        return None
    given = [types.get(name, onnx.TypeProto()).SerializeToString() for name in node.input]
    try:
        if with_types:
            found = schema.get_context_dependent_function_with_opset_version(
                max(fitting), node.SerializeToString(), given
            )
        else:
            made = schema.get_function_with_opset_version(max(fitting))
            found = made if isinstance(made, bytes) else made.SerializeToString()
    except Exception:  # the definition does not hold for these types
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(found)
    return function if function.node else None
