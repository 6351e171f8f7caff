"""The commands as a user types them: what they print, their JSON, their exit codes."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from support.onnx_models import floats, model, node, saved
from tilewright.cli.main import app
from tilewright.codegen.c.compiler import processor_flags

GEMM = ["gemm", "--m", "256", "--n", "192", "--k", "128", "--machine", "sw26010_cg"]
LAYER_KEYS = {
    "name", "op", "shape", "algorithm", "partition", "schedule", "candidates", "estimate_cycles",
    "simulated_cycles", "milliseconds", "gflops", "peak_fraction", "bound", "lower_bound_cycles",
    "check", "artifact", "timed_by", "measured_seconds", "expected_error",
    "candidates_fitting", "candidates_priced",
}  # fmt: skip
RESULT_KEYS = {
    "machine", "batch", "dtype", "layers", "tuning_seconds", "candidates_total",
    "total_milliseconds", "checks", "timings", "candidates_fitting_total",
    "candidates_priced_total", "fitted_machine", "fitted_milliseconds", "refill_note",
}  # fmt: skip


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def run_json(*arguments, code=0):
    return json.loads(run(*arguments, "--json", code=code).stdout)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "gemm"
    run("compile", *GEMM, "-o", folder)
    return folder


def test_compile_replays_the_schedule_of_a_folder(artifact, tmp_path):
    again = tmp_path / "again"
    run("compile", *GEMM, "--schedule", artifact / "schedule.txt", "-o", again)
    for name in ("schedule.txt", "program.ir"):
        assert (again / name).read_text() == (artifact / name).read_text()


def test_compile_prints_one_line_per_layer_and_says_whose_the_numbers_are():
    text = run("compile", *GEMM, "--check", "--timings").stdout
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip()]
    assert lines[0] == "1 layer on sw26010_cg, f64"
    assert lines[1:3] == [
        "ms",
        "layer algorithm divided over ms (model) (simulated) Gflop/s % of peak bound by check",
    ]
    assert re.fullmatch(r"gemm gemm whole [\d.]+ .* exact", lines[4])
    assert re.fullmatch(
        r"total [\d.]+ ms simulated on sw26010_cg, [\d.]+ Gflop/s, [\d.]+ % of peak; "
        r"\d+ candidates considered, \d+ fit, \d+ priced in [\d.]+ s",
        lines[6],
    )
    assert lines[7].startswith("simulated: statements, transfers and queues one by one")
    stages = ["choose", "confirm", "instantiate", "emit", "simulate", "check"]
    assert [line.split()[0] for line in lines[8:]] == stages


def test_a_table_keeps_to_a_page_and_wider_ones_show_schedules_with_a_legend(monkeypatch):
    monkeypatch.setenv("COLUMNS", "180")
    lines = run("compile", *GEMM).stdout.splitlines()
    assert any(re.search(r"row \d+ col \d+ depth \d+ vec \w+ 2x ", line) for line in lines)
    assert lines[-1] == (
        "schedule: NAME N: tiles of N, in the order of the loops; vec: the vectorised dimension; "
        "2x: buffers that are doubled"
    )


def test_compile_gives_the_json_of_the_contract(artifact):
    result = run_json("compile", *GEMM, "--check")
    assert set(result) == RESULT_KEYS
    (layer,) = result["layers"]
    assert set(layer) == LAYER_KEYS
    assert (result["machine"], result["batch"], result["dtype"]) == ("sw26010_cg", None, "f64")
    assert (layer["op"], layer["shape"], layer["check"]) == ("gemm", "gemm m256 n192 k128", "exact")
    assert layer["artifact"] is None
    assert layer["lower_bound_cycles"] <= layer["simulated_cycles"]
    assert result["total_milliseconds"] == layer["milliseconds"]
    assert result["candidates_total"] == layer["candidates"] > 100


def test_compile_a_network_writes_a_folder_per_distinct_layer(tmp_path):
    out = tmp_path / "lenet"
    result = run_json(
        "compile", "lenet5", "--layers", "--batch", 4, "-m", "sw26010", "--algorithm", "implicit",
        "-o", out,
    )  # fmt: skip
    assert result["batch"] == 4
    assert [layer["name"] for layer in result["layers"]] == ["c1", "c3", "c5", "f6", "output"]
    assert [layer["artifact"] for layer in result["layers"]] == [
        str(out / name) for name in ("c1", "c3", "c5", "f6", "output")
    ]
    assert sorted(p.name for p in out.iterdir()) == [
        "c1", "c3", "c5", "f6", "network.json", "output"
    ]  # fmt: skip
    text = run("explain", out, "--no-changes").stdout
    assert "the slowest layer is " in text
    assert run("check", out).stdout.endswith("checks on sw26010, 0 refused\n")
    assert run("explain", out, "--layer", "f6", "--no-changes").stdout.startswith("f6: gemm m4 n84")


def test_compile_an_operator_says_where_it_is_written(artifact):
    result = run_json("compile", *GEMM, "-o", artifact)
    assert result["layers"][0]["artifact"] == str(artifact)
    assert (artifact / "kernel.json").exists()
    assert f"written to {artifact}" in run("compile", *GEMM, "-o", artifact).stdout


def test_compile_checks_the_code_of_each_algorithm():
    small = ["--batch", 4, "--in-channels", 8, "--out-channels", 8, "--height", 8, "--width", 8]
    arguments = ["conv2d", *small, "--kernel", 3, "--padding", "1", "-m", "sw26010_cg"]
    result = run_json("compile", *arguments, "--check-each-algorithm")
    checks = {check["algorithm"]: check["check"] for check in result["checks"]}
    assert {"implicit", "explicit", "winograd2", "winograd4"} <= set(checks)
    assert set(checks.values()) <= {"exact", "within bound"}


def test_compile_an_onnx_file(tmp_path):
    image, weights = {"x": (2, 4, 9, 8)}, {"w": floats(6, 4, 3, 3)}
    path = saved(tmp_path, model([node("Conv", ["x", "w"], ["y"], name="a/b")], image, weights))
    result = run_json(
        "compile", path, "--layers", "--batch", 8, "--dtype", "f64", "-m", "sw26010_cg"
    )
    (layer,) = result["layers"]
    assert (layer["name"], layer["shape"]) == ("a_b", "conv2d 8x4x9x8 -> 6, 3x3 s1 p0")


def test_a_network_without_layers_to_compile(tmp_path):
    path = saved(tmp_path, model([node("Relu", ["x"], ["y"])], {"x": (2, 4, 9, 8)}))
    result = run("compile", path, "--layers", code=1)
    assert result.stderr == "error: m has no convolution or matrix product to compile\n"


def test_tune_shows_the_best_candidates_as_they_were_simulated(tmp_path):
    records = tmp_path / "records.db"
    text = run("tune", *GEMM, "--top", 4, "--records", records).stdout
    table = text[text.index("gemm: gemm m256 n192 k128") :].splitlines()
    rows = [line.split() for line in table if line.strip().startswith("gemm")]
    simulated = [int(row[-1]) for row in rows[1:5]]
    assert simulated == sorted(simulated)
    again = run_json("tune", *GEMM, "--top", 4, "--records", records)
    assert set(again) == RESULT_KEYS
    assert again["layers"][0]["simulated_cycles"] == simulated[0]
    out = tmp_path / "best"
    assert run("tune", *GEMM, "-o", out).stdout.endswith(f"\nwritten to {out}\n")
    assert run_json("tune", *GEMM, "-o", out)["layers"][0]["artifact"] == str(out)
    assert (out / "kernel.json").exists()


def test_tune_as_a_black_box_simulates_every_candidate(tmp_path):
    tiny = ["gemm", "--m", 32, "--n", 128, "--k", 16, "-m", "sw26010_cg", "--method", "simulate"]
    model = run_json("tune", *tiny[:-2])
    simulated = run_json("tune", *tiny, "--records", tmp_path / "r.db")
    best = simulated["layers"][0]["simulated_cycles"]
    assert best <= model["layers"][0]["simulated_cycles"]
    assert run_json("tune", *tiny, "--records", tmp_path / "r.db")["layers"][0][
        "simulated_cycles"
    ] == best  # fmt: skip


needs_avx2 = pytest.mark.skipif("avx2" not in processor_flags(), reason="the machine has AVX2")
NATIVE = ["gemm", "--m", 40, "--n", 50, "--k", 30, "--dtype", "f32", "-m", "host_avx2"]


@needs_avx2
def test_compile_for_this_computer_is_measured():
    text = run("compile", *NATIVE, "--check").stdout
    assert "ms (model)" in text
    assert "ms (measured)" in text
    assert re.search(r"total [\d.]+ [mu]s measured, ", text)
    assert "simulated" not in text
    assert " exact" in text
    text = run("compile", *NATIVE, "--no-measure").stdout
    assert "measured" not in text
    assert re.search(r"total [\d.]+ us by the model, ", text)


@needs_avx2
def test_tune_for_this_computer_shows_measured_cycles():
    text = run("tune", *NATIVE, "--top", 2).stdout
    assert "cycles (measured)" in text
    assert "simulated" not in text


@needs_avx2
def test_run_computes_judges_and_times(tmp_path):
    given, result = tmp_path / "in.npz", tmp_path / "out.npz"
    a, b = np.ones((40, 30), np.float32), np.full((30, 50), 2, np.float32)
    np.savez(given, a=a, b=b)
    found = run_json("run", *NATIVE, "--input", given, "-o", result)
    assert (found["machine"], found["check"], found["output"]) == (
        "host_avx2",
        "exact",
        str(result),
    )
    assert found["layer"]["timed_by"] == "measured"
    with np.load(result) as arrays:
        np.testing.assert_array_equal(arrays["c"], a @ b)
    text = run("run", *NATIVE).stdout
    assert re.search(
        r"result: (exact|within bound), error \S+ of the largest value, \S+ expected\n"
        r"[\d.]+ ([mu]s) measured, [\d.]+ \2 by the model; ",
        text,
    )


@needs_avx2
def test_what_runs_here_is_not_simulated(tmp_path):
    run("compile", *NATIVE, "--no-measure", "-o", tmp_path / "k")
    assert run("simulate", tmp_path / "k", code=1).stderr == (
        "error: machine 'host_avx2' is this computer: it is measured, not simulated\n"
        "  fix: tilewright run, or another --machine\n"
    )
    text = run("explain", tmp_path / "k", "--roofline").stdout
    assert "by the model" in text
    assert "roofline of one core group (model): peak " in text
    checked = run("check", tmp_path / "k").stdout
    assert checked.endswith("checks on host_avx2, 0 refused\n")


def test_run_refuses_what_is_not_here_or_does_not_fit(tmp_path):
    assert run("run", *GEMM, code=1).stderr == (
        "error: machine 'sw26010_cg' has no code for this computer\n"
        "  fix: compile --check on this machine, or take another machine: host, host_avx2, "
        "host_portable, host_zen5\n"
    )
    other = tmp_path / "x.npz"
    np.savez(other, x=np.ones(3))
    assert run("run", *NATIVE, "--input", other, code=1).stderr == (
        f"error: {other}: expected the arrays a, b, found x\n"
    )
    other.write_text("no archive")
    assert run("run", *NATIVE, "--input", other, code=1).stderr.startswith(
        f"error: {other}: is no .npz file of arrays: "
    )


def test_explain_accounts_for_the_whole_time(artifact):
    found = run_json("explain", artifact)
    other = ("-m", "host", "--set", "clock_hz=1e9", "--batch", 2)
    assert run("explain", artifact, *other, code=2).stderr == (
        f"error: {artifact} was compiled for its own machine: leave --machine, --set, --batch, or "
        "explain what it was compiled from\n"
    )
    assert run("check", artifact, "--batch", 2, code=2).stderr == (
        f"error: {artifact} is written already: leave --batch\n"
    )
    for command in ("explain", "simulate"):
        refused = run(command, artifact, "--layer", "gemm", code=2).stderr
        assert refused == f"error: {artifact} holds one operator: leave --layer\n"
    assert sum(c["cycles"] for c in found["causes"]) == found["layer"]["simulated_cycles"]
    assert {t["direction"] for t in found["traffic"]} == {"get", "put"}
    assert [change["retuned"] for change in found["changes"]] == [False, False, False, True]
    assert len(found["rejected"]) == 3
    text = run("explain", artifact).stdout
    for heading in (
        "time by cause (simulated)",
        "traffic of one core group (simulated)",
        "bound by ",
        "what would help (simulated)",
        "best rejected candidates (model)",
    ):
        assert heading in text


def test_simulate_reads_artifacts_and_program_texts(artifact, tmp_path):
    trace = tmp_path / "trace.json"
    result = run_json("simulate", artifact, "--trace", trace)
    assert sum(cause["cycles"] for cause in result["causes"]) == result["cycles"]
    assert json.loads(trace.read_text())["traceEvents"]
    again = run_json("simulate", artifact / "program.ir", "-m", "sw26010_cg")
    assert (again["cycles"], again["trace"]) == (result["cycles"], None)
    slower = run_json("simulate", artifact, "-m", "sw26010_cg", "--set", "dma.latency_cycles=50000")
    assert slower["cycles"] > result["cycles"]
    assert "gemm on one core group of sw26010_cg: " in run("simulate", artifact).stdout


def test_check_accepts_what_fits_and_says_what_is_computed_in_vain():
    result = run_json("check", "gemm", "--m", 100, "--n", 64, "--k", 30)
    assert result["refused"] == 0
    assert {f["status"] for f in result["findings"]} == {"ok", "note"}
    notes = [f["message"] for f in result["findings"] if f["rule"] == "divisibility"]
    assert "depth = 30 is computed as 32, which the mesh divides" in notes


def test_check_of_one_algorithm(tmp_path, artifact):
    result = run_json("check", "lenet5", "--algorithm", "implicit", "-m", "sw26010_cg")
    tried = {f["subject"].split(", ")[1] for f in result["findings"] if f["status"] == "ok"}
    assert tried == {"implicit over whole", "gemm over whole"}
    text = run("check", artifact, "--algorithm", "gemm", code=2).stderr
    assert text == f"error: {artifact} is written already: leave --algorithm\n"


def test_check_refuses_with_tensor_number_limit_and_way_out(artifact):
    small = ["--set", "memory.spm.capacity_bytes=4200"]
    result = run_json("check", "gemm", "--m", 64, "--n", 64, "--k", 64, *small, code=3)
    assert result["refused"] == len([f for f in result["findings"] if f["status"] == "refused"])
    refused = next(f for f in result["findings"] if f["status"] == "refused")
    assert re.fullmatch(
        r"no tile of gemm .* fits: the smallest tiles of 'gemm' take \d+ bytes of scratchpad, "
        r"\d+ of them for '\w+', the limit is 104",
        refused["message"],
    )
    assert re.fullmatch(r"--set memory\.spm\.capacity_bytes=\d+", refused["fix"])
    program = run("check", artifact, *small, code=3).stdout
    assert "refused  " in program
    assert "checks on sw26010, 2 refused" in program


def test_check_accepts_written_programs(artifact):
    own, other = (f" checks on {name}, 0 refused\n" for name in ("sw26010_cg", "sw26010"))
    assert run("check", artifact).stdout.endswith(own)
    assert run("check", artifact, "-m", "sw26010").stdout.endswith(other)
    assert run("check", artifact / "program.ir").stdout.endswith(other)


def test_machines_lists_and_shows_every_number_with_its_source():
    listed = {m["name"]: m for m in run_json("machines")["machines"]}
    assert listed["sw26010"]["peak_gflops"] == pytest.approx(2969.6)
    assert listed["sw26010_cg"]["cores"] == 64
    shown = run_json("machines", "sw26010", "--set", "memory.spm.capacity_bytes=131072")
    values = {v["key"]: v for v in shown["values"]}
    assert values["memory.spm.capacity_bytes"] == {
        "key": "memory.spm.capacity_bytes", "value": 131072, "source": "set by the user"
    }  # fmt: skip
    assert all(v["source"] for v in shown["values"] if not isinstance(v["value"], str | bool))
    assert "sw26010_cg" in run("machines").stdout
    text, width = run("machines", "sw26010").stdout, max(map(len, values))
    assert all(f"\n  {key:{width}}  " in text for key in values)


SOURCE = """\
        .text
        .globl  main
