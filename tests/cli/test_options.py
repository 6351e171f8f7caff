"""Texts of options as values: what is given, what is left out, and what is refused."""

from __future__ import annotations

import json

import pytest

from tilewright.cli.options import overrides, shapes_of
from tilewright.cli.output import OutputOptions, UsageProblem, print_json
from tilewright.cli.workload import _objective, _require_alike, values_of
from tilewright.common.errors import CheckFailed
from tilewright.network.results import Comparison
from tilewright.partition.objective import ACTIVATIONS, TIME, TRAFFIC


@pytest.mark.parametrize("read", [overrides, shapes_of, values_of])
@pytest.mark.parametrize("settings", [None, []])
def test_an_option_that_is_left_out_sets_nothing(read, settings):
    assert read(settings) == {}


def test_settings_are_keys_and_values():
    assert overrides(["a.b=1", "c=x=y"]) == {"a.b": "1", "c": "x=y"}
    assert shapes_of(["x=1x3,2x3", "y=4"]) == {"x": [(1, 3), (2, 3)], "y": [(4,)]}
    assert values_of(["axes=0,1", "k=3", "on=true"]) == {"axes": [0, 1], "k": 3, "on": True}


@pytest.mark.parametrize("setting", ["=1", "a=", "a", "="])
def test_a_setting_without_key_or_value_is_refused(setting):
    for read, option in ((overrides, "--set"), (shapes_of, "--shape"), (values_of, "--bind")):
        with pytest.raises(UsageProblem, match=f"^{option} takes .*, found '{setting}'$"):
            read([setting])


@pytest.mark.parametrize("extents", ["1x3,bad", "bad,1x3", "0x3", "1x", "1x3,"])
def test_every_shape_is_of_positive_extents(extents):
    with pytest.raises(UsageProblem) as refused:
        shapes_of([f"x={extents}"])
    assert str(refused.value) == (
        f"--shape takes NAME=EXTENTS such as x=1x3x224x224, found 'x={extents}'"
    )


@pytest.mark.parametrize(
    ("text", "weights"),
    [(None, TRAFFIC), ("traffic", TRAFFIC), ("activations", ACTIVATIONS), ("time", TIME)],
)
def test_an_objective_has_a_name(text, weights):
    assert _objective(text) == weights


def test_an_objective_may_count_cycles():
    assert _objective("2.5").cycles == 2.5
    for text in ("speed", "", "0", "-1", "nan", "inf"):
        with pytest.raises(UsageProblem, match=f"counts, found '{text}'$"):
            _objective(text)


def test_outputs_beyond_the_bound_are_a_failure():
    for found in (None, Comparison("reference", "", 1e-7, 1e-6)):
        _require_alike(found, OutputOptions())
    for other, whose in (("reference", "those of the reference"), ("onnxruntime", "onnxruntime's")):
        with pytest.raises(CheckFailed, match=f"^outputs differ from {whose} by 1.00e-05 of the "):
            _require_alike(Comparison(other, "", 1e-5, 1e-6), OutputOptions())


def test_values_for_programs_are_indented_by_two(capsys):
    print_json({"a": [1], "b": {"c": "x"}})
    text = capsys.readouterr().out
    assert text == json.dumps({"a": [1], "b": {"c": "x"}}, indent=2) + "\n"
