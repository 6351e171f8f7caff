"""The tables of a divided network, as wide as a terminal."""

import io
import re

import pytest
from msgspec import structs
from rich.console import Console

from tilewright.cli.output import _fitting
from tilewright.graph import network
from tilewright.machine import load_machine
from tilewright.partition.capability import DIVIDES
from tilewright.partition.objective import TRAFFIC
from tilewright.report.division import (
    DividedRun,
    cost_table,
    division_explanation,
    division_table,
    division_totals,
)

MACHINE = load_machine("bwdsp-56")
NETWORK = network("lenet5", 1, dtype="f32")


@pytest.fixture(scope="module")
def stages():
    """Steps told of each stage while the network is divided: (done, total)."""
    return {}


@pytest.fixture(scope="module")
def found(stages):
    divided = DIVIDES.required(MACHINE).divide(NETWORK, MACHINE, None, TRAFFIC, 1.0)
    return divided.result(
        lambda stage, done, total: stages.setdefault(stage, []).append((done, total))
    )


@pytest.mark.usefixtures("found")
def test_each_stage_is_told_until_all_of_it_is_done(stages):
    assert stages["put messages on links"] == [(done, 3) for done in range(4)]
    for told in stages.values():
        assert [done for done, _ in told] == sorted(done for done, _ in told)
        assert {total for _, total in told} == {told[-1][0]}


def printed(table, width):
    out = io.StringIO()
    console = Console(file=out, width=width)
    console.print(_fitting(table, console), soft_wrap=True)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_figures_are_whole_in_a_terminal(width, found):
    for table in (division_table(found), cost_table(found)):
        text = printed(table, width)
        assert "…" not in text
        assert max(map(len, text.splitlines())) <= width
    text = printed(division_table(found), width)
    for layer in found.layers:
        assert "x".join(map(str, layer.reads)) in text


def test_a_line_says_what_of_the_layer_is_cut(found):
    lines = [re.sub(r"\s\s+", " | ", line.strip()) for line in
             printed(division_table(found), 200).splitlines()]  # fmt: skip
    assert lines[0] == "lenet5 on bwdsp-56, f32, 56 cores"
    assert lines[2] == "layer | divided | grid | tile | reads | cores | imbalance"
    assert lines[6] == (
        "c3 | channels x columns, sums | 1x6x1x2* sums 3x1x1 | 1x3x10x6 | 1x2x14x10 | 36 | 1.35"
    )
    assert lines[11] == "prob | nothing | 1x1 | 1x10 | 1x10 | 1 | 1.00"
    costs = printed(cost_table(found), 200).splitlines()
    assert re.split(r"\s\s+", costs[1].strip()) == [
        "layer", "activations", "inputs", "weights", "sums", "ms (model)", "peak ms", "program ms",
        "streamed ms",
    ]  # fmt: skip


def test_many_layers_that_leave_the_same_cores_idle_are_not_all_named(found):
    names = [f"conv{number}" for number in range(6)]
    own = [structs.replace(found.layers[0], name=n, idle_cores=(3, 4, 7)) for n in names]
    run = DividedRun(**structs.asdict(structs.replace(found, layers=tuple(own))))
    (line,) = (line for line in division_totals(run) if line.startswith("idle"))
    assert line == "idle cores: 3-4, 7 in conv0, conv1, conv2, conv3 and 2 more"


def test_the_slowest_layers_come_with_their_shares_of_all_steps(found):
    times = [(3.0, 1.0, 0.0), (0.0, 0.0, 0.5), *[(0.0, 0.25, 0.0)] * 10]
    own = [
        structs.replace(found.layers[0], name=f"l{n}", compute_ms=a, exchange_ms=b, weights_ms=c)
        for n, (a, b, c) in enumerate(times)
    ]
    run = DividedRun(**structs.asdict(structs.replace(found, layers=tuple(own), steps_ms=7.0)))
    head, first, second, *rest = division_explanation(run)
    assert head == "the 10 slowest of 12 layers, step by step, and what takes their time:"
    assert first == "  l0   57.1 %: compute 75.0 %, exchange 25.0 %"
    assert second == "  l1    7.1 %: weights 100.0 %"
    assert len(rest) == 8
    assert {line[6:] for line in rest} == {"  3.6 %: exchange 100.0 %"}
    idle = structs.replace(own[0], compute_ms=0.0, exchange_ms=0.0)
    nothing = structs.replace(run, layers=(idle,), steps_ms=0.0)
    assert list(division_explanation(nothing))[1:] == ["  l0   0.0 %: "]
