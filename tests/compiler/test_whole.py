"""Networks that run whole, on given inputs or random ones."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright.compiler import explanation
from tilewright.compiler.settings import Settings
from tilewright.compiler.whole import CompiledWhole
from tilewright.graph.weights import random_inputs
from tilewright.graph.zoo import network

NETWORK = replace(network("lenet5", 1), values={})
WEIGHTS = {"w": np.ones(3)}


def measured(net: Any, weights: Any, given: Any, *, compare: Any, **_: Any) -> Any:
    return {"given": given, "weights": weights, "compare": compare}, "outputs"


@pytest.fixture
def made() -> CompiledWhole:
    """A network on this computer whose run says what it was given."""
    plan = SimpleNamespace(weights=WEIGHTS, measured=measured, described=lambda seconds: "figures")
    workload, chain = SimpleNamespace(whole=NETWORK), SimpleNamespace(executes_here=True)
    return CompiledWhole(workload, chain, plan, Settings(), 0.1)


def test_a_network_runs_on_its_inputs_or_on_random_ones(made) -> None:
    given = {"images": np.zeros((1, 1, 28, 28))}
    assert made.measure(given)[0]["given"] is given
    drawn = made.measure()[0]["given"]
    expected = random_inputs(NETWORK)
    assert drawn.keys() == expected.keys()
    assert all(np.array_equal(drawn[name], values) for name, values in expected.items())


@pytest.mark.parametrize(
    ("check", "weights"), [(True, WEIGHTS), (False, {})], ids=["compared", "timed"]
)
def test_weights_are_kept_for_a_comparison(made, check, weights) -> None:
    found = made.judged(check=check, measure=True)
    assert (found["weights"], found["compare"]) == (weights, "reference" if check else None)


def test_what_is_neither_compared_nor_timed_is_not_run(made) -> None:
    assert made.judged(check=False, measure=False) == "figures"


def test_a_stage_is_explained_by_the_run_that_was_measured(made, monkeypatch) -> None:
    monkeypatch.setattr(CompiledWhole, "draw_weights", lambda made: None)
    monkeypatch.setattr(explanation, "measured_stage", lambda run, part: (run["compare"], part))
    assert made.explanation("pool1") == (None, "pool1")
