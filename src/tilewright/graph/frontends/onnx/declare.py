"""Declarations of translators: the supported part of each operator of the standard.

Versions, inputs, attributes, types and defaults come from the standard's own definitions in the
onnx package; an operator declares which of them it does not support. The checker refuses these
before anything is translated, and docs/reference/onnx.md is generated from the declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from onnx import TensorProto, defs, helper

from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import Constant

NEWEST_OPSET = min(28, int(defs.onnx_opset_version()))
"""The newest operator set whose definitions the translators were checked against."""

TYPES = {
    1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "f16",
    11: "f64", 12: "u32", 13: "u64", 16: "bf16",
}  # fmt: skip
"""Element types by the standard's numbers."""
NAMED: dict[str, int] = {TensorProto.DataType.Name(code): code for code in TYPES}
"""The standard's numbers by its names."""

AttributeKind = Literal[
    "integer", "integers", "number", "numbers", "limit", "text", "texts", "tensor", "graph"
]
InputKind = Literal["tensor", "constant", "shape"]
Elements = Literal["float", "number", "any"]
Translator = Callable[[Importer], None]
Fold = Callable[..., Constant]

_KINDS: dict[str, AttributeKind] = {
    "INT": "integer", "INTS": "integers", "FLOAT": "number", "FLOATS": "numbers", "STRING": "text",
    "STRINGS": "texts", "TENSOR": "tensor", "GRAPH": "graph",
}  # fmt: skip
_FLOATS = ("f16", "bf16", "f32", "f64")
_LIMITS = ("min", "max", "value_float")
"""Attributes that may be infinite."""
_FLAGS = (
    "allowzero antialias broadcast ceil_mode count_include_pad detect_negative detect_positive "
    "exclusive fmod input_forget keepdims largest layout linear_before_reset noop_with_empty_axes "
    "onesided precision reverse select_last_index sorted storage_order transA transB upper"
)
"""Integer attributes that are 0 or 1 in every operator."""
_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def schema_of(kind: str, opset: int) -> Any:
    """The standard's definition of an operator in an operator set; None if there is none."""
    try:
        return defs.get_schema(kind, opset, "")
    except (defs.SchemaError, TypeError):
        return None


@dataclass(frozen=True)
class Attribute:
    """An attribute of one version of an operator.

    A `number` is finite, a `limit` may be infinite. `default` applies if the file has no value.
    Only `accepted` values are supported; empty means all.
    """

    name: str
    kind: AttributeKind
    default: object
    accepted: tuple[object, ...]
    required: bool


@dataclass(frozen=True)
class Input:
    """An input of one version of an operator. A `tensor` is computed or stored, a `constant` is
    known before the network runs, and of a `shape` only the extents are read. `types` are the
    element types that any version of the operator accepts; one float type stands for all.
    """

    name: str
    kind: InputKind
    optional: bool
    types: frozenset[str]


@dataclass(frozen=True)
class Operator:
    """The supported part of an operator of the ONNX standard.

    `translate` appends nodes to the network; `fold` computes the result from constants while the
    file is read, and defaults to evaluating the translation. `elements` is `any` if elements are
    only moved, `number` if the first input's own type is computed in; otherwise the first float
    input decides. `known` names inputs that must be constants, `extents` inputs of which only the
    shape is read. `only` maps an attribute to its supported values, or to None if it is never read;
    `usual` holds defaults that the standard states elsewhere. With `many`, all outputs are
    computed. `limits` documents further restrictions.
    """

    kind: str
    translate: Translator | None = None
    elements: Elements = "float"
    fold: Fold | None = None
    known: str = ""
    extents: str = ""
    only: Mapping[str, tuple[object, ...] | None] = field(default_factory=dict)
    usual: Mapping[str, object] = field(default_factory=dict)
    since: int = 1
    many: bool = False
    limits: str = ""

    @cached_property
    def definitions(self) -> dict[int, Any]:
        """The standard's definitions from `since` on, by the operator set that introduced each."""
        found: dict[int, Any] = {}
        newest = NEWEST_OPSET
        while newest >= self.since and defs.has(self.kind, newest, ""):
            schema = defs.get_schema(self.kind, newest, "")
            found[schema.since_version] = schema
            newest = schema.since_version - 1
        return dict(sorted(found.items()))

    @property
    def versions(self) -> tuple[int, ...]:
        """The operator sets that introduce a version of the operator."""
        return tuple(self.definitions)

    def version(self, opset: int) -> int:
        """The version that is valid in an operator set; 0 before the first one."""
        return max((version for version in self.versions if version <= opset), default=0)

    @cached_property
    def variadic(self) -> bool:
        """True if the last input may be repeated any number of times."""
        last = self.definitions[self.versions[-1]].inputs[-1:]
        return any(item.option == defs.OpSchema.FormalParameterOption.Variadic for item in last)

    def attributes_of(self, version: int) -> dict[str, Attribute]:
        """The attributes of one version by name."""
        return self._attributes[version]

    def inputs_of(self, version: int) -> tuple[Input, ...]:
        """The inputs of one version, in order."""
        return self._inputs[version]

    @cached_property
    def _attributes(self) -> dict[int, dict[str, Attribute]]:
        return {
            version: {a.name: a for a in map(self._attribute, schema.attributes.values()) if a}
            for version, schema in self.definitions.items()
        }

    def _attribute(self, item: Any) -> Attribute | None:
        name, kind = item.name, _KINDS.get(item.type.name)
        accepted = self.only.get(name, _PADS if name == "auto_pad" else ())
        if kind is None or accepted is None:
            return None
        value = helper.get_attribute_value(item.default_value) if item.default_value.name else None
        value = value.decode() if isinstance(value, bytes) else value
        default = self.usual.get(name, tuple(value) if isinstance(value, list) else value)
        accepted = accepted or ((0, 1) if name in _FLAGS.split() and default in (0, 1) else ())
        accepted = tuple(v for v in accepted if isinstance(v, str) == (kind == "text"))
        kind = "limit" if kind == "number" and name in _LIMITS else kind
        return Attribute(name, kind, default, accepted, item.required)

    @cached_property
    def _inputs(self) -> dict[int, tuple[Input, ...]]:
        kinds: dict[str, InputKind] = dict.fromkeys(self.known.split(), "constant")
        kinds |= dict.fromkeys(self.extents.split(), "shape")
        optional = defs.OpSchema.FormalParameterOption.Optional
        return {
            version: tuple(
                Input(
                    item.name,
                    kinds.get(item.name, "tensor"),
                    item.option == optional,
                    self._types(index),
                )
                for index, item in enumerate(schema.inputs)
            )
            for version, schema in self.definitions.items()
        }

    def _types(self, index: int) -> frozenset[str]:
        """Element types that any version accepts for an input."""
        schemas = (s for s in self.definitions.values() if index < len(s.inputs))
        words = {text for s in schemas for text in s.inputs[index].types}
        found = {TYPES[code] for name, code in NAMED.items() if f"tensor({name.lower()})" in words}
        return frozenset({*found, *_FLOATS} if found & {*_FLOATS} else found)
