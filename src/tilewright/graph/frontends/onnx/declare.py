"""Declarations of translators: attributes, inputs and versions of an operator, as values.

The checker refuses whatever a declaration does not name before anything is translated, fills in the
defaults, and docs/reference/onnx.md is printed from the same values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import Constant, OnnxNode

NEWEST_OPSET = 28
"""The newest operator set whose definitions the declarations were compared with."""

AttributeKind = Literal[
    "integer", "integers", "number", "numbers", "limit", "text", "texts", "tensor", "graph"
]
InputKind = Literal["tensor", "constant", "shape"]
Elements = Literal["float", "integer", "bool", "number", "any"]
Translator = Callable[[Importer, OnnxNode], None]
Fold = Callable[..., Constant]


@dataclass(frozen=True)
class Attribute:
    """An attribute of the versions `since` to `until` of an operator.

    A `number` is finite, a `limit` may be infinite. `default` counts where the file gives none;
    `accepted` are the only values that are handled, all of them where it is empty; `length` is
    that of `integers`, any where it is None.
    """

    name: str
    kind: AttributeKind
    default: object = None
    accepted: tuple[object, ...] = ()
    length: int | None = None
    required: bool = False
    since: int = 1
    until: int = NEWEST_OPSET


@dataclass(frozen=True)
class Input:
    """An input of the versions `since` to `until` of an operator.

    A `tensor` is computed or stored, a `constant` known before the network runs; of a `shape` the
    extents alone are read. Where the first input holds `any` elements, these are moved as they are,
    or a `number` is computed with in its own type; otherwise the first floats say the type.
    """

    name: str
    kind: InputKind = "tensor"
    elements: Elements = "float"
    optional: bool = False
    since: int = 1
    until: int = NEWEST_OPSET


@dataclass(frozen=True)
class Operator:
    """An operator of the ONNX standard as far as it is read.

    `versions` are the operator sets that define it anew. `translate` appends to the network; `fold`
    computes the result of constants while the file is read, else `translate` does. The last input
    of a `variadic` operator may stand any number of times, `many` gives all outputs. `limits` is
    what else holds, for the documentation.
    """

    kind: str
    versions: tuple[int, ...]
    inputs: tuple[Input, ...]
    attributes: tuple[Attribute, ...] = ()
    translate: Translator | None = None
    fold: Fold | None = None
    variadic: bool = False
    many: bool = False
    limits: str = ""

    @property
    def since(self) -> int:
        """The first operator set that defines it."""
        return min(self.versions)

    def version(self, opset: int) -> int:
        """The version in force in an operator set, at least `since`."""
        return max(version for version in self.versions if version <= opset)

    def attributes_of(self, version: int) -> dict[str, Attribute]:
        """The attributes of one version by name."""
        found = (item for item in self.attributes if item.since <= version <= item.until)
        return {item.name: item for item in found}

    def inputs_of(self, version: int) -> tuple[Input, ...]:
        """The inputs of one version, in order."""
        return tuple(item for item in self.inputs if item.since <= version <= item.until)


X = Input("X")
CONSUMED = Attribute("consumed_inputs", "integers", until=5)
"""A hint of the first operator set to reuse memory, without meaning."""
