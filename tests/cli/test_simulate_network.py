"""`tilewright simulate NETWORK`: every stage on one clock."""

import json
import re

import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert code is None or result.exit_code == code, result.output
    return result


def run_json(*arguments):
    return json.loads(run(*arguments, "--json").stdout)


def test_simulate_a_network_says_where_the_time_goes():
    found = run_json("simulate", "lenet5", "-m", "sw26010", "--batch", 4, "--unfused")
    assert (found["network"], found["groups"]) == ("lenet5", 4)
    assert sum(stage["cycles"] for stage in found["stages"]) == found["cycles"]
    assert sum(found["work"].values()) == sum(found["causes"].values()) == found["cycles"]
    assert {stage["work"] for stage in found["stages"]} == set(found["work"])
    assert found["unfused_cycles"] > found["cycles"]


def test_the_table_of_a_simulated_network():
    text = run("simulate", "lenet5", "-m", "sw26010_cg").stdout
    assert text.startswith("lenet5 on sw26010_cg, f64, 17 stages\n")
    assert re.search(r"c1_tanh +bias tanh +elementwise", text)
    assert re.search(
        r"total [\d.]+ ms simulated, \d+ cycles of a core group, [\d.]+ Gflop/s; "
        r"[\d.]+ % of it is no product\nby work: product [\d.]+ %, elementwise [\d.]+ %",
        text,
    )


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
            "error: lenet5 is a network: leave --layer and --trace\n",
        ),
        (
            ("x.ir", "--batch", "2"),
            "error: x.ir is no network: leave --batch, --dtype and --unfused\n",
        ),
    ],
)
def test_what_is_no_network_or_no_simulated_machine(words, message):
    assert run("simulate", *words, code=None).stderr == message
