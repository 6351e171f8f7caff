"""`compile NETWORK` on a machine whose cores divide networks among them."""

import json
import re
from functools import cache

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from support.onnx_models import floats, ints, model, node, saved
from tilewright.cli.main import app
from tilewright.graph import network
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.frontends.onnx.export import export_onnx
from tilewright.graph.weights import random_weights

BUFFERS = "memory.buffers.capacity_bytes"


@cache  # what is asked alike is answered alike
def run(*arguments, command="compile"):
    return CliRunner().invoke(app, [command, *arguments, "--machine", "bwdsp-56"])


def lines_of(done):
    """Printed text, its broken lines joined again."""
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 100
    return re.sub(r"\n  (?=\S)", " ", done.stdout).splitlines()


def test_a_line_for_each_layer_and_what_moves():
    lines = lines_of(run("lenet5"))
    assert lines[0] == "lenet5 on bwdsp-56, f32, 56 cores"
    named = [line.split()[0] for line in lines if line.startswith(" ") and line.strip()]
    assert named[-8:] == ["c1", "s2", "c3", "s4", "c5", "f6", "output", "prob"]
    assert "no plan of these grids moves fewer" in lines[-4]
    assert lines[-2].endswith(
        "ms overlapped with the cores' programs in place of the peak (simulated)"
    )
    shares = re.fullmatch(
        r"of the time step by step: weights (.*) %, exchange (.*) %, compute (.*) %", lines[-1]
    )
    assert sum(float(share) for share in shares.groups()) == pytest.approx(100, abs=0.2)


def planned(*arguments):
    done = run("lenet5", *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_planner_chooses_among_the_grids_of_a_strategy_too():
    """`products` has all that the planner knows here; looser limits and other objectives count."""
    free, named = planned(), planned("--partition", "products")
    assert (named["moved_values"], named["proven"]) == (free["moved_values"], True)
    rows = planned("--partition", "rows")
    looser = planned("--partition", "rows", "--most-work", "3")
    assert looser["moved_values"] < rows["moved_values"]
    fastest = planned("--partition", "rows", "--most-work", "3", "--objective", "time")
    assert fastest["steps_ms"] < looser["steps_ms"]
    several = planned("--partition", "rows,output_channels")
    assert {layer["strategy"] for layer in several["layers"]} == {"rows", "output_channels"}


@pytest.mark.parametrize(
    ("strategy", "own", "others"),
    [
        ("rows", {"c1", "s2", "c3", "s4"}, {"prob": "whole"}),
        ("columns", {"c1", "s2", "c3", "s4"}, {"prob": "whole"}),
        ("tiles", {"c1", "s2", "c3", "s4"}, {"prob": "whole"}),
        ("terms", {"c3", "c5", "f6", "output"}, {"prob": "whole"}),
        ("batch", set(), {"prob": "batch"}),
    ],
)
def test_what_a_strategy_does_not_divide_is_divided_by_output_channels(strategy, own, others):
    found = {
        layer["name"]: layer["strategy"] for layer in planned("--partition", strategy)["layers"]
    }
    expected = dict.fromkeys(found, "output_channels") | dict.fromkeys(own, strategy) | others
    assert found == expected


def test_where_a_strategy_has_one_grid_nothing_was_chosen():
    lines = lines_of(run("lenet5", "--partition", "output_tiles"))
    assert lines[-4] == "158655 values in all; one grid for each layer, nothing to choose"
    found = planned("--partition", "output_tiles")
    assert found["considered"] == len(found["layers"])


def test_the_bound_has_its_name_and_what_is_least_its_unit():
    assert lines_of(run("lenet5"))[-4] == (
        "90227 values in all; no plan of these grids moves fewer; lower bound, each layer and "
        "exchange at its own least: 74855 (17.0 % less)"
    )
    line = lines_of(run("lenet5", "--objective", "time"))[-4]
    assert re.fullmatch(
        r"\d+ values in all; least time: \d+ cycles; not proven to be the least; "
        r"lower bound, each layer and exchange at its own least: \d+ \(0.\d % less\)",
        line,
    )


def test_the_cores_without_work_are_named():
    lines = lines_of(run("lenet5", "--partition", "output_tiles"))
    assert lines[-5] == (
        "idle cores: 25-55 in c3, s4; 40-55 in c5; 42-55 in f6; 10-55 in output; 1-55 in prob"
    )


def test_what_cores_send_each_other_can_be_least():
    found = planned("--objective", "activations")
    sent = sum(layer["activations"] + layer["sums"] for layer in found["layers"])
    assert (found["objective"], found["cost"]) == ("activations and sums", sent)
    traffic = planned()
    assert sent < sum(layer["activations"] + layer["sums"] for layer in traffic["layers"])
    assert found["moved_values"] > traffic["moved_values"] == traffic["cost"]


@pytest.mark.parametrize(
    "options",
    [
        ("--objective", "activations", "--place"),
        ("--partition", "terms", "--most-work", "3", "--objective", "time"),
    ],
)
def test_every_command_that_plans_takes_the_options_of_a_plan(options):
    commands = ("compile", "run", "simulate", "explain")
    found = [json.loads(run("perceptron", *options, "--json", command=c).stdout) for c in commands]
    assert [one | {"timings": {}} for one in found] == [found[-1]] * 4


def test_placed_shares_send_less_and_compute_the_same():
    fixed, placed = planned(), planned("--place", "--check")
    assert placed["moved_values"] == placed["cost"] < fixed["moved_values"]
    assert placed["comparison"]["largest_difference"] < 1e-6


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--objective", "time"), "an objective with cycles"),
        (("--most-work", "2"), "--most-work above 1"),
        (("--set", "fabrics.grid.multicast=path"), "the multicasts of 'bwdsp-56'"),
    ],
)
def test_shares_are_placed_where_single_values_count(options, problem):
    assert run("lenet5", "--place", *options).stderr.endswith(
        f"error: --place does not go with {problem}: it counts values that move to one core each\n"
        f"  fix: leave --place, or {problem}\n"
    )


