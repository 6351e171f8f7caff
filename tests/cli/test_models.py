"""`tilewright models` says which files are read, and what the others lack; `--bind` helps."""

import json

import numpy as np
from typer.testing import CliRunner

from support.onnx_models import floats, model, node
from tilewright.cli.main import app


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["models", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def folder_of_models(tmp_path):
    """A product that is read, two models that want a shape to be known, one that lacks more."""
    protos = {
        "product": model([node("MatMul", "xw", "y")], {"x": (2, 3)}, {"w": floats(3, 4)}),
        "a/shape": model([node("Reshape", "xs", "y")], {"x": (2, 3), "s": (1,)}),
        "a/more": model([node("Det", "x", "z"), node("Tile", "xs", "y")], {"x": (2, 3), "s": (2,)}),
    }
    for name, proto in protos.items():
        for value in proto.graph.input:
            if value.name == "s":
                value.type.tensor_type.elem_type = 7
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / f"{name}.onnx").write_bytes(proto.SerializeToString())
    return tmp_path


def test_a_folder_is_a_table_of_what_its_files_lack(tmp_path):
    folder = folder_of_models(tmp_path)
    text = run(folder, code=1)
    assert "1 of 3 files are read" in text
    found = json.loads(run(folder, "--json", code=1))
    by_file = {line["file"]: line for line in found["models"]}
    assert (by_file["product.onnx"]["nodes"], by_file["product.onnx"]["weights"]) == (1, 12)
    assert by_file["a/more.onnx"]["refused"] == (
        "Det: is not an operator that is read; Tile: input 1 ('s') must be a constant"
    )
    assert found["lacking"]["Reshape: input 1 ('s') must be a constant"] == 1


def test_what_is_bound_is_a_constant(tmp_path):
    file = folder_of_models(tmp_path) / "a/shape.onnx"
    assert "1 of 1 files are read" in run(file, "--bind", "s=6")
    np.savez(tmp_path / "numbers.npz", s=np.array([6]), other=np.zeros(3))
    assert "1 of 1 files are read" in run(file, "--bind", f"s=@{tmp_path / 'numbers.npz'}")
    assert "--bind takes NAME=VALUE" in run(file, "--bind", "s=six", code=2)


def test_a_folder_without_models_is_told(tmp_path):
    assert f"no .onnx file lies below {tmp_path}" in run(tmp_path, code=2)
