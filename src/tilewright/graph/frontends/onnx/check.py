"""Check that a model can be read, before any of it is translated.

In: the nodes of a file. Out: the nodes with operator versions and default attributes filled in, or
one error that lists every unsupported operator, with the reason and the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite, isnan

import numpy as np

from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import (
    NEWEST_OPSET,
    Attribute,
    AttributeKind,
    Input,
    Operator,
    schema_of,
)
from tilewright.graph.frontends.onnx.model import OnnxNode, Subgraph
from tilewright.graph.frontends.onnx.operators import OPERATORS
from tilewright.graph.names import quoted

REFERENCE = "docs/reference/onnx.md lists what is read"
_MOST_NAMES = 5
"""Most nodes named for each reason."""
_MOST_REASONS = 40
_BY_DATA = "gives as many results as its data say"

_WORDS: dict[AttributeKind, str] = {
    "integer": "an integer",
    "integers": "integers",
    "number": "a finite number",
    "numbers": "finite numbers",
    "limit": "a number",
    "text": "a text",
    "texts": "texts",
    "tensor": "a tensor",
    "graph": "a graph",
}


def checked(
    nodes: Sequence[OnnxNode], opset: int, stored: set[str], outputs: Sequence[str]
) -> list[OnnxNode]:
    """The nodes, ready to be translated; `stored` are the names of the model's own numbers.

    Raises GraphError with everything in the nodes that is not handled.
    """
    if not 1 <= opset <= NEWEST_OPSET:
        raise GraphError(
            f"the model is written in operator set {opset}",
            fix=f"supported are 1 to {NEWEST_OPSET}: export it again",
        )
    known = set(stored)
    used = {name for node in nodes for name in node.inputs} | set(outputs)
    lacking: dict[tuple[str, str], list[OnnxNode]] = {}
    found = []
    for node in nodes:
        reasons = list(_reasons(node, opset, known, used))
        for branch in (v for v in node.attributes.values() if isinstance(v, Subgraph)):
            own = _known_inside(node, branch, known)
            checked(branch.nodes, opset, known | own, branch.outputs)
        for reason in reasons:
            lacking.setdefault((node.kind, reason), []).append(node)
        if not reasons:
            node = _completed(node, opset)
            found.append(node)
        if _is_constant(node, opset, known):
            known.update(node.outputs)
    if lacking:
        raise _refusal(lacking)
    return found


def _known_inside(node: OnnxNode, branch: Subgraph, known: set[str]) -> set[str]:
    """The constants inside a graph. In a loop, the count, the condition, and carried values that
    start as constants may be constants, too.
    """
    given = ("", "", *node.inputs[2:]) if node.kind == "Loop" else ()
    carried = zip(branch.inputs, given, strict=False)
    return {*branch.constants, *(own for own, name in carried if not name or name in known)}


def _completed(node: OnnxNode, opset: int) -> OnnxNode:
    operator = OPERATORS[node.kind]
    version = operator.version(opset)
    declared = operator.attributes_of(version)
    defaults = {name: a.default for name, a in declared.items() if a.default is not None}
    given = {name: _branch(value, opset) for name, value in node.attributes.items()}
    return replace(node, version=version, attributes={**defaults, **given})


def _branch(value: object, opset: int) -> object:
    if not isinstance(value, Subgraph):
        return value
    return replace(value, nodes=tuple(_completed(node, opset) for node in value.nodes))


def _is_constant(node: OnnxNode, opset: int, known: set[str]) -> bool:
    """True if the result can be computed before the network runs."""
    operator = OPERATORS.get(node.kind)
    if node.domain or operator is None or not operator.version(opset):
        return False
    if operator.fold is None and (operator.translate is None or not node.inputs):
        return False
    declared = operator.inputs_of(operator.version(opset))
    kinds = [_declared_input(operator, declared, i) for i in range(len(node.inputs))]
    return all(
        not name or name in known or (kind is not None and kind.kind == "shape")
        for name, kind in zip(node.inputs, kinds, strict=True)
    )


def _reasons(node: OnnxNode, opset: int, known: set[str], used: set[str]) -> Iterator[str]:
    operator = OPERATORS.get(node.kind)
    if node.domain:
        yield f"is an operator of the domain {quoted(node.domain)}"
    elif operator is None:
        yield _unread(node.kind, opset)
    elif not operator.version(opset):
        since = operator.versions[0]
        yield f"is read from operator set {since} on, the model is written in {opset}"
    else:
        version = operator.version(opset)
        yield from _attribute_reasons(node, operator, version, opset)
        yield from _input_reasons(node, operator, version, known)
        if operator.translate is None and not _is_constant(node, opset, known):
            yield f"{_BY_DATA}, and is read where its operands are constants: bind them"
        if not any(node.outputs if operator.many else node.outputs[:1]):
            yield "has no output"
        for index, name in enumerate(node.outputs):
            if index and name and name in used and not operator.many:
                yield f"output {index} is used, only output 0 is computed"


def _unread(kind: str, opset: int) -> str:
    """The reasons against reading a node that the standard's definition reveals."""
    if kind in ("NonMaxSuppression", "Unique"):
        return f"{_BY_DATA}: end the model before it"
    schema = schema_of(kind, opset)
    operands = () if schema is None else (*schema.inputs, *schema.outputs)
    for what, text in (("sequences", "seq("), ("texts", "string")):
        if any(all(text in kind for kind in operand.types) for operand in operands):
            return f"works on {what}: tensors here hold numbers"
    return "is not an operator that is read"


