"""Definitions on the command line: an operator, a network, a file, refusals."""

import json

import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app

PRODUCT = ("y[b,q,k] += x[b,q,d] * w[b,k,d]", "--extents", "b=2,q=16,k=24,d=8")
DISTANCES = ("d[n,m] += abs(x[n,k] - w[m,k])", "--extents", "n=6,m=5,k=4")


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


def test_a_sum_of_products_is_compiled_and_checked_like_any_operator():
    found = json.loads(run("compile", *PRODUCT, "-m", "sw26010_cg", "--check", "--json").stdout)
    (layer,) = found["layers"]
    assert (layer["name"], layer["check"]) == ("defined", "exact")
    assert layer["shape"] == "batched_matmul b2 m16 n24 k8 transpose_b"


def test_a_convolution_by_its_definition_has_the_algorithms_of_one():
    """The border is zeros where `--fill 0` says so."""
    text = "y[n,o,r,c] += x[n,i,r+u-1,c+v-1] * w[o,i,u,v]"
    extents = ("--extents", "n=8,o=16,i=8,r=8,c=8,u=3,v=3", "--shape", "x=8x8x8x8")
    (layer,) = json.loads(run("compile", text, *extents, "--fill", 0, "--json").stdout)["layers"]
    assert layer["shape"] == "conv2d 8x8x8x8 -> 16, 3x3 s1 p1"
    assert layer["algorithm"] != "loops"


def test_an_operator_is_simulated_as_soon_as_it_is_compiled(tmp_path):
    trace = tmp_path / "trace.json"
    text = run("simulate", *PRODUCT, "-m", "sw26010_cg", "--trace", trace).stdout
    assert "on one core group of sw26010_cg: " in text
    assert trace.exists()
    refused = run("simulate", *PRODUCT, "-m", "sw26010_cg", "--unfused", "--layer", "y", code=2)
    assert refused.stderr == f"error: {PRODUCT[0]} is an operator: leave --layer\n"
    refused = run("simulate", *PRODUCT, "-m", "sw26010_cg", "--unfused", code=2)
    assert refused.stderr == f"error: {PRODUCT[0]} is no network: leave --unfused\n"


def test_a_product_that_has_no_name_keeps_its_text():
    text = "y[i,r,j] += x[i,k,j] * w[r,k]"
    found = json.loads(run("compile", text, "--extents", "i=6,r=8,j=4,k=8", "--json").stdout)
    assert found["layers"][0]["shape"] == f"{text}; i=6, r=8, j=4, k=8"


def test_any_other_definition_is_planned_as_a_network():
    text = run("compile", *DISTANCES, "-m", "sw26010_cg", "--check").stdout
    assert "defined on sw26010_cg" in text


@pytest.mark.parametrize("machine", ["sw26010_cg", "host"])
def test_a_transposed_convolution_is_checked(machine):
    text = ("y[o,2*r+u] += x[i,r] * w[i,o,u]", "--extents", "o=8,r=6,i=8,u=3")
    assert "0 refused" in run("check", *text, "-m", machine).stdout


def test_a_file_of_statements_is_a_network(tmp_path):
    file = tmp_path / "normalised.tw"
    file.write_text("x = 6x4\ns[n] += x[n,k]  # rows\ny[n,k] = x[n,k] / s[n]\n", encoding="utf-8")
    text = run("compile", str(file), "-m", "sw26010_cg").stdout
    assert "defined on sw26010_cg" in text
    assert run("check", str(file), "-m", "sw26010_cg").stdout == (
        "ok       defined: a stage for every operator\n"
        "ok       defined: live tensors fit main memory\n"
        "2 checks on sw26010_cg, 0 refused\n"
    )
    told = run("explain", str(file), "-m", "sw26010_cg", "--no-changes").stdout
    assert "defined on sw26010_cg" in told


def test_a_file_of_other_bytes_than_text_is_refused(tmp_path):
    file = tmp_path / "bytes.tw"
    file.write_bytes(b"x = 3; y[i] = \xff\xfe")
    refused = run("compile", str(file), "-m", "sw26010_cg", code=1)
    assert refused.stderr == f"error: {file}: is not UTF-8 text\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ("y[n] += x[n,k] * w[q]", "--extents", "n=4,k=3"),
            1,
            "error: 'y[n] += x[n,k] * w[q]', character 20: axis 'q' has no extent\n"
            "  fix: give q=...\n",
        ),
        (
            ("y[n] = x[n]", "--extents", "n=0"),
            2,
            "error: --extents takes AXIS=NUMBER such as n=8,o=64, found 'n=0'\n",
        ),
        (
            ("y[n] = x[n]", "--extents", "n=4", "--m", "3"),
            2,
            "error: 'a definition' does not take --m\n",
        ),
        (
            ("nowhere.tw",),
            1,
            "error: nowhere.tw: No such file or directory\n",
        ),
    ],
)
def test_what_is_refused(arguments, code, message):
    found = run("compile", *arguments, "-m", "sw26010_cg", code=code)
    assert found.stderr == message
