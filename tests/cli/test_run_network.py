"""`tilewright run` for networks: the table, the comparison, files, what is refused."""

from __future__ import annotations

import importlib.util
import json
import re
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from support.native import NATIVE_HOSTS, NATIVE_SETTINGS
from support.onnx_models import floats, model, node, saved
from tilewright.cli.main import app

pytestmark = pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor")
HOST = [
    "--machine", "host", *(w for k, v in NATIVE_SETTINGS.items() for w in ("--set", f"{k}={v}")),
]  # fmt: skip
WEIGHTS = {"w": floats(7, 12, seed=1), "b": floats(7, seed=2)}


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A classifier whose names are no identifiers."""
    nodes = [
        node("Gemm", ["in/put", "w", "b"], ["a"], "*/ system(", transB=1),
        node("Relu", ["a"], ["y"], "int"),
    ]
    proto = model(nodes, {"in/put": (3, 12)}, WEIGHTS)
    return saved(tmp_path_factory.mktemp("network"), proto)


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


def expected(x):
    return np.maximum(x @ WEIGHTS["w"].T + WEIGHTS["b"], 0)


def test_a_table_of_stages_and_totals(network):
    text = run("run", network, *HOST, "--compare", "reference").stdout
    stage = r"gemm m3 n7 k12 transpose_b \+ bias, relu"
    assert re.search(stage + r" +prepacked +[\d.]+ +[\d.]+ +[\d.]+", text)
    assert re.search(r"total [\d.]+ ms measured", text)
    assert re.search(r"against reference: largest difference \d\.\d\de-\d\d of the", text)


def test_inputs_and_outputs_are_files(network, tmp_path):
    given, result = tmp_path / "in.npz", tmp_path / "out.npz"
    x = floats(3, 12, seed=5)
    np.savez(given, **{"in/put": x})
    text = run("run", network, *HOST, "--input", given, "-o", result, "--json").stdout
    found = json.loads(text)
    assert found["output"] == str(result)
    assert found["stages"][0]["algorithm"] == "prepacked"
    with np.load(result) as arrays:
        np.testing.assert_allclose(arrays["y"], expected(x), rtol=1e-5)
    np.savez(given, x=x)
    assert run("run", network, *HOST, "--input", given, code=1).stderr == (
        f"error: {given}: expected the arrays in/put, found x\n"
    )


@pytest.mark.skipif(not importlib.util.find_spec("onnxruntime"), reason="it is optional")
def test_it_compares_with_onnxruntime(network):
    text = run("run", network, *HOST, "--compare", "onnxruntime", "--json").stdout
    found = json.loads(text)["comparison"]
    assert found["other"] == "onnxruntime"
    assert found["largest_difference"] < 1e-6
    assert found["speedup"] > 0


def test_without_onnxruntime_it_says_what_to_install(network, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert run("run", network, *HOST, "--compare", "onnxruntime", code=1).stderr == (
        "error: comparing with onnxruntime needs onnxruntime, which is not installed\n"
        "  fix: pip install onnxruntime\n"
    )


def test_options_that_mean_nothing_are_refused(network):
    assert run("run", network, *HOST, "--compare", "numpy", code=2).stderr == (
        "error: --compare takes onnxruntime or reference, found 'numpy'\n"
    )
    gemm = ["gemm", "--m", "4", "--n", "4", "--k", "4"]
    assert run("run", *gemm, *HOST, "--compare", "reference", code=2).stderr == (
        "error: --compare is for networks; operators are compared with the reference\n"
    )
    assert run("run", "lenet", *HOST, code=1).stderr.startswith(
        "error: unknown network 'lenet'\n  fix: did you mean lenet5?"
    )