def _attribute_reasons(
    node: OnnxNode, operator: Operator, version: int, opset: int
) -> Iterator[str]:
    declared = operator.attributes_of(version)
    for name in node.attributes:
        if name not in declared:
            yield f"attribute {quoted(name)[1:-1]} is not supported in operator set {opset}"
    for name, attribute in declared.items():
        value = node.attributes.get(name, attribute.default)
        if value is None:
            if attribute.required:
                yield f"attribute {name} is missing"
        elif not _is_of_kind(value, attribute):
            yield f"attribute {name} must be {_WORDS[attribute.kind]}, found {quoted(value)}"
        elif attribute.accepted and value not in attribute.accepted:
            accepted = ", ".join(map(repr, attribute.accepted))
            yield f"{name} = {quoted(value)} is not supported, only {accepted}"


def _is_of_kind(value: object, attribute: Attribute) -> bool:
    match attribute.kind:
        case "integer":
            return isinstance(value, int)
        case "integers":
            return isinstance(value, tuple) and all(isinstance(item, int) for item in value)
        case "number":
            return _is_finite(value)
        case "numbers":
            return isinstance(value, tuple) and all(map(_is_finite, value))
        case "limit":
            return isinstance(value, int | float) and not isnan(value)
        case "text":
            return isinstance(value, str)
        case "texts":
            return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
        case "tensor":
            return isinstance(value, np.ndarray)
        case "graph":
            return isinstance(value, Subgraph)


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and isfinite(value)


def _input_reasons(
    node: OnnxNode, operator: Operator, version: int, known: set[str]
) -> Iterator[str]:
    declared = operator.inputs_of(version)
    for index, name in enumerate(node.inputs):
        kind = _declared_input(operator, declared, index)
        if kind is None:  # also where it has no name: the standard counts it
            yield f"takes {len(declared)} inputs, found {len(node.inputs)}"
            return
        parameter = kind.kind == "constant" and operator.translate is not None
        if name and parameter and name not in known:
            yield f"input {index} ({quoted(name)}) must be a constant"
    for index, item in enumerate(declared):
        if not item.optional and not node.has_input(index):
            yield f"input {index} is missing"


def _declared_input(operator: Operator, declared: Sequence[Input], index: int) -> Input | None:
    if index < len(declared):
        return declared[index]
    return declared[-1] if operator.variadic and declared else None


def _refusal(lacking: dict[tuple[str, str], list[OnnxNode]]) -> GraphError:
    """The error: one line for one node and one reason, a list otherwise."""
    if len(lacking) == 1:
        ((_, reason),) = lacking
        (nodes,) = lacking.values()
        if len(nodes) == 1:
            return GraphError(f"{nodes[0].title()}: {reason}", fix=REFERENCE)
    lines = [
        f"  {quoted(kind)[1:-1]}: {reason} ({_names(nodes)})"
        for (kind, reason), nodes in sorted(lacking.items())
    ]
    if len(lines) > _MOST_REASONS:
        lines = [*lines[:_MOST_REASONS], f"  and {len(lines) - _MOST_REASONS} more"]
    count = len({id(node) for nodes in lacking.values() for node in nodes})
    nodes_word = "node" if count == 1 else "nodes"
    return GraphError("\n".join([f"{count} {nodes_word} cannot be read:", *lines]), fix=REFERENCE)


def _names(nodes: Sequence[OnnxNode]) -> str:
    shown = ", ".join(node.shown_name() for node in nodes[:_MOST_NAMES])
    more = f" and {len(nodes) - _MOST_NAMES} more" if len(nodes) > _MOST_NAMES else ""
    return f"{'node' if len(nodes) == 1 else 'nodes'} {shown}{more}"