@pytest.mark.parametrize("command", ["compile", "run", "simulate", "explain"])
def test_options_of_a_plan_mean_nothing_elsewhere(command):
    machine = "host" if command == "run" else "sw26010"
    done = CliRunner().invoke(app, [command, "lenet5", "--machine", machine, "--place"])
    assert (done.exit_code, done.stderr) == (
        2,
        "error: --place is for networks on machines whose cores divide them\n",
    )


def test_a_multicast_counts_once_and_the_line_below_the_table_says_so():
    def counted(*arguments):
        lines = lines_of(run("lenet5", "--partition", "output_tiles", *arguments))
        (line,) = (line for line in lines if line.startswith("values, each counted "))
        return line

    assert counted() == (
        "values, each counted for every core that gets it: 26689 activations, 3696 inputs, 128270 "
        "weights, 0 sums"
    )
    assert counted("--set", "fabrics.grid.multicast=path") == (
        "values, each counted once, however many cores get it: 2425 activations, 3696 inputs, "
        "61706 weights, 0 sums"
    )


def test_the_result_adds_up():
    found = json.loads(run("lenet5", "--json").stdout)
    layers = found["layers"]
    kinds = ("activations", "inputs", "weights", "sums")
    assert found["moved_values"] == sum(layer[kind] for layer in layers for kind in kinds)
    assert found["bound_values"] <= found["moved_values"]
    parts = ("compute_ms", "exchange_ms", "weights_ms")
    total = sum(layer[part] for layer in layers for part in parts)
    assert found["steps_ms"] == pytest.approx(total)
    assert found["overlapped_ms"] <= found["steps_ms"]
    assert all(y["compute_ms"] <= y["program_ms"] <= y["streamed_ms"] for y in layers)
    slower = sum(layer["program_ms"] - layer["compute_ms"] for layer in layers)
    assert found["program_ms"] == pytest.approx(total + slower)
    assert found["overlapped_ms"] <= found["program_overlapped_ms"] <= found["program_ms"]


