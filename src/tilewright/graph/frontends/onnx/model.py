"""An ONNX model as plain Python values, which the reader hands to the importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import GraphError
from tilewright.graph.names import quoted

Constant = NDArray[Any]
Value = TypeVar("Value")
Extents: TypeAlias = tuple[int | str, ...]


@dataclass(frozen=True)
class InputDeclaration:
    """A declared input; an extent is a number, or a text, possibly empty, if it is left open.

    `extents` is None if the file does not state their number.
    """

    name: str
    extents: Extents | None
    dtype: str


@dataclass(frozen=True)
class OutputDeclaration:
    """A declared output; its extents, if any, are informative only."""

    name: str
    extents: Extents | None


@dataclass(frozen=True)
class Unread:
    """The value of an attribute of a kind that no supported operator reads."""

    what: str

    def __repr__(self) -> str:
        return self.what


@dataclass(frozen=True)
class Subgraph:
    """A branch or a loop's body; its nodes may read tensors from outside."""

    nodes: tuple[OnnxNode, ...]
    constants: Mapping[str, Constant]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def renamed(self, names: Mapping[str, str]) -> Subgraph:
        """The graph with tensors renamed."""
        constants = {names.get(name, name): array for name, array in self.constants.items()}
        nodes = tuple(node.renamed(names) for node in self.nodes)
        inputs, outputs = (
            tuple(names.get(name, name) for name in part) for part in (self.inputs, self.outputs)
        )
        return Subgraph(nodes, constants, inputs, outputs)

    def instance(self, inputs: Sequence[str], number: int) -> Subgraph:
        """One pass of a loop, which reads these tensors; its own tensors carry the pass number."""
        made = (name for node in self.nodes for name in node.outputs if name)
        names = {name: f"{name}@{number}" for name in made}
        return self.renamed(names | dict(zip(self.inputs, inputs, strict=True)))

    def __repr__(self) -> str:
        return "a GRAPH"


@dataclass(frozen=True)
class OnnxNode:
    """One node. The checker sets the `version` of its operator and adds default attributes."""

    kind: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object]
    version: int = 0

    def renamed(self, names: Mapping[str, str]) -> OnnxNode:
        """The node with tensors renamed, also inside its graphs."""
        inputs, outputs = (
            tuple(names.get(name, name) for name in part) for part in (self.inputs, self.outputs)
        )
        attributes = {
            key: value.renamed(names) if isinstance(value, Subgraph) else value
            for key, value in self.attributes.items()
        }
        return replace(self, inputs=inputs, outputs=outputs, attributes=attributes)

    def graph(self, name: str) -> Subgraph:
        """An attribute that is a graph."""
        return self._attribute(name, Subgraph)

    def title(self) -> str:
        """The node in messages: its name, or its first output, and its operator."""
        return f"node {self.shown_name()} ({quoted(self.kind)[1:-1]})"

    def shown_name(self) -> str:
        """The node's name in messages; its first output if it has none."""
        return quoted(self.name or (self.outputs[0] if self.outputs else ""))

    def input(self, index: int) -> str:
        """The name of the input at `index`, which the operator needs."""
        if not self.has_input(index):
            raise GraphError(f"{self.title()}: input {index} is missing")
        return self.inputs[index]

    def has_input(self, index: int) -> bool:
        """True if an optional input is given."""
        return index < len(self.inputs) and self.inputs[index] != ""

    def output(self) -> str:
        """The name of the first output, which the checker has seen."""
        return self.outputs[0]

    def integer(self, name: str) -> int:
        """An integer attribute."""
        return self._attribute(name, int)

    def number(self, name: str) -> float:
        """An attribute that is a number."""
        value = self.attributes.get(name)
        return float(value) if isinstance(value, int | float) else self._attribute(name, float)

    def integers(self, name: str) -> tuple[int, ...]:
        """An attribute that is a list of integers, none if it is missing."""
        return self._attribute(name, tuple) if name in self.attributes else ()

    def flag(self, name: str) -> bool:
        """True if an attribute exists, which may need a later version, and is not 0."""
        return bool(self.attributes.get(name))

    def numbers(self, name: str) -> tuple[float, ...]:
        """An attribute that is a list of numbers, none if it is missing."""
        return self._attribute(name, tuple) if name in self.attributes else ()

    def texts(self, name: str) -> tuple[str, ...]:
        """An attribute that is a list of texts, none if it is missing."""
        return self._attribute(name, tuple) if name in self.attributes else ()

    def text(self, name: str) -> str:
        """A text attribute."""
        return self._attribute(name, str)

    def _attribute(self, name: str, kind: type[Value]) -> Value:
        value = self.attributes.get(name)
        if not isinstance(value, kind):
            raise GraphError(f"{self.title()}: attribute {name} is missing")
        return value


@dataclass(frozen=True)
class OnnxModel:
    """Checked nodes in file order with the constants and declarations they refer to."""

    inputs: list[InputDeclaration]
    constants: dict[str, Constant]
    nodes: list[OnnxNode]
    outputs: list[OutputDeclaration]


def integers_of(constant: Constant) -> tuple[int, ...] | None:
    """The integers of a constant of at most one dimension; None for any other constant."""
    if constant.dtype.kind != "i" or constant.ndim > 1:
        return None
    return tuple(map(int, np.atleast_1d(constant)))
