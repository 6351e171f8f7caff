"""What readers see: tables that fit the terminal."""

import io

import pytest
from rich.console import Console

from tilewright.cli import output
from tilewright.report.table import layer_table
from tilewright.report.view import LayerResult, NetworkResult

LAYER = LayerResult(
    name="conv1_2",
    op="conv2d",
    shape="conv2d 8x16x8x8 -> 16, 3x3 s1 p1",
    algorithm="winograd2",
    partition="rows and columns",
    schedule="",
    candidates=1,
    estimate_cycles=1_450_000,
    simulated_cycles=2_900_000,
    milliseconds=240.123,
    gflops=1520.1,
    peak_fraction=0.25,
    bound="scratchpad bandwidth",
    lower_bound_cycles=725_000,
    check="within bound",
)
RESULT = NetworkResult(
    machine="toy",
    batch=8,
    dtype="f64",
    layers=(LAYER, LAYER),
    tuning_seconds=1.25,
    candidates_total=1,
    total_milliseconds=480.0,
    candidates_fitting_total=1,
    candidates_priced_total=1,
)


def shown(monkeypatch, renderable, width):
    out = io.StringIO()
    monkeypatch.setattr(output, "_console", lambda: Console(file=out, width=width))
    output.OutputOptions().show(renderable)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [92, *range(96, 125), 200])
def test_no_line_of_a_table_is_longer_than_the_terminal(monkeypatch, width):
    table = layer_table(RESULT, 1_450_000_000, schedules=False)
    lines = shown(monkeypatch, table, width)
    assert max(map(len, lines)) <= width
    assert [line for line in lines[2:-2] if not line.strip()] == []
    assert sum("conv1_2" in line and "1520.1" in line for line in lines) == 2


def test_a_table_has_all_its_figures_where_the_terminal_is_too_narrow(monkeypatch):
    lines = shown(monkeypatch, layer_table(RESULT, 1_450_000_000, schedules=False), 40)
    assert sum("240.123" in line and "1520.1" in line for line in lines) == 2


def test_text_is_not_broken(monkeypatch):
    assert shown(monkeypatch, "word " * 40, 20) == ["word " * 40]