def test_the_plan_and_pictures_are_written_and_replaced(tmp_path):
    for _ in range(2):
        done = run("lenet5", "--partition", "output_tiles", "-o", str(tmp_path / "out"))
        assert done.exit_code == 0, done.output
    plans = {plan["name"]: plan for plan in json.loads((tmp_path / "out/plan.json").read_text())}
    first, second = plans["c1"], plans["s2"]
    assert first["shares"][0] == {
        "core": 0, "keeps": [[0, 1], [0, 6], [0, 2], [0, 8]],
        "adds_up": [[0, 1], [0, 6], [0, 2], [0, 8]], "terms": None,
        "reads": {"images": [[0, 1], [0, 1], [0, 6], [0, 12]]},
        "weights": {"c1_weight": [[0, 6], [0, 1], [0, 5], [0, 5]], "c1_bias_values": [[0, 6]]},
    }  # fmt: skip
    assert (len(first["shares"]), first["moves"], second["moves"]) == (56, [], [])
    traffic = {one["name"]: one for one in json.loads((tmp_path / "out/traffic.json").read_text())}
    layers = json.loads((tmp_path / "out/network.json").read_text())["divided"]["layers"]
    for layer in layers:
        own = traffic[layer["name"]]
        got = sum(core["received_bytes"] for core in own["cores"])
        loaded = sum(core["loaded_bytes"] for core in own["cores"])
        assert got == 4 * (layer["activations"] + layer["sums"])
        assert loaded == 4 * (layer["inputs"] + layer["weights"])
        working = [core["core"] for core in own["cores"] if core["work"]]
        assert sorted([*working, *layer["idle_cores"]]) == list(range(56))
        assert layer["busiest_link_bytes"] >= max(
            [link["bytes"] for link in own["links"]], default=0
        )
        for link in own["links"]:
            assert abs(link["source"] - link["target"]) in (1, 8)
    pictures = sorted(path.name for path in (tmp_path / "out/layers").iterdir())
    named = ["c1", "c3", "c5", "f6", "output", "prob", "s2", "s4"]
    assert pictures == [f"{name}.svg" for name in named]
    picture = (tmp_path / "out/layers/c1.svg").read_text()
    cores = [int(text) for text in re.findall(r">(\d+)</text>", picture)]
    assert sorted(cores) == sorted([*range(56), *range(0, 56, 8), *range(0, 56, 8)])
    assert "c1 on bwdsp-56: rows x columns, grid 1x1x14x4 (output_tiles)" in picture
    assert "no core sends anything to another; 3696 values of the network&#x27;s inputs" in picture


def test_the_network_is_written_with_the_plan_in_its_metadata(tmp_path):
    """Read back it computes the same; its weights have numbers once they are given."""
    net = network("lenet5", 1, dtype="f32")
    weights = random_weights(net)
    source, planned = tmp_path / "lenet.onnx", tmp_path / "planned.onnx"
    source.write_bytes(export_onnx(net, weights).SerializeToString())
    done = run(str(source), "-o", str(tmp_path / "out"),
               "--onnx-out", str(planned))  # fmt: skip
    assert done.exit_code == 0, done.output
    model = onnx.load(planned)
    onnx.checker.check_model(model, full_check=True)
    about = {prop.key: prop.value for prop in model.metadata_props}
    assert (about["tilewright.machine"], about["tilewright.objective"]) == ("bwdsp-56", "traffic")
    written = json.loads((tmp_path / "out/plan.json").read_text())
    assert json.loads(about["tilewright.plan"]) == written
    noted = {n.name: {p.key: p.value for p in n.metadata_props} for n in model.graph.node}
    layers = json.loads((tmp_path / "out/network.json").read_text())["divided"]["layers"]
    for layer in layers:
        assert noted[layer["name"]]["tilewright.grid"] == layer["grid"]
    feeds = {"images": np.ones((1, 1, 32, 32), np.float32)}
    (again,) = load_onnx(planned).evaluate(feeds).values()
    np.testing.assert_array_equal(again, load_onnx(source).evaluate(feeds)["prob"])


