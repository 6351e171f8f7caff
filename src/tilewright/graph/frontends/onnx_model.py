"""An ONNX model as plain Python values: what the reader hands to the importer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import GraphError
from tilewright.graph.names import quoted

Constant = NDArray[Any]


@dataclass(frozen=True)
class InputDeclaration:
    """A declared input; an extent is a number, or a text, maybe empty, where the file has none."""

    name: str
    extents: tuple[int | str, ...]
    dtype: str


@dataclass(frozen=True)
class OnnxNode:
    """One node; its accessors refuse attributes of a wrong type or length by name."""

    kind: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object]

    def title(self) -> str:
        """The node for a message: its name, or its first output, and its operator."""
        first_output = self.outputs[0] if self.outputs else ""
        return f"node {quoted(self.name or first_output)} ({quoted(self.kind)[1:-1]})"

    def input(self, index: int) -> str:
        """The name of the input at `index`, which the operator needs."""
        if not self.has_input(index):
            raise GraphError(f"{self.title()}: input {index} is missing")
        return self.inputs[index]

    def has_input(self, index: int) -> bool:
        """Whether an optional input is given."""
        return index < len(self.inputs) and self.inputs[index] != ""

    def output(self) -> str:
        """The name of the first output."""
        if not self.outputs or not self.outputs[0]:
            raise GraphError(f"{self.title()}: has no output")
        return self.outputs[0]

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise self._wrong(name, "an integer")
        return value

    def number(self, name: str, default: float) -> float:
        """A finite number."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float) or not np.isfinite(value):
            raise self._wrong(name, "a finite number")
        return float(value)

    def integers(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """As many integers as `default` has, or any number where it is empty."""
        value = self.attributes.get(name, default)
        if not isinstance(value, tuple) or not all(isinstance(item, int) for item in value):
            raise self._wrong(name, "integers")
        if default and len(value) != len(default):
            raise self._wrong(name, f"{len(default)} integers")
        return value

    def text(self, name: str, default: str) -> str:
        """A text attribute."""
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise self._wrong(name, "a text")
        return value

    def refuse_unless(self, name: str, default: int) -> None:
        """Raise GraphError where the attribute departs from the only supported value."""
        if self.integer(name, default) != default:
            raise GraphError(
                f"{self.title()}: {name} = {self.integer(name, default)} is not supported, "
                f"only {default}"
            )

    def _wrong(self, name: str, expected: str) -> GraphError:
        return GraphError(
            f"{self.title()}: attribute {name} must be {expected}, "
            f"found {quoted(self.attributes.get(name))}"
        )


@dataclass(frozen=True)
class OnnxModel:
    """Nodes in file order with the constants and declarations they refer to."""

    opset: int
    inputs: list[InputDeclaration]
    constants: dict[str, Constant]
    nodes: list[OnnxNode]
    outputs: list[str]
