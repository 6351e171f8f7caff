"""`tilewright run` for networks: the table, the comparison, files, what is refused."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import onnx
import pytest
from rich.progress import Progress
from typer.testing import CliRunner

from support.native import NATIVE_HOSTS, NATIVE_SETTINGS
from support.onnx_models import floats, model, node, saved
from tilewright.cli.main import app
from tilewright.common.errors import BusyError
from tilewright.compiler import whole
from tilewright.network import results
from tilewright.targets.host.network import native

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
    stage = r"gemm m3 n7 k12 transpose_b bias relu"
    assert re.search(stage + r" +prepacked +[\d.]+ +[\d.]+ +[\d.]+", text)
    assert re.search(r"total [\d.]+ [mu]s measured", text)
    assert re.search(r"against reference: largest difference \d\.\d\de-\d\d of the", text)


def test_explain_says_where_the_time_goes_by_stage_by_work_and_by_cause(network):
    text = run("explain", network, *HOST).stdout
    number = r"[\d.]+(e-\d+)?"
    assert re.search(
        r"\n\nthe stage, the slowest first:\n"
        r"  system +100.0 %: product, by the model compute (useful|overhead) \d+ %[^\n]*\n"
        r"\nby work: product 100.0 %; 0.0 % outside the products\n"
        r"products by cause \(model\): compute (useful|overhead) [^\n]*\n"
        r"fusing: 2 elementwise operators in 0 passes of their own; 2 in the kernels of products "
        r"and 0 in the\n  pass of another one, which saves as many passes\n"
        rf"(the graph was rewritten by [^\n]*\n)?total {number} [mu]s measured",
        text,
    ), text
    found = json.loads(run("explain", network, *HOST, "--json").stdout)
    stages = found["run"]["stages"]
    assert [s["work"] for s in stages] == ["product"]
    assert found["product_causes"] == stages[0]["causes"]
    assert sum(found["work_milliseconds"].values()) == pytest.approx(
        sum(s["measured_milliseconds"] for s in stages)
    )
    assert (found["elementwise"], found["in_products"], found["merged"]) == (2, 2, 0)


def test_explain_a_stage_or_layer_of_a_network_of_this_computer(network):
    text = run("explain", "lenet5", *HOST, "--layer", "s2", "--no-changes").stdout
    assert re.fullmatch(
        r"s2: average_pool2d 1x6x28x28, 2x2 s2x2\nwindow on host\w*, f32\n[\d.]+ [mu]s measured, "
        r"[\d.]+ % of the network's time; moves 23520 bytes, [\d.]+ GB/s\n",
        text,
    ), text
    known = run("explain", network, *HOST, "--layer", "system", "--json", "--no-changes").stdout
    layer = json.loads(known)["layer"]
    assert (layer["name"], layer["algorithm"]) == ("system", "prepacked")
    assert "algorithm prepacked" in layer["schedule"]
    assert run("explain", network, *HOST, "--layer", "a", code=1).stderr == (
        "error: there is no stage 'a'\n  fix: the stages are system\n"
    )


def test_a_bar_runs_while_the_network_is_compiled_and_measured(network, monkeypatch):
    stages = []
    monkeypatch.setattr(Progress, "add_task", lambda self, stage, total: stages.append(stage))
    monkeypatch.setattr(Progress, "update", lambda self, stage, **how: None)
    result = CliRunner().invoke(app, ["run", str(network), *HOST], env={"FORCE_COLOR": "1"})
    assert (result.exit_code, stages[-1]) == (0, "run")


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


def test_it_compares_with_onnxruntime_on_the_file(network):
    text = run("run", network, *HOST, "--compare", "onnxruntime", "--json").stdout
    found = json.loads(text)["comparison"]
    assert (found["other"], found["model"], found["bound"]) == ("onnxruntime", str(network), 1e-4)
    assert found["largest_difference"] < 1e-6
    assert "speedup" in found  # a number, or none where the computer is too busy to say


def test_another_result_of_the_file_ends_with_code_3(network, tmp_path, monkeypatch):
    """The file holds other numbers by the time of the comparison."""
    path = tmp_path / "m.onnx"
    path.write_bytes(network.read_bytes())
    drawn = whole.random_inputs

    def changed(loaded):
        proto = onnx.load(path)
        proto.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(WEIGHTS["b"] + 2, "b"))
        path.write_bytes(proto.SerializeToString())
        return drawn(loaded)

    monkeypatch.setattr(whole, "random_inputs", changed)
    done = run("run", path, *HOST, "--compare", "onnxruntime", code=3)
    assert re.fullmatch(
        r"error: outputs differ from onnxruntime's by \d\.\d\de[-+]\d\d of the largest magnitude, "
        r"beyond 0\.0001\n  fix: --compare reference shows which of both is right\n",
        done.stderr,
    )


@pytest.fixture
def busy(monkeypatch):
    """A computer that gives no contender an undisturbed sample."""

    def refuses(contenders, protocol):
        raise BusyError(f"0 undisturbed samples of {contenders[0].name!r}", fix="wait")

    monkeypatch.setattr(native, "interleaved", refuses)
    return "warning: times are the model's, not measured: 0 undisturbed samples of 'tilewright'\n"


@pytest.mark.parametrize("other", ["reference", "onnxruntime"])
def test_a_busy_computer_gives_outputs_and_comparison_without_times(network, other, busy, tmp_path):
    result = tmp_path / "out.npz"
    done = run("run", network, *HOST, "--compare", other, "-o", result, "--json")
    found = json.loads(done.stdout)
    assert done.stderr == busy
    assert (found["milliseconds"], found["gflops"]) == (None, None)
    assert {stage["measured_milliseconds"] for stage in found["stages"]} == {None}
    assert found["comparison"]["largest_difference"] < 1e-6
    assert (found["comparison"]["milliseconds"], found["comparison"]["speedup"]) == (None, None)
    with np.load(result) as arrays:
        assert arrays["y"].shape == (3, 7)


def test_a_busy_computer_writes_code(network, busy, tmp_path):
    done = run("compile", network, *HOST, "--check", "-o", tmp_path / "code")
    assert done.stderr == busy
    assert "measured" not in done.stdout
    assert re.search(r"^products [\d.]+ us by the model$", done.stdout, re.MULTILINE)
    assert "against reference: largest difference" in done.stdout
    assert (tmp_path / "code" / "Makefile").exists()


def test_a_difference_beyond_the_bound_ends_with_code_3(network, monkeypatch):
    monkeypatch.setitem(results.BOUNDS, np.dtype(np.float32), -1.0)
    done = run("run", network, *HOST, "--compare", "reference", code=3)
    assert re.fullmatch(
        r"error: outputs differ from those of the reference by \S+ of the largest magnitude, "
        r"beyond -1\n",
        done.stderr,
    )
    done = run("run", network, *HOST, "--compare", "reference", "--json", code=3)
    assert json.loads(done.stdout)["comparison"]["bound"] == -1


@pytest.mark.parametrize(
    ("found", "expected", "difference"),
    [
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], 0.0),
        ([1.0, 2.0], [1.0, 4.0], 0.5),
        ([1.0, np.nan], [1.0, 4.0], np.inf),
        ([np.inf], [-np.inf], np.inf),
        ([0.0], [-0.0], 0.0),
        ([3.0], [0.0], 3.0),
    ],
)
def test_how_far_outputs_are_apart(found, expected, difference):
    arrays = {"y": np.array(found)}, {"y": np.array(expected)}
    assert results.largest_difference(*arrays) == difference


def test_open_shapes_are_given(tmp_path):
    nodes = [node("MaxPool", "x", "y", kernel_shape=[2, 2])]
    path = saved(tmp_path, model(nodes, {"x": ("N", 4, "H", None)}))
    assert run("run", path, *HOST, code=1).stderr == (
        f"error: {path}: input 'x' leaves dimension 0 'N' open\n  fix: give --shape x=?x4x?x?\n"
    )
    text = run("run", path, *HOST, "--shape", "x=2x4x8x6", "--compare", "onnxruntime").stdout
    assert "2x4x8x6" in text
    assert "within 0.0001" in text


@pytest.mark.parametrize("option", ["x", "x=", "=1x2", "x=0x2", "x=1,", "x=1x2x"])
def test_a_shape_that_cannot_be_read(network, option):
    assert run("run", network, *HOST, "--shape", option, code=2).stderr == (
        f"error: --shape takes NAME=EXTENTS such as x=1x3x224x224, found '{option}'\n"
    )


def test_shapes_are_for_files():
    assert run("run", "lenet5", *HOST, "--shape", "x=1x2", code=1).stderr == (
        "error: the shapes of 'lenet5' are known\n  fix: give a batch, or an .onnx file\n"
    )


def test_networks_run_on_this_computer_unless_another_machine_is_named(network):
    settings = HOST[2:]
    assert re.search(r"m on host\w*, f32", run("run", network, *settings).stdout)


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
