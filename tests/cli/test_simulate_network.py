"""Networks on simulated machines: `simulate`, `run` and `compile`."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from support.onnx_models import floats, model, node, saved
from tilewright.cli.main import app
from tilewright.network import results

WEIGHT = floats(8, 8)


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert code is None or result.exit_code == code, result.output
    return result


SINGLE = "memory.main.capacity_bytes=310000"


def run_json(*arguments):
    return json.loads(run(*arguments, "--json").stdout)


def test_explain_a_network_says_where_the_time_goes():
    explanation = run_json("explain", "lenet5", "-m", "sw26010", "--batch", 8)
    found = explanation["run"]
    assert [s["cycles"] for s in explanation["stages"]] == [s["cycles"] for s in found["stages"]]
    assert (found["network"], found["groups"]) == ("lenet5", 4)
    assert sum(stage["cycles"] for stage in found["stages"]) == found["cycles"]
    assert sum(found["work"].values()) == sum(found["causes"].values()) == found["cycles"]
    assert {stage["work"] for stage in found["stages"]} == set(found["work"])
    assert found["unfused_cycles"] > found["cycles"]


def test_explain_a_stage_that_is_no_product():
    text = run("explain", "lenet5", "-m", "sw26010", "--layer", "s2").stdout
    head, causes, traffic, routines = text[: text.index("time by")], *text.split("\n\n")[2:]
    assert re.fullmatch(
        r"s2: average_pool2d 1x6x28x28, 2x2 s2x2\n"
        r"window on 4 core groups of sw26010, f64, divided by elements\n"
        r"(\d+) cycles simulated \([\d.]+ [mu]s\), \d+ by the model; [\d.]+ % of the network's "
        r"time\n\n"
        r"y = the sum of x0 over 2x2 elements, 14x84 times, and of that x0 / 4.0\n"
        r"       tensor    in memory  bytes\n"
        r"  x0  c1_tanh  f64 \(h c w\)  37632\n"
        r"  y        s2  f64 \(h c w\)   9408\n\n",
        head,
    ), head
    assert causes.startswith("time by cause (simulated)\n  meeting                 4000 ")
    assert traffic.startswith("traffic of one core group (simulated)\n  tensor  bytes asked  ")
    assert re.search(r"\n  tw_map_\w+ .*: 0\.0 ", routines)
    (reduced,) = re.findall("\n  tw_reduce_\\w+  1 row of 21 elements of 4: sum x0 +(.*)", routines)
    calls, priced, simulated = reduced.split()
    assert (calls, priced) == ("1", simulated)
    assert "compiled C" not in routines
    found = run_json("explain", "lenet5", "-m", "sw26010", "--layer", "prob_2")
    assert sum(cause["cycles"] for cause in found["causes"]) == found["cycles"]
    assert (found["computes"], found["nodes"]) == ("y = exp(x0 - x1) for 10 elements", ["prob"])
    assert [(t["name"], t["value"], t["size_bytes"]) for t in found["tensors"]] == [
        ("x0", "output_bias", 80),
        ("x1", "prob_largest", 8),
        ("y", "prob_powers", 80),
    ]


def test_a_product_that_is_explained_alone_is_another_one_in_the_network():
    text = run("explain", "lenet5", "-m", "sw26010_cg", "--layer", "f6", "--no-changes").stdout
    assert text.startswith("f6: gemm m1 n84 k120")
    assert text.endswith(
        "\n\nexplained alone: a whole network may fuse what follows into it, and take another "
        "schedule for\nthe sake of layouts; `explain` without --layer shows its stage\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("c3_bias",),
            "error: there is no stage 'c3_bias': c3_tanh computes it\n  fix: --layer c3_tanh\n",
        ),
        (
            ("c3_tahn",),
            "error: there is no stage 'c3_tahn'\n"
            "  fix: did you mean c3_tanh? the stages are c1, s2, c3, c3_tanh, s4, c5, "
            "f6, output, prob, prob_2, prob_3, prob_4\n",
        ),
        (
            ("nix",),
            "error: there is no stage 'nix'\n"
            "  fix: stages are named after the operators c1, c1_bias, c1_tanh, s2, c3, c3_bias, "
            "c3_tanh, s4, c5, c5_bias, c5_tanh, flatten, f6, f6_bias, f6_tanh, output, "
            "output_bias, prob\n",
        ),
        (("s2", "--roofline"), "error: 's2' is no product: leave --roofline\n"),
        (
            ("s2", "--partition", "rows"),
            "error: --partition is for kernels that are compiled alone: name a convolution or "
            "matrix product\n",
        ),
    ],
)
def test_explain_names_the_stages_of_a_network(words, message):
    found = run("explain", "lenet5", "-m", "sw26010", "--layer", *words, code=None)
    assert found.stderr == message


def test_the_table_of_a_simulated_network():
    text = run("simulate", "lenet5", "-m", "sw26010_cg", "--unfused").stdout
    assert re.match(r"lenet5 on sw26010_cg, f64, \d+ stages\n", text)
    assert re.search(r"c3_tanh +elementwise .*\n +bias tanh\n", re.sub(" +\n", "\n", text))
    assert re.search(
        r"total [\d.]+ ms simulated on sw26010_cg, \d+ cycles of a core group, [\d.]+ Gflop/s; "
        r"[\d.]+ % of it\n  outside the products\nby work: product [\d.]+ %, window [\d.]+ %, "
        r"elementwise [\d.]+ %\n",
        text,
    )
    assert re.search(r"a stage for every operator takes \d+ cycles: fusing saves [\d.]+ %\n", text)


def test_a_network_with_look_ups_is_simulated_without_fusing(tmp_path):
    nodes = [node("Gather", ["table", "i"], ["e"], axis=0), node("MatMul", ["e", "w"], ["y"])]
    weights = {"table": floats(16, 8), "w": WEIGHT}
    path = saved(tmp_path, model(nodes, {"i": (4,)}, weights, integers=("i",)))
    found = run_json("simulate", path, "-m", "sw26010_cg", "--unfused")
    assert found["unfused_cycles"] >= found["cycles"] > 0


def test_run_computes_with_every_group_and_compares(tmp_path):
    out = tmp_path / "out.npz"
    words = ("-m", "sw26010", "--batch", 7, "--compare", "reference", "-o", out)
    found = run_json("run", "lenet5", *words)
    assert found["groups"] == 4
    assert found["comparison"]["largest_difference"] <= found["comparison"]["bound"]
    with np.load(out) as arrays:
        assert arrays["prob"].shape == (7, 10)


@pytest.mark.parametrize("machine", ["sw26010_cg", "bwdsp-56"])
def test_outputs_are_compared_with_onnxruntime_and_times_are_not(machine, tmp_path, monkeypatch):
    path = saved(tmp_path, model([node("MatMul", ["x", "w"], "y")], {"x": (8, 8)}, {"w": WEIGHT}))
    words = ("run", path, "-m", machine, "--compare", "onnxruntime")
    text = run(*words).stdout
    assert re.search(
        r"against onnxruntime [\d.]+ on \S+m.onnx: largest difference \S+ of the largest "
        r"magnitude, within 0.0001$",
        text,
        re.MULTILINE,
    )
    monkeypatch.setitem(results.BOUNDS, np.dtype(np.float32), -1.0)
    assert re.fullmatch(
        r"error: outputs differ from onnxruntime's by \S+ of the largest magnitude, beyond -1\n"
        r"  fix: --compare reference shows which of both is right\n",
        run(*words, code=3).stderr,
    )


def test_compile_writes_one_launch_for_all_stages(tmp_path):
    folder = tmp_path / "lenet"
    found = run_json("compile", "lenet5", "-m", "sw26010_cg", "-o", folder)
    host = (folder / "lenet5_host.c").read_text(encoding="utf-8")
    assert host.count("athread_spawn(") == 1
    slave = (folder / "lenet5_stages_slave.c").read_text(encoding="utf-8")
    assert slave.count("_kernel(&parameters->stage") == len(found["stages"])
    assert (folder / "lenet5.bin").stat().st_size >= found["constant_bytes"]


def test_compile_checks_the_emulated_code_with_few_images_where_all_take_long(monkeypatch):
    monkeypatch.setattr("tilewright.compiler.whole._CHECKED_FLOPS", 2_000_000)
    found = run_json("compile", "lenet5", "-m", "sw26010_cg", "--batch", 32, "--check")
    assert found["comparison"]["images"] == 2
    assert found["comparison"]["largest_difference"] <= found["comparison"]["bound"] == 1e-11
    assert found["work"].keys() >= {"product", "window"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("lenet5", "-m", "host_avx2"),
            "error: machine 'host_avx2' is this computer: it is measured, not simulated\n"
            "  fix: tilewright run, or another --machine\n",
        ),
        (
            ("lenet5", "--layer", "c1"),
            "error: lenet5 is a network: leave --layer\n",
        ),
        (
            ("lenet5", "--input", "x.npz", "--output", "y", "--timing", "--trace-limit", "9"),
            "error: lenet5 is a network: leave --trace-limit, --input, --output, --timing\n",
        ),
        (
            ("x.ir", "--batch", "2", "--shape", "x=1x3"),
            "error: x.ir is no network: leave --batch, --shape\n",
        ),
    ],
)
def test_what_is_no_network_or_no_simulated_machine(words, message):
    assert run("simulate", *words, code=None).stderr == message


def test_check_refuses_what_does_not_live_in_main_memory_together():
    small = ("--set", "memory.main.capacity_bytes=400000")
    found = run("check", "lenet5", "-m", "sw26010_cg", *small, code=3).stdout
    assert (
        "refused  lenet5: live tensors fit main memory: lenet5 needs 548,960 bytes of main memory, "
        "a group of sw26010_cg has 400,000; at the same time live"
    ) in found


def test_check_looks_at_the_images_of_one_group():
    """Eight images of LeNet-5 live in 936,144 bytes, the two of a group in 604,272."""
    few = ("check", "lenet5", "--batch", 8, "--set", "memory.main.capacity_bytes=620000")
    assert run(*few, "-m", "sw26010").stdout == (
        "ok       lenet5: a stage for every operator\n"
        "ok       lenet5: live tensors fit main memory\n"
        "2 checks on sw26010, 0 refused\n"
    )
    found = run(*few, "-m", "sw26010_cg", "--dtype", "f32", "--set", SINGLE, code=3).stdout
    refused = found[found.index("refused  lenet5: live tensors") :].splitlines()
    assert refused[0].startswith(
        "refused  lenet5: live tensors fit main memory: lenet5 needs 468,072 bytes of main memory, "
        "a group of sw26010_cg has 310,000; at the same time live"
    )
    fix = "a smaller --batch, or --set memory.main.capacity_bytes=468072"
    assert refused[1] == f"         fix: {fix}"


def test_check_shows_layers_alone_where_that_is_asked():
    alone = run("check", "lenet5", "-m", "sw26010_cg", "--algorithm", "implicit", "--layers").stdout
    assert "ok       c1, implicit over whole: fits scratchpad and main memory\n" in alone
    assert run("check", "gemm", "--m", 8, "--n", 8, "--k", 8, "--layers", code=2).stderr == (
        "error: gemm is no network that is planned: leave --layers\n"
    )


def test_strict_is_of_whole_networks():
    words = ("gemm", "--m", 1, "--n", 8, "--k", 8, "-m", "dla-al", "--check", "--strict")
    assert run("compile", *words, code=None).stderr == (
        "error: --strict counts in the run of a whole network, not of layers alone\n"
    )


def test_strict_refuses_what_saturates_by_stage(tmp_path):
    """Sums of 120 times 64 inputs exceed 128 in each element."""
    nodes = [node("MatMul", ["x", "w"], "h", name="hidden"), node("MatMul", ["h", "v"], "y")]
    weights = {"w": np.full((64, 8), 120, np.float32), "v": np.full((8, 3), 0, np.float32)}
    path = saved(tmp_path, model(nodes, {"x": (2, 64)}, weights))
    words = ("compile", path, "--dtype", "q8.8:q48.16:q8.8", "-m", "dla-al", "--check")
    assert run_json(*words)["saturated"] == {"hidden": 16}
    assert run(*words, "--strict", code=1).stderr == (
        "error: m: 16 elements saturated, 16 elements in hidden\n"
        "  fix: smaller weights and inputs, or leave --strict\n"
    )