def test_weights_without_numbers_are_inputs_of_the_written_network(tmp_path):
    done = run("lenet5", "--onnx-out", str(tmp_path / "planned.onnx"))
    assert done.exit_code == 0, done.output
    model = onnx.load(tmp_path / "planned.onnx")
    onnx.checker.check_model(model, full_check=True)
    given = [value.name for value in model.graph.input]
    assert given[:3] == ["images", "c1_weight", "c1_bias_values"]


def test_a_network_is_computed_on_all_cores(tmp_path):
    """`run` gives the outputs, of these inputs; `--check` compares without writing them."""
    images = np.random.default_rng(3).standard_normal((2, 1, 32, 32)).astype(np.float32)
    np.savez(tmp_path / "in.npz", images=images)
    files = ("--input", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz"))
    done = run("lenet5", "--batch", "2", *files, "--compare", "reference", command="run")
    assert done.exit_code == 0, done.output
    assert re.search(
        r"\nagainst reference: largest difference \S+ of the largest magnitude, within 0.0001\n"
        r"written to \S+out.npz\n$",
        done.stdout,
    )
    net = network("lenet5", 2, dtype="f32")
    expected = net.evaluate({"images": images, **random_weights(net)})["prob"]
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_allclose(found["prob"], expected, rtol=1e-4)
    checked = json.loads(run("lenet5", "--batch", "2", "--check", "--json").stdout)
    assert 0 < checked["comparison"]["largest_difference"] < 1e-6
    assert checked["output"] is None


def test_other_numbers_than_those_of_the_reference_end_with_code_3():
    """The bound is the one that is given, however small."""
    done = run("perceptron", "--compare", "reference", "--max-error", "1e-3", command="run")
    assert done.exit_code == 0
    assert "of the largest magnitude, within 0.001\n" in done.stdout
    done = run("perceptron", "--check", "--max-error", "1e-12")
    assert done.exit_code == 3
    assert re.fullmatch(
        r"error: outputs differ from those of the reference by \S+ of the largest magnitude, "
        r"beyond 1e-12\n",
        done.stderr,
    )


def test_simulate_gives_the_times_of_compile():
    compiled, simulated = (
        json.loads(run("lenet5", "--json", command=command).stdout)
        for command in ("compile", "simulate")
    )
    assert simulated == {**compiled, "timings": {}}


def test_explain_says_what_takes_the_time_of_the_slowest_layers():
    lines = run("lenet5", command="explain").stdout.splitlines()
    first = lines.index("the 8 slowest of 8 layers, step by step, and what takes their time:")
    shares = [float(line.split(" %: ")[0].split()[1]) for line in lines[first + 1 :]]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=0.5)
    assert re.fullmatch(
        r"  c5 +\S+ %: weights \S+ %, exchange \S+ %, compute \S+ %", lines[first + 1]
    )


