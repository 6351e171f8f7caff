"""Declarations of the translators, held against the definitions of the standard."""

import onnx
import pytest

from tilewright.graph.frontends.onnx.declare import NEWEST_OPSET
from tilewright.graph.frontends.onnx.operators import OPERATORS

KINDS = {
    "integer": "INT", "integers": "INTS", "number": "FLOAT", "numbers": "FLOATS",
    "limit": "FLOAT", "text": "STRING", "texts": "STRINGS", "tensor": "TENSOR", "graph": "GRAPH",
}  # fmt: skip
CASES = [(kind, version) for kind, op in OPERATORS.items() for version in op.versions]


def definition(kind, version):
    return onnx.defs.get_schema(kind, version, "")


@pytest.mark.parametrize("kind", OPERATORS)
def test_every_version_is_known(kind):
    defined = [s for s in onnx.defs.get_all_schemas_with_history() if not s.domain]
    versions = sorted(s.since_version for s in defined if s.name == kind)
    assert OPERATORS[kind].versions == tuple(v for v in versions if v <= NEWEST_OPSET)


@pytest.mark.parametrize(("kind", "version"), CASES)
def test_attributes_are_those_of_the_definition(kind, version):
    """Not all of them, but none else, of the same type and with the same default.

    Lists of names have the defaults of their layer; the first GRU's direction is misprinted.
    """
    defined = definition(kind, version).attributes
    for name, attribute in OPERATORS[kind].attributes_of(version).items():
        assert name in defined
        assert str(defined[name].type).endswith(f".{KINDS[attribute.kind]}")
        default = defined[name].default_value
        value = onnx.helper.get_attribute_value(default) if default.name else None
        if isinstance(value, bytes):
            value = value.decode()
        if value is not None and attribute.kind not in ("limit", "texts") and value != "foward":
            assert attribute.default == (
                pytest.approx(value) if attribute.kind != "text" else value
            )


@pytest.mark.parametrize(("kind", "version"), CASES)
def test_inputs_are_those_of_the_definition(kind, version):
    operator, defined = OPERATORS[kind], definition(kind, version).inputs
    declared = operator.inputs_of(version)
    assert len(declared) == len(defined)
    options = onnx.defs.OpSchema.FormalParameterOption
    for own, theirs in zip(declared, defined, strict=True):
        assert own.optional == (theirs.option == options.Optional)
        variadic = operator.variadic and own is declared[-1]
        assert variadic == (theirs.option == options.Variadic)


@pytest.mark.parametrize(("kind", "version"), CASES)
def test_what_the_definition_requires_is_required(kind, version):
    """A reshape without a shape, which the first version allows, has no meaning."""
    defined = definition(kind, version).attributes
    for name, attribute in OPERATORS[kind].attributes_of(version).items():
        lenient = (kind, version, name) == ("Reshape", 1, "shape")
        sole = (kind, name) == ("Constant", "value")
        assert lenient or sole or attribute.required == defined[name].required
