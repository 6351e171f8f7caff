"""The state of reading a program of torch: what its nodes are in terms of ONNX's operators.

A node whose operands are all known is computed by torch itself and becomes a constant, so that
masks, tables of places and rearranged weights never reach a network. Everything else becomes nodes
of the operators that the ONNX front end translates: the meaning of each stands there alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import torch

from tilewright.common.dtypes import BF16
from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import NAMED
from tilewright.graph.frontends.onnx.model import Constant, OnnxNode
from tilewright.ops.op import Shape

Result: TypeAlias = str | tuple[str, ...]
Translator: TypeAlias = Callable[..., Result | None]

_KINDS = {
    torch.float32: "FLOAT", torch.float64: "DOUBLE", torch.float16: "FLOAT16",
    torch.bfloat16: "BFLOAT16",
    torch.int64: "INT64", torch.int32: "INT32", torch.int16: "INT16", torch.int8: "INT8",
    torch.uint8: "UINT8", torch.bool: "BOOL",
}  # fmt: skip
"""Element types of torch by the names of the ONNX standard."""
_OF_SHAPES = ("new_ones", "new_zeros", "new_full", "ones_like", "zeros_like", "full_like")
"""Operators that read of their first operand the shape and the type alone."""


def kind_of(value: Any, what: str) -> str:
    """The element type of a tensor of torch by its ONNX name. Raises GraphError."""
    if value.dtype not in _KINDS:
        name = str(value.dtype).removeprefix("torch.")
        known = ", ".join(str(kind).removeprefix("torch.") for kind in _KINDS)
        raise GraphError(f"{what} has the element type {name}", fix=f"supported are {known}")
    return _KINDS[value.dtype]


def packet(target: Any) -> str:
    """The name of an operator of torch without that of its overload."""
    words = str(target).split(".")
    return words[1] if words[0] == "aten" and len(words) > 1 else str(target)


@dataclass
class Reader:
    """Tensors have the names that torch gives its nodes; `known` are numbers, by their nodes."""

    translators: Mapping[str, Translator]
    names: dict[Any, Result] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict)
    nodes: list[OnnxNode] = field(default_factory=list)
    constants: dict[str, Constant] = field(default_factory=dict)
    node: Any = None
    """The node at hand."""

    @property
    def value(self) -> Any:
        """The result of the node at hand, a tensor without numbers or several."""
        return self.node.meta["val"]

    @property
    def kind(self) -> torch.dtype:
        """The element type of that tensor."""
        found: torch.dtype = self.value.dtype
        return found

    @property
    def shape(self) -> Shape:
        """The extents of that tensor."""
        return shape_of(self.node)

    def read(self, node: Any) -> None:
        """Append what a node of torch does."""
        if not node.users:
            return  # an assertion, or what nobody reads
        stands = node.args[:1] if packet(node.target) in _OF_SHAPES else ()
        if all(other in self.known or other in stands for other in node.all_input_nodes):
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), self._numbers)
            self.known[node] = node.target(*args, **kwargs)
        elif node.target is operator.getitem:
            self.names[node] = self.names[node.args[0]][node.args[1]]
        else:
            self._translate(node)

    def _numbers(self, node: Any) -> Any:
        """The numbers of a node; of one that is only asked for its shape, any."""
        if node in self.known:
            return self.known[node]
        return torch.empty(shape_of(node), dtype=node.meta["val"].dtype)

    def _translate(self, node: Any) -> None:
        made, translate = len(self.nodes), self.translators.get(packet(node.target))
        self.node = node
        result = translate(self, *node.args, **node.kwargs) if translate else None
        if result is None:
            operands = tuple(map(self.name, node.all_input_nodes))
            self.nodes.append(OnnxNode(str(node.target), "", node.name, operands, (node.name,), {}))
            result = node.name
        if len(self.nodes) > made and self.nodes[-1].outputs == (result,):
            self.nodes[-1] = replace(self.nodes[-1], name=node.name, outputs=(node.name,))
            result = node.name
        self.names[node] = result

    def name(self, value: Any, kind: torch.dtype | None = None) -> str:
        """The name of a tensor: of a node, or of numbers, which become a constant.

        A number by itself has the type `kind`, integers in a list are those of shapes and axes.
        """
        if isinstance(value, str) or (isinstance(value, torch.fx.Node) and value in self.names):
            found = self.names.get(value, value)
            return found if isinstance(found, str) else found[0]
        node = value if isinstance(value, torch.fx.Node) else None
        numbers = self.known[node] if node is not None else value
        name = node.name if node is not None else f"number_{len(self.constants)}"
        if isinstance(numbers, bool | int | float):
            numbers = torch.tensor(numbers, dtype=kind)
        if isinstance(numbers, torch.Tensor):
            kind_of(numbers, f"the tensor {name}")
            numbers = numbers.detach().contiguous()
            if numbers.dtype == torch.bfloat16:  # which NumPy does not have
                numbers = numbers.view(torch.int16).numpy().view(BF16.numpy)
        self.constants[name] = np.asarray(numbers)
        if node is not None:
            self.names[node] = name
        return name

    def onnx(self, kind: str, *operands: Any, **attributes: Any) -> str:
        """Append a node of an ONNX operator; returns the name of its output."""
        return self.many(1, kind, *operands, **attributes)[0]

    def many(self, count: int, kind: str, *operands: Any, **attributes: Any) -> tuple[str, ...]:
        """Append a node of an ONNX operator with so many outputs; returns their names."""
        names = tuple("" if item is None else self.name(item) for item in operands)
        number = len(self.nodes)
        outputs = tuple(f"{kind}_{number}_{place}".lower() for place in range(count))
        title = outputs[0]
        self.nodes.append(OnnxNode(kind, "", title, names, outputs, attributes))
        return outputs

    def cast(self, value: Any, kind: torch.dtype | None = None) -> str:
        """A tensor or a number in this element type, by default that of the node's result."""
        kind = kind or self.kind
        if isinstance(value, torch.fx.Node) and value.meta["val"].dtype != kind:
            return self.onnx("Cast", value, to=NAMED[kind_of(value.meta["val"].to(kind), "it")])
        return self.name(value, kind)

    def reshape(self, value: Any, *shape: int) -> str:
        """A tensor under another shape."""
        return self.onnx("Reshape", value, list(shape))


def shape_of(node: Any) -> Shape:
    """The extents of a node's result."""
    return tuple(map(int, node.meta["val"].shape))