def test_check_names_every_layer_that_fits_no_buffer():
    done = run("lenet5", command="check")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "8 checks on bwdsp-56, 0 refused")
    done = run("lenet5", "--set", f"{BUFFERS}=1500", command="check")
    assert done.exit_code == 3
    rule = "a core's part fits its buffers"
    assert done.stdout.splitlines()[:4] == [
        f"ok       c1: {rule}",
        f"ok       s2: {rule}",
        f"refused  c3: {rule}: layer c3: a core's part of a 1x1x5x3 sums 3x1x1 grid takes 784 "
        "bytes, a buffer has 500",
        "         fix: the smallest grid that fits is 1x2x4x2 sums 6x1x1: 96 cores",
    ]
    done = run("lenet5", "--dtype", "f64", command="check")
    assert done.stdout.splitlines() == [
        "refused  lenet5: cores compute its operators and elements: inputs of f64: the cores of "
        "'bwdsp-56' compute in f32",
        "         fix: give --dtype f32",
        "1 checks on bwdsp-56, 1 refused",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("compile", "lenet5", "--top", "3"),
            "--top is for kernels: cores that divide a network take none",
        ),
        (
            ("run", "lenet5", "--algorithm", "implicit"),
            "--algorithm is for kernels: cores that divide a network take none",
        ),
        (
            ("simulate", "lenet5", "--unfused"),
            "--unfused is for machines that run a network stage by stage",
        ),
        (
            ("explain", "lenet5", "--layer", "c1"),
            "cores of bwdsp-56 divide a network: leave --layer and --roofline",
        ),
    ],
)
def test_options_that_mean_nothing_there_are_refused(arguments, message):
    command, *others = arguments
    assert run(*others, command=command).stderr == f"error: {message}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("lenet5", "--objective", "speed"),
            "error: --objective takes traffic, activations, time, or how many values a cycle "
            "counts, found 'speed'\n",
        ),
        (("lenet5", "--partition", "row"), "error: there is no strategy 'row'\n"),
        (
            ("vgg16", "--partition", "output_tiles", "--set", f"{BUFFERS}=300000"),
            "error: layer conv1_1: a core's part of a 1x1x56x1 grid takes 229376 bytes, a buffer "
            "has 100000\n  fix: the smallest grid that fits is 1x1x19x7: 133 cores\n",
        ),
        (
            ("lenet5", "--partition", "input_rows", "--set", f"{BUFFERS}=7000"),
            "error: layer c3: a core's part of a 1x1x10x1 grid takes 2880 bytes, a buffer has "
            "2332\n  fix: the smallest grid that fits is 1x2x2x1 sums 2x1x1: 8 cores; take another "
            "strategy, or let the planner choose\n",
        ),
        (
            ("lenet5", "--dtype", "f64"),
            "error: inputs of f64: the cores of 'bwdsp-56' compute in f32\n"
            "  fix: give --dtype f32\n",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_divided_is_refused(arguments, message):
    done = run(*arguments)
    assert done.exit_code in (1, 2)
    assert done.stderr.startswith(message)


@pytest.mark.parametrize(
    ("nodes", "integers", "message"),
    [
        (
            [node("Greater", "xw", "m", name="mask"), node("Where", "mxw", "y")],
            (),
            "node mask takes or computes bool: the cores of 'bwdsp-56' compute this network in f32",
        ),
        (
            [node("Relu", "x", "z"), node("Gather", "zi", "y", axis=1, name="rows")],
            (),
            "node rows takes or computes i64: the cores of 'bwdsp-56' compute this network in f32",
        ),
        (
            [node("Relu", "x", "y")],
            ("x",),
            "inputs of i64: the cores of 'bwdsp-56' compute in f32",
        ),
    ],
)
def test_networks_of_several_types_are_refused_before_they_are_divided(
    nodes, integers, message, tmp_path
):
    held = {"w": floats(5), "i": ints(0, 3, 1)}
    weights = {name: held[name] for own in nodes for name in own.input if name in held}
    path = saved(tmp_path, model(nodes, {"x": (4, 5)}, weights, integers=integers, opset=14))
    refused = run(str(path))
    assert refused.stderr == (
        f"error: {message}\n  fix: take a machine that computes several types in one network\n"
    )


def test_rows_at_known_places_are_cut_on_every_core(tmp_path):
    """As an attention block takes queries, keys and values apart."""
    nodes = [node("MatMul", "xw", "m"), *(node("Gather", ["m", i], [f"z{i}"]) for i in "ab"),
             node("Add", ["za", "zb"], "y")]  # fmt: skip
    weights = {"w": floats(5, 6), "a": np.array(0), "b": np.array(-1)}
    path = saved(tmp_path, model(nodes, {"x": (3, 4, 5)}, weights))
    assert run(str(path), "--check").exit_code == 0


def test_a_step_of_training_is_divided_as_a_network_is():
    """Each layer, then back, then what its weights change by; all of it is the network."""
    options = ("--training", "--batch", "1", "--machine", "cns1-128", "--json")
    done = CliRunner().invoke(app, ["compile", "perceptron", *options])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    names = ["hidden", "outputs", "outputs_back", "outputs_change", "hidden_change"]
    assert found["network"] == "perceptron_step"
    assert [own["name"] for own in found["layers"]] == names
    assert found["moved_values"] == sum(
        own[kind] for own in found["layers"] for kind in ("activations", "inputs", "sums")
    )