main:   ldi     $6, x($31)
        ldi     $7, 8($31)
1:      ldde    $1, 0($6)
        vmad    $1, $1, $2, $2
        subw    $7, 1, $7
        bgt     $7, 1b
        halt
        .data
        .balign 32
x:      .double 1.5
"""


def test_assembling_dumping_and_timing_a_program(tmp_path):
    source, target = tmp_path / "loop.s", tmp_path / "loop.o"
    source.write_text(SOURCE)
    assembled = run_json("asm", source, "-o", target, "--listing")
    assert (assembled["instructions"], assembled["table"]) == (7, "sw26010_cpe")
    assert "vmad" in assembled["text"]
    dumped = run_json("objdump", target)
    assert {"main", "x"} <= set(dumped["symbols"])
    assert "vmad" in run("objdump", target).stdout
    timed = run_json("pipeline", source, "--entry", "main", "--minimum")
    assert set(timed) == {
        "machine", "instructions", "iterations", "cycles_per_iteration", "total_cycles", "stalls",
        "units", "proven_minimum",
    }  # fmt: skip
    assert (timed["instructions"], timed["iterations"]) == (4, 8)
    assert timed["proven_minimum"] <= timed["cycles_per_iteration"]
    assert run("asm", source).stdout == (f"7 instructions written to {tmp_path / 'loop.o'}\n")
    given_up = CliRunner().invoke(
        app, ["pipeline", str(source), "--entry", "main", "--max-cycles", "20"]
    )
    assert (given_up.exit_code, given_up.stderr) == (
        1,
        "error: 1 of 1 cores still run after 20 cycles\n"
        "  fix: raise max_cycles (--max-cycles), or look for a loop that never ends\n",
    )
    trace = tmp_path / "trace.json"
    assert "vmad" in run("pipeline", source, "--trace", trace).stdout
    assert json.loads(trace.read_text())["traceEvents"]


def test_assembling_for_a_machine(tmp_path):
    source = tmp_path / "loop.s"
    source.write_text(SOURCE)
    assert run_json("asm", source, "-m", "sw26010_cg")["table"] == "sw26010_cpe"
    dumped = run_json("objdump", tmp_path / "loop.o", "--machine", "sw26010")
    assert dumped["table"] == "sw26010_cpe"
    assert run("asm", source, "-m", "host", code=1).stderr == (
        "error: machine 'host' has no instruction table\n"
        "  fix: give a machine that has core.instruction_table\n"
    )
    for command, file in (("asm", source), ("objdump", tmp_path / "loop.o")):
        both = ("-m", "sw26010", "--table", "sw26010_cpe")
        assert run(command, file, *both, code=2).stderr == (
            "error: --machine has an instruction table of its own: leave --table\n"
        )


def test_the_version():
    assert re.fullmatch(r"tilewright \S+\n", run("--version").stdout)


def test_explain_takes_an_operator():
    text = run("explain", *GEMM, "--no-changes").stdout
    assert text.startswith("gemm: gemm m256 n192 k128\ngemm on one core group of sw26010_cg\n")
    found = json.loads(run("explain", *GEMM, "--no-changes", "--json").stdout)
    assert sum(cause["cycles"] for cause in found["causes"]) == found["layer"]["simulated_cycles"]
    refused = run("explain", *GEMM, "--layer", "fc", code=2).stderr
    assert refused == "error: gemm is one operator: leave --layer\n"
