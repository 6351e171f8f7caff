"""Tables fit the terminal."""

import io
import itertools
import json
import re
import time

import pytest
from rich.console import Console
from rich.progress import Progress
from typer.testing import CliRunner

from tilewright.cli import output
from tilewright.cli.main import app
from tilewright.common.errors import BusyError
from tilewright.compiler import alone
from tilewright.machine import load_machine
from tilewright.report.figures import Shown
from tilewright.report.table import layer_table
from tilewright.report.view import LayerResult, NetworkResult
from tilewright.tune import native

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


def test_tables_show_schedules_from_140_columns_on(monkeypatch):
    for width in (139, 140):
        monkeypatch.setattr(output, "_console", lambda width=width: Console(width=width))
        shown_at = Shown(load_machine("sw26010"), output.OutputOptions().columns)
        assert shown_at.is_wide == (width == 140)


def test_a_table_has_all_its_figures_where_the_terminal_is_too_narrow(monkeypatch):
    lines = shown(monkeypatch, layer_table(RESULT, 1_450_000_000, schedules=False), 40)
    assert sum("240.123" in line and "1520.1" in line for line in lines) == 2


SMALL = ("compile", "gemm", "--m", "16", "--n", "16", "--k", "16", "--machine", "sw26010_cg")


def test_verbose_commands_say_what_they_do():
    quiet, told = (CliRunner().invoke(app, [*SMALL, *more]) for more in ((), ("-v",)))
    assert (quiet.exit_code, quiet.stderr, told.exit_code) == (0, "", 0)
    assert "info: gemm: gemm m16 n16 k16 by gemm" in told.stderr.splitlines()


@pytest.fixture
def busy(monkeypatch):
    """A computer that gives two threads no undisturbed sample."""

    def refuses(artifact, machine):
        raise BusyError("0 undisturbed samples of '0' on 2 threads", fix="wait")

    monkeypatch.setattr(alone, "measured_seconds", refuses)


@pytest.mark.usefixtures("busy")
def test_warnings_are_lines_on_standard_error():
    result = CliRunner().invoke(app, [*SMALL[:-1], "host_portable", "--threads", "2"])
    assert (result.exit_code, result.stderr) == (
        0,
        "warning: times are the model's, not measured: 0 undisturbed samples of '0' on 2 threads\n",
    )
    assert "total" in result.stdout
    assert "by the model" in result.stdout


@pytest.mark.usefixtures("busy")
def test_run_calls_no_time_measured_that_is_the_models():
    result = CliRunner().invoke(app, ["run", *SMALL[1:-1], "host_portable", "--threads", "2"])
    assert result.exit_code == 0
    figures = r"[\d.]+ us by the model, not measured; [\d.]+ Gflop/s, [\d.]+ % of peak"
    assert re.fullmatch(figures, result.stdout.splitlines()[-1])


def test_what_only_measures_can_rank_is_refused_on_a_busy_computer(monkeypatch):
    def refuses(contenders, protocol):
        raise BusyError(f"0 undisturbed samples of {contenders[0].name!r}", fix="wait")

    monkeypatch.setattr(native, "interleaved", refuses)
    tune = ["tune", *SMALL[1:-1], "host_portable", "--threads", "2", "--top", "2"]
    result = CliRunner().invoke(app, tune)
    assert (result.exit_code, result.stderr) == (
        1,
        "error: 0 undisturbed samples of 'candidate 1 of 1'\n"
        "  fix: measure while the computer is less busy; without --top the model chooses\n",
    )


def test_text_is_not_broken(monkeypatch):
    assert shown(monkeypatch, "word " * 40, 20) == ["word " * 40]


def test_the_bar_of_one_step_runs_until_its_end(monkeypatch):
    shown = []
    monkeypatch.setattr(Progress, "add_task", lambda self, stage, total: stage)
    monkeypatch.setattr(Progress, "update", lambda self, stage, **how: shown.append(how))
    monkeypatch.setenv("FORCE_COLOR", "1")
    with output.progress_bar(output.OutputOptions()) as progress:
        for stage, done, total in (("check", 0, 1), ("check", 1, 1), ("write", 0, 2)):
            progress(stage, done, total)
    assert shown == [
        {"completed": 0, "total": None},
        {"completed": 1, "total": 1},
        {"completed": 0, "total": 2},
    ]


def test_away_from_a_terminal_progress_is_a_line_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(output, "LINE_SECONDS", 0.001)
    told = ""
    with output.progress_bar(output.OutputOptions()) as progress:
        progress("choose", 3, 12)
        while not told:
            told = capsys.readouterr().err
        progress("check", 0, 1)
        while "check" not in told:
            told += capsys.readouterr().err
    told += capsys.readouterr().err
    assert re.fullmatch(r"(choose 3 of 12, \d+ s\n)+(check, \d+ s\n)+", told)
    with output.progress_bar(output.OutputOptions(json=True)) as progress:
        progress("choose", 3, 12)
        time.sleep(0.02)
    assert capsys.readouterr().err == ""


def test_the_clock_of_stages_counts_what_passes_between_calls(monkeypatch):
    """A stage that is not done owns the time up to the next call, one that is done does not."""
    now = iter([0.0, 100.0, 101.0, 104.0, 105.0, 111.0, 120.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(now))
    clock = output.StageClock()
    with clock.running():
        clock("rank", 0, 2)
        clock("rank", 2, 2)
        clock("emit", 0, 1)
        clock("write", 0, 1)
    assert clock.seconds == {"rank": 1.0 + 3.0, "emit": 1.0 + 6.0, "write": 9.0}


@pytest.mark.parametrize(
    ("machine", "others", "stages"),
    [
        ("sw26010_cg", ("--check",), {"choose", "lay out", "simulate", "check"}),
        ("host_portable", ("-o", "OUT"), {"run", "write"}),
        ("bwdsp-56", (), {"divide", "put messages on links"}),
    ],
)
def test_timings_of_a_whole_network_name_its_steps(tmp_path, machine, others, stages):
    options = [str(tmp_path / "out") if word == "OUT" else word for word in others]
    words = ["compile", "lenet5", "-m", machine, *options, "--timings"]
    lines = CliRunner().invoke(app, words).stdout.splitlines()
    named = [re.fullmatch(r"(\w.+?) +\d+\.\d{3} s", line) for line in reversed(lines)]
    last = itertools.takewhile(bool, named)
    assert {match[1] for match in last} >= stages


def test_timings_are_in_the_json_of_a_network():
    words = ["compile", "lenet5", "-m", "bwdsp-56", "--json"]
    found = json.loads(CliRunner().invoke(app, words).stdout)["timings"]
    assert found.keys() >= {"divide", "put messages on links"}
    assert all(seconds >= 0 for seconds in found.values())
