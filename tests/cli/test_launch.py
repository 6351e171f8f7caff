"""Programs in an assembly language with a runtime: `simulate` and `pipeline` launch them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app

SOURCE = """
.code
@fc_fp y, x, w
@relu_fp z, y
.static_rw
@neuron x, 1, 1, 1, 4
@neuron y, 1, 1, 1, 2
@neuron z, 1, 1, 1, 2
.static_ro
@synapse w, 2, 1, 1, 4
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("p.dla").write_text(SOURCE)
    weights = np.array([[0.5] * 4, [-1.0] * 4]).reshape(2, 1, 1, 4)
    np.savez("x.npz", x=np.arange(4.0), w=weights)
    return tmp_path


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_a_source_runs_on_the_machine_of_its_language(folder: Path) -> None:
    code, text = invoke("simulate", "p.dla", "--input", "x.npz", "--output", "y.npz")
    assert code == 0, text
    assert "instructions on dla-al: " in text
    with np.load("y.npz") as outputs:
        assert set(outputs.files) == {"x", "y", "z"}
        assert outputs["y"].reshape(-1).tolist() == [3 * 256, -6 * 256]
        assert outputs["z"].reshape(-1).tolist() == [3 * 256, 0]


def test_an_object_runs_as_its_source(folder: Path) -> None:
    assert invoke("asm", "p.dla", "-o", "p.o")[0] == 0
    by_source = invoke("simulate", "p.dla", "--json", "--input", "x.npz")
    by_object = invoke("simulate", "p.o", "--machine", "dla-al", "--json", "--input", "x.npz")
    assert by_source == by_object
    report = json.loads(by_source[1])
    assert report["issue_cycles"] + sum(report["stalls"].values()) == report["cycles"]
    for unit in report["units"]:
        assert unit["busy_cycles"] + sum(unit["idle_cycles"].values()) == report["cycles"]


def test_the_timeline(folder: Path) -> None:
    code, text = invoke(
        "pipeline", "p.dla", "-m", "cambricon-acc", "--timeline", "2", "--trace", "t.json"
    )
    assert code == 0, text
    assert "   issue    start      end" in text
    assert "more operations" in text
    events = json.loads(Path("t.json").read_text())["traceEvents"]
    tracks = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert tracks == [f"{unit} (cycles)" for unit in ("TRANSFER", "MATRIX", "VECTOR", "stalls")]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"q": np.zeros(4)}, "error: the program declares no 'q'\n  fix: it declares x, y, z, w\n"),
        (
            {"x": np.zeros(5)},
            "error: x has the extents (1, 1, 1, 4), the array has the shape (5,)\n"
            "  fix: give an array of shape (1, 1, 1, 4)\n",
        ),
        (
            {"x": np.array([0, 1, 2, 40000])},
            "error: x: elements 0 .. 40000 do not fit 16 bits\n"
            "  fix: give real numbers, which are rounded and saturated\n",
        ),
    ],
)
def test_wrong_data(folder: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez("wrong.npz", **arrays)
    assert invoke("simulate", "p.dla", "--input", "wrong.npz") == (1, message)


def test_a_file_that_holds_no_arrays(folder: Path) -> None:
    code, text = invoke("simulate", "p.dla", "--input", "p.dla")
    assert code == 1
    assert text.startswith("error: p.dla: is no .npz file of arrays: ")
