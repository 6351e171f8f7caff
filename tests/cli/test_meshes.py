"""Meshes on which the matrix primitive does not run: what `check` and `compile` say of them."""

import json

from typer.testing import CliRunner

from support.onnx_models import floats, model, node, saved
from tilewright.cli.main import app

NOT_SQUARE = (
    "the matrix primitive needs a square mesh of at most 16 x 16 cores, machine 'sw26010' has 7 x 8"
)
FIX = "fix: set mesh.rows and mesh.columns to one number of 1 to 16\n"
GEMM = ("gemm", "--m", 64, "--n", 64, "--k", 64)
DEPTHWISE = (
    "conv2d", "--batch", 2, "--in-channels", 16, "--out-channels", 16, "--height", 6, "--width", 6,
    "--kernel", 3, "--groups", 16,
)  # fmt: skip
SEVEN_ROWS = ("-m", "sw26010", "--set", "mesh.rows=7")


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


def test_check_refuses_products_in_the_words_of_compile():
    assert run("compile", *GEMM, *SEVEN_ROWS, code=1).stderr == f"error: {NOT_SQUARE}\n  {FIX}"
    assert run("check", *GEMM, *SEVEN_ROWS, code=3).stdout == (
        f"refused  gemm: an algorithm for the machine: {NOT_SQUARE}\n         {FIX}"
        "1 checks on sw26010, 1 refused\n"
    )


def test_check_of_a_network_says_it_once():
    found = run("check", "lenet5", *SEVEN_ROWS, code=3).stdout
    assert found == (
        "ok       lenet5: a stage for every operator\n"
        "ok       lenet5: live tensors fit main memory\n"
        f"refused  c5, f6, output: an algorithm for the machine: {NOT_SQUARE}\n         {FIX}"
        "3 checks on sw26010, 1 refused\n"
    )
    alone = run("check", "lenet5", *SEVEN_ROWS, "--layers", code=3).stdout
    assert "ok       c1, direct_vectors over rows: fits scratchpad and main memory\n" in alone
    assert alone.endswith("8 checks on sw26010, 1 refused\n")


def test_check_counts_the_layers_that_it_does_not_name(tmp_path):
    nodes = [node("Gemm", [f"y{n - 1}", f"w{n}"], [f"y{n}"], name=f"fc{n}") for n in range(1, 6)]
    weights = {f"w{n}": floats(n + 3, n + 4) for n in range(1, 6)}
    path = saved(tmp_path, model(nodes, {"y0": (8, 4)}, weights, outputs=["y5"]))
    found = run("check", path, *SEVEN_ROWS, code=3).stdout
    assert f"refused  fc1, fc2, fc3 and 2 more: an algorithm for the machine: {NOT_SQUARE}" in found


def test_what_needs_no_product_has_code_that_is_exact():
    found = json.loads(run("compile", *DEPTHWISE, *SEVEN_ROWS, "--check", "--json").stdout)
    assert [(layer["algorithm"], layer["check"]) for layer in found["layers"]] == [
        ("direct_vectors", "exact")
    ]
    refused = run("compile", *DEPTHWISE, *SEVEN_ROWS, "--algorithm", "implicit", code=1)
    assert refused.stderr == f"error: {NOT_SQUARE}\n  {FIX}"
