"""What readers see: tables that fit the terminal."""

import io

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tilewright.cli import output
from tilewright.cli.main import app
from tilewright.common.errors import BusyError
from tilewright.compiler import pipeline
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


SMALL = ("compile", "gemm", "--m", "16", "--n", "16", "--k", "16", "--machine", "sw26010_cg")


def test_verbose_commands_say_what_they_do():
    quiet, told = (CliRunner().invoke(app, [*SMALL, *more]) for more in ((), ("-v",)))
    assert (quiet.exit_code, quiet.stderr, told.exit_code) == (0, "", 0)
    assert "info: gemm: gemm m16 n16 k16 by gemm" in told.stderr.splitlines()


def test_warnings_are_lines_on_standard_error(monkeypatch):
    def busy(artifact, machine):
        raise BusyError("0 undisturbed samples of '0' on 2 threads", fix="wait")

    monkeypatch.setattr(pipeline, "measured_seconds", busy)
    result = CliRunner().invoke(app, [*SMALL[:-1], "host_portable", "--threads", "2"])
    assert (result.exit_code, result.stderr) == (
        0,
        "warning: times are the model's, not measured: 0 undisturbed samples of '0' on 2 threads\n",
    )
    assert "total" in result.stdout
    assert "by the model" in result.stdout


def test_text_is_not_broken(monkeypatch):
    assert shown(monkeypatch, "word " * 40, 20) == ["word " * 40]


def test_the_bar_of_one_step_runs_until_its_end(monkeypatch):
    shown = []
    monkeypatch.setattr(output.Progress, "add_task", lambda self, stage, total: stage)
    monkeypatch.setattr(output.Progress, "update", lambda self, stage, **how: shown.append(how))
    monkeypatch.setenv("FORCE_COLOR", "1")
    with output.progress_bar(output.OutputOptions()) as progress:
        for stage, done, total in (("check", 0, 1), ("check", 1, 1), ("write", 0, 2)):
            progress(stage, done, total)
    assert shown == [
        {"completed": 0, "total": None},
        {"completed": 1, "total": 1},
        {"completed": 0, "total": 2},
    ]
