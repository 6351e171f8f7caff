"""Declarations of translators: an operator of the standard, as far as it is read.

Versions, inputs, attributes, types and defaults are those of the standard's own definitions, which
the onnx package brings; an operator says what of them is not read. The checker refuses that before
anything is translated, and docs/reference/onnx.md is printed from these values.
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
"""The newest operator set whose definitions were compared with the translators."""

TYPES = {
    1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "f16",
    11: "f64", 12: "u32", 13: "u64", 16: "bf16",
}  # fmt: skip
"""Element types by the numbers of the standard."""
NAMED: dict[str, int] = {TensorProto.DataType.Name(code): code for code in TYPES}
"""These numbers by the standard's names."""

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
"""Numbers that may be infinite."""
_FLAGS = (
    "allowzero antialias broadcast ceil_mode count_include_pad detect_negative detect_positive "
    "exclusive fmod input_forget keepdims largest layout linear_before_reset noop_with_empty_axes "
    "onesided precision reverse select_last_index sorted storage_order transA transB upper"
)
"""Integers that are 0 or 1, whatever the operator."""
_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def schema_of(kind: str, opset: int) -> Any:
    """The standard's definition of an operator; None for names and sets that it cannot have."""
    try:
        return defs.get_schema(kind, opset, "")
    except (defs.SchemaError, TypeError):
        return None


@dataclass(frozen=True)
class Attribute:
    """An attribute of a version of an operator.

    A `number` is finite, a `limit` may be infinite. `default` counts where the file gives none;
    `accepted` are the only values that are handled, all of them where it is empty.
    """

    name: str
    kind: AttributeKind
    default: object
    accepted: tuple[object, ...]
    required: bool


@dataclass(frozen=True)
class Input:
    """An input of a version of an operator: a `tensor` is computed or stored, a `constant` known
    before the network runs; of a `shape` the extents alone are read. `types` are the elements
    that some version of the operator takes there, all floats where it takes one.
    """

    name: str
    kind: InputKind
    optional: bool
    types: frozenset[str]


@dataclass(frozen=True)
class Operator:
    """An operator of the ONNX standard as far as it is read.

    `translate` appends to the network; `fold` computes the result of constants while the file is
    read, else `translate` does. Elements of `any` type are moved as they are, with those of a
    `number` is computed in the first input's own type; otherwise the first floats say the type.
    `known` names the inputs that have to be constants, `extents` those of which the shape alone
    is read. `only` gives the values of attributes that are handled, None of one that is not read,
    `usual` defaults that the standard states elsewhere. `many` gives all outputs; `limits` is
    what else holds, for the documentation.
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
        """The standard's definitions from `since` on, by the operator sets that state them."""
        found: dict[int, Any] = {}
        newest = NEWEST_OPSET
        while newest >= self.since and defs.has(self.kind, newest, ""):
            schema = defs.get_schema(self.kind, newest, "")
            found[schema.since_version] = schema
            newest = schema.since_version - 1
        return dict(sorted(found.items()))

    @property
    def versions(self) -> tuple[int, ...]:
        """The operator sets that define it anew."""
        return tuple(self.definitions)

    def version(self, opset: int) -> int:
        """The version in force in an operator set, 0 before the first one."""
        return max((version for version in self.versions if version <= opset), default=0)

    @cached_property
    def variadic(self) -> bool:
        """True if the last input may stand any number of times."""
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
        """Element types of an input, in any version."""
        schemas = (s for s in self.definitions.values() if index < len(s.inputs))
        words = {text for s in schemas for text in s.inputs[index].types}
        found = {TYPES[code] for name, code in NAMED.items() if f"tensor({name.lower()})" in words}
        return frozenset({*found, *_FLOATS} if found & {*_FLOATS} else found)
