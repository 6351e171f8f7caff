"""Known networks, ONNX files in one shape or several, and what does not go together."""

from __future__ import annotations

import pytest

import tilewright as tw
from support.onnx_models import model, node, saved
from tilewright.common.errors import GraphError
from tilewright.compiler.entry import load


@pytest.mark.parametrize(("dtype", "expected"), [(None, "f32"), ("f64", "f64")])
def test_a_known_network_has_the_type_that_is_asked_for_or_the_usual_one(dtype, expected) -> None:
    assert load("lenet5", dtype=dtype, known_dtype="f32").inputs[0].dtype == expected
    assert load("lenet5", batch=3).inputs[0].shape[0] == 3


def test_an_example_is_a_module_s() -> None:
    with pytest.raises(GraphError) as refused:
        load("lenet5", 1.0)
    assert str(refused.value) == "an example is a module's, found 'lenet5'"


def test_a_file_has_a_case_for_each_shape(tmp_path) -> None:
    proto = model([node("Add", "xw", "y")], {"x": (2, 3), "w": (1, 3)})
    path = saved(tmp_path, proto)
    assert load(path).inputs[0].shape == (2, 3)
    assert load(path, shapes={"x": (4, 3)}).inputs[0].shape == (4, 3)
    made = load(path, shapes={"x": [(4, 3), (5, 3)], "w": (1, 3)})
    assert [[made.tensors[name].shape for _, name in case.inputs] for case in made.cases] == [
        [(4, 3), (1, 3)], [(5, 3), (1, 3)],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            {"x": [(4, 3), (5, 3), (6, 3)], "w": [(1, 3), (1, 3)]},
            "input 'w' has 2 shapes, another one 3; one shape for all cases, or one for each",
        ),
        ({"x": [(4, 3), (4, 3)]}, "the shapes x=4x3 are given twice; give each once"),
    ],
)
def test_shapes_that_make_no_cases_are_refused(tmp_path, shapes, message) -> None:
    path = saved(tmp_path, model([node("Add", "xw", "y")], {"x": (2, 3), "w": (1, 3)}))
    with pytest.raises(GraphError) as refused:
        load(path, shapes=shapes)
    assert str(refused.value) == message


WORKLOADS = (
    "an operator, a network, the name of a known network or the path of an ONNX file is compiled, "
    "found {}; a module of torch is loaded first: tw.load(module, example)"
)
MACHINES = (
    "a machine is given by its name, the path of a .toml file as text, or as `load_machine` "
    "returns it, found {}"
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tw.compile(123), WORKLOADS.format(123)),
        (lambda: tw.compile(None), WORKLOADS.format(None)),
        (lambda: tw.compile(tw.ops.gemm(8, 8, 8), machine=7), MACHINES.format(7)),
        (lambda: tw.load_machine(None), MACHINES.format(None)),
        (lambda: tw.define(5), "statements are given as text, found 5"),
        (lambda: tw.load("lenet5", batch="2"), "batch is a number, found '2'"),
        (lambda: tw.load("lenet5", dtype=5), "dtype is text, such as 'f32', found 5"),
        (lambda: tw.load("a.onnx", shapes=5), "shapes is a mapping from names of inputs, found 5"),
        (lambda: tw.load("a.onnx", shapes={"x": 5}),
         "the shape of input 'x' is a sequence of numbers, found 5"),
        (lambda: tw.load("a.onnx", values="ab"),
         "values is a mapping from names of inputs, found 'ab'"),
    ],
)  # fmt: skip
def test_arguments_of_another_python_type_are_refused(call, message) -> None:
    with pytest.raises(tw.TilewrightError) as refused:
        call()
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("ab", "is 1 of text, the file declares 2 FLOAT"),
        (["a", "b"], "is 2 of text, the file declares 2 FLOAT"),
        ([[1], [1, 2]], "has rows of unequal length"),
    ],
)
def test_values_that_are_no_numbers_are_refused(tmp_path, value, found) -> None:
    path = saved(tmp_path, model([node("Relu", "x", "y")], {"x": (2,)}))
    with pytest.raises(GraphError) as refused:
        load(path, values={"x": value})
    assert str(refused.value) == f"{path}: the value of 'x' {found}"
