"""Known networks, ONNX files in one shape or several, and what does not go together."""

from __future__ import annotations

import pytest

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
