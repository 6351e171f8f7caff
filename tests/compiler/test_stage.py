"""One stage of a network that is no product: what it computes, and its part of the time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tilewright.common.errors import GraphError
from tilewright.compiler import explanation
from tilewright.compiler.explanation import (
    computed,
    measured_stage,
    require_nameable,
    simulated_stage,
)
from tilewright.graph import network
from tilewright.graph.graph import Network
from tilewright.machine import load_machine
from tilewright.network.plan import Stage
from tilewright.network.results import NetworkRun, StageResult
from tilewright.ops import Gemm
from tilewright.ops.access import Access
from tilewright.ops.mapping import InMemory
from tilewright.report.view import CauseRow


def run_of(*milliseconds: float | None) -> NetworkRun:
    stages = tuple(
        StageResult(f"stage{i}", f"label {i}", "", None, own, nodes=(f"node{i}", f"bias{i}"))
        for i, own in enumerate(milliseconds)
    )
    return NetworkRun("net", "host", "f32", stages, 0.25, 0, 0, 0.0046, 2.5)


def test_a_measured_stage_has_its_part_of_all_that_was_measured():
    found = measured_stage(run_of(1.0, 3.0, None), "stage1")
    assert (found.stage, found.label, found.nodes) == ("stage1", "label 1", ("node1", "bias1"))
    assert (found.timed_by, found.milliseconds, found.share) == ("measured", 3.0, 0.75)
    assert found.moved_bytes == 0


def test_a_stage_that_was_not_measured_has_no_part():
    for run in (run_of(1.0, None), run_of(None, None)):
        found = measured_stage(run, "stage1")
        assert (found.timed_by, found.milliseconds, found.share) == ("model", 0.0, 0.0)


@pytest.mark.parametrize(
    ("name", "message", "fix"),
    [
        ("bias1", "there is no stage 'bias1': stage1 computes it", "--layer stage1"),
        (
            "stage1x",
            "there is no stage 'stage1x'",
            "did you mean stage1? the stages are stage0, stage1",
        ),
        ("else", "there is no stage 'else'", "the stages are stage0, stage1"),
    ],
)
def test_a_name_that_no_stage_has_is_refused(name, message, fix):
    with pytest.raises(GraphError) as caught:
        measured_stage(run_of(1.0, 1.0), name)
    assert (caught.value.message, caught.value.fix) == (message, fix)


def test_stages_are_named_after_operators_tensors_and_outputs():
    lenet = network("lenet5", 1)
    outputs = lenet.outputs * 2
    net = cast(Network, SimpleNamespace(nodes=lenet.nodes, tensors=lenet.tensors, outputs=outputs))
    node = net.nodes[0].name
    for name in (node, f"{node}_fill", "plain_layout", "output0", "output1"):
        require_nameable(net, name)
    for name in (f"{node}fill", "output2", "nothing"):
        with pytest.raises(GraphError) as caught:
            require_nameable(net, name)
        assert caught.value.message == f"there is no stage '{name}'"


ROWS = Access((2, 3), (((0, 1),), ((1, 1),)), (0, 0))
FIRST = Access((2,), (((0, 1),),), (0,))


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (InMemory((2, 3), ROWS, (), "1.0"), "y = 1.0 for 2x3 places"),
        (InMemory((2, 3), ROWS, (ROWS,), "exp(x0)"), "y = exp(x0) for 2x3 elements"),
        (
            InMemory((2, 3), FIRST, (ROWS,), "x0 * x0", "max"),
            "y = the largest of x0 * x0 over 3 elements, 2 times",
        ),
        (
            InMemory((2, 3), FIRST, (ROWS,), "x0", "sum", "x0 / 3.0"),
            "y = the sum of x0 over 3 elements, 2 times, and of that x0 / 3.0",
        ),
        (Gemm(1, 2, 3), Gemm(1, 2, 3).describe()),
    ],
)
def test_what_a_stage_computes_is_said_in_words(op, words):
    assert computed(cast(Stage, SimpleNamespace(op=op))) == words


def test_a_simulated_stage_has_its_cycles_and_what_comes_before_it(monkeypatch):
    machine = load_machine("sw26010")
    account = SimpleNamespace(causes=(CauseRow("compute", "", 700),), traffic=())
    monkeypatch.setattr(explanation, "simulated_account", lambda run: account)
    monkeypatch.setattr(explanation, "routines_of", lambda *_, simulated: ())
    monkeypatch.setattr(explanation, "computed", lambda stage: "text")
    monkeypatch.setattr(explanation, "_tensors", lambda *_: ())
    own = SimpleNamespace(
        name="pool", label="label", work="", nodes=("pool",), groups=1, division=None,
        candidate=SimpleNamespace(cycles=800.0, program=lambda machine: None),
    )  # fmt: skip
    plan = SimpleNamespace(
        name="net", machine=machine, dtype="f32", stages=(own,), groups=4,
        before=({"barrier": 100, "launch": 900},),
    )  # fmt: skip
    run = SimpleNamespace(plan=plan, runs=(None,), cycles=6800, cycles_of=lambda number: 1700)
    found = simulated_stage(run, "pool")
    assert found.milliseconds == 1e3 * 1700 / machine.clock_hz
    assert (found.share, found.cycles, found.estimate_cycles) == (0.25, 1700, 1800)
    assert [(row.kind, row.cycles) for row in found.causes] == [
        ("launch", 900), ("compute", 700), ("barrier", 100),
    ]  # fmt: skip
