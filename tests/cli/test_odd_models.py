"""Models that are legal and unusual: `compile --check` of each."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

from support.native import NATIVE_HOSTS
from support.onnx_models import floats, model, node, saved
from tilewright.cli.main import app


def compiled(path: Path, machine: str) -> dict[str, Any]:
    """JSON of a checked compilation, which must find no difference beyond the bound."""
    result = CliRunner().invoke(app, ["compile", str(path), "-m", machine, "--check", "--json"])
    assert (result.exit_code, result.stderr) == (0, "")
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def checked(path: Path, machine: str = "sw26010") -> dict[str, Any]:
    """Its comparison."""
    found: dict[str, Any] = compiled(path, machine)["comparison"]
    return found


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_results_that_are_no_numbers_are_compared(tmp_path: Path, value: float) -> None:
    weights = {"w": np.full((7, 5), value, np.float32)}
    proto = model([node("MatMul", ["x", "w"], ["y"])], {"x": (3, 7)}, weights)
    assert checked(saved(tmp_path, proto))["largest_difference"] == 0.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("machine", ["sw26010", "host"])
def test_a_constant_that_is_no_number_is_made_without_a_warning(
    tmp_path: Path, machine: str
) -> None:
    weights = {name: np.abs(floats(3)) + 1 for name in "sbm"} | {"v": -np.ones(3, np.float32)}
    norm = node("BatchNormalization", ["x", *"sbmv"], ["y"])
    path = saved(tmp_path, model([norm], {"x": (1, 3, 4, 4)}, weights))
    assert checked(path, machine)["largest_difference"] == 0.0


@pytest.mark.parametrize("extents", [(2, 3), (2, 2), (8, 5)])
@pytest.mark.parametrize("batch", [1, 8])
def test_an_output_may_be_a_weight_or_made_of_weights_alone(
    tmp_path: Path, batch: int, extents: tuple[int, ...]
) -> None:
    nodes = [node("Tanh", ["x"], ["y"]), node("Relu", ["w"], ["z"])]
    proto = model(nodes, {"x": (batch, 5)}, {"w": floats(*extents)}, ("y", "z", "w"))
    assert checked(saved(tmp_path, proto))["largest_difference"] <= 1e-4


def test_a_scalar_is_a_network_s_input(tmp_path: Path) -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": ()})
    assert checked(saved(tmp_path, proto))["largest_difference"] == 0.0


@pytest.mark.parametrize("shape", [(), (7,), (1, 2, 3, 4, 5)])
def test_tensors_of_any_rank_are_divided_over_cores(tmp_path: Path, shape: tuple[int, ...]) -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": shape})
    assert checked(saved(tmp_path, proto), "bwdsp-56")["largest_difference"] == 0.0


def test_a_scalar_between_two_layers_is_sent_to_the_cores_that_read_it(tmp_path: Path) -> None:
    nodes = [node("ReduceMean", ["x"], ["m"], keepdims=0), node("Sub", ["x", "m"], ["y"])]
    path = saved(tmp_path, model(nodes, {"x": (3, 4)}))
    found = compiled(path, "bwdsp-56")
    assert found["comparison"]["largest_difference"] <= 1e-6
    assert [layer["busy_cores"] for layer in found["layers"]] == [1, 1, 4]
    assert [layer["activations"] for layer in found["layers"]] == [0, 0, 3]


def test_a_scalar_weight_is_counted_once_for_each_core_that_computes(tmp_path: Path) -> None:
    scale = {"w": np.array(0.5, np.float32)}
    proto = model([node("Mul", ["x", "w"], ["y"])], {"x": (1, 3)}, scale)
    (layer,) = compiled(saved(tmp_path, proto), "bwdsp-56")["layers"]
    assert (layer["busy_cores"], layer["inputs"], layer["weights"]) == (3, 3, 3)


@pytest.mark.parametrize("batch", [1, 8])
def test_an_output_may_be_an_input(tmp_path: Path, batch: int) -> None:
    nodes = [node("Relu", ["x"], ["x_output"]), node("Tanh", ["z"], ["y"])]
    shapes, outputs = {"x": (batch, 12), "z": (batch, 5)}, ("y", "z", "x", "x_output")
    path = saved(tmp_path, model(nodes, shapes, outputs=outputs))
    assert checked(path)["largest_difference"] <= 1e-4
    out = tmp_path / "out.npz"
    words = ["run", str(path), "-m", "sw26010", "--compare", "reference", "-o", str(out)]
    assert CliRunner().invoke(app, words).exit_code == 0
    with np.load(out) as found:
        assert {name: array.shape for name, array in found.items()} == {
            name: (batch, 5 if name in "yz" else 12) for name in outputs
        }


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor")
def test_check_refuses_what_compile_refuses_on_this_computer(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [node("ReduceMax", ["x"], ["y"], name="largest", axes=[1])],
        "integers",
        [helper.make_tensor_value_info("x", TensorProto.INT64, (2, 3))],
        [helper.make_tensor_value_info("y", TensorProto.INT64, (2, 1))],
    )
    path = saved(tmp_path, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]))
    machine = "host\\w*"
    why = rf"node largest: no stage on {machine} computes reduce of i64"
    way_out = (
        "fix: products, windows and functions of elements take floats of one type; integers and "
        "truth values are computed by definitions and moved"
    )
    results = [
        CliRunner().invoke(app, [command, str(path), "-m", "host"])
        for command in ("compile", "check")
    ]
    assert [result.exit_code for result in results] == [1, 3]
    assert re.fullmatch(f"error: {why}\n  {way_out}\n", results[0].stderr)
    refused, fix, total = results[1].stdout.splitlines()
    assert re.search(f": a stage for every operator: {why}$", refused)
    assert fix.strip() == way_out
    assert re.fullmatch(r"1 checks on host\w*, 1 refused", total)
