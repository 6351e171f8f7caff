"""The table at the end of a compilation, and schedules in one line."""

import io
import re

import msgspec
from rich.console import Console

from tilewright.machine import load_machine
from tilewright.report.figures import figures_text
from tilewright.report.table import layer_table, main_schedule, short_schedule, total_lines
from tilewright.report.view import LayerResult, NetworkResult, RunResult

SCHEDULE = """\
algorithm winograd2
nest input
split(channel, channel_tile)
factors(channel_tile=64, x_copies=2)
nest product
reorder(point, in_channel, tile, out_channel)
vectorize(m)
factors(in_channel_tile=32, out_channel_tile=128, tile_granule=8, tile_tile=16, u_copies=1)
"""
LAYER = LayerResult(
    name="conv1",
    op="conv2d",
    shape="conv2d 8x16x8x8 -> 16, 3x3 s1 p1",
    algorithm="winograd2",
    partition="rows",
    schedule=SCHEDULE,
    candidates=1234,
    estimate_cycles=1_450_000,
    simulated_cycles=2_900_000,
    milliseconds=2.0,
    gflops=250.0,
    peak_fraction=0.25,
    bound="dma latency",
    lower_bound_cycles=725_000,
)
RESULT = NetworkResult(
    machine="toy",
    batch=8,
    dtype="f64",
    layers=(LAYER, LAYER),
    tuning_seconds=1.25,
    candidates_total=1234,
    total_milliseconds=4.0,
    candidates_fitting_total=500,
    candidates_priced_total=200,
)


LEGEND = (
    "simulated: statements, transfers and queues one by one, a call and a transfer at the model's "
    "price; left out: arranging operands and results around the layers"
)


def lines_of(result, **options):
    out = io.StringIO()
    Console(file=out, width=300).print(layer_table(result, 1_450_000_000, **options))
    return [re.sub(r"\s\s+", " | ", line.strip()) for line in out.getvalue().splitlines()]


def test_one_line_per_layer_with_the_source_of_each_number():
    heading = (
        "layer | algorithm | divided over | schedule | ms (model) | ms (simulated) | Gflop/s | "
        "% of peak | bound by"
    )
    row = (
        "conv1 | winograd2 | rows | in_channel 32 tile 16 out_channel 128 vec m (+1) | 1.000 | "
        "2.000 | 250.0 | 25.0 | dma latency"
    )
    shown = lines_of(RESULT)
    assert shown[0] == "2 layers on toy, batch 8, f64"
    assert shown[2] == heading
    assert shown[4:6] == [row, row]


def test_a_column_for_checks_only_where_something_was_checked():
    checked = msgspec.structs.replace(LAYER, check="exact")
    result = msgspec.structs.replace(RESULT, layers=(checked, LAYER))
    shown = lines_of(result)
    assert shown[2].endswith("bound by | check")
    assert [line.rpartition(" | ")[2] for line in shown[4:6]] == ["exact", "not run"]


def test_narrow_tables_leave_the_schedules_out():
    shown = lines_of(RESULT, schedules=False)
    assert shown[4] == "conv1 | winograd2 | rows | 1.000 | 2.000 | 250.0 | 25.0 | dma latency"


def test_totals_are_weighted_by_time():
    assert total_lines(RESULT, 1e12) == (
        "total 4.000 ms simulated on toy, 250.0 Gflop/s, 25.0 % of peak; "
        f"1234 candidates considered, 500 fit, 200 priced in 1.2 s\n{LEGEND}"
    )


def test_totals_say_what_the_fitted_machine_takes():
    ideal = msgspec.structs.replace(RESULT, fitted_machine="real", fitted_milliseconds=5.0)
    lines = total_lines(ideal, 1e12).splitlines()
    assert lines[0].startswith("total 4.000 ms simulated on toy (ideal), 250.0 Gflop/s")
    assert lines[1:] == [
        "real, whose constants were fitted to measured kernels, takes 5.000 ms for these schedules "
        "(+25.0 %)",
        LEGEND,
    ]
    fitted = msgspec.structs.replace(RESULT, fitted_machine="toy")
    lines = total_lines(fitted, 1e12).splitlines()
    assert lines[0].startswith("total 4.000 ms simulated on toy (fitted), 250.0 Gflop/s")
    assert lines[1:] == [LEGEND]


def test_totals_say_how_refills_are_priced_where_that_is_not_as_usual():
    unpriced = msgspec.structs.replace(RESULT, refill_note="refills are not priced")
    assert total_lines(unpriced, 1e12).splitlines()[1:] == ["refills are not priced", LEGEND]


def test_totals_say_how_a_rate_can_be_beyond_the_peak():
    fast = msgspec.structs.replace(LAYER, peak_fraction=1.5)
    lines = total_lines(msgspec.structs.replace(RESULT, layers=(fast, LAYER)), 1e12).splitlines()
    assert lines[1:] == [
        LEGEND,
        "Gflop/s counts the operations of the definition; Winograd's algorithm computes fewer, so "
        "it can exceed 100 % of peak",
    ]
    direct = msgspec.structs.replace(fast, name="c3", algorithm="direct", timed_by="measured")
    lines = total_lines(msgspec.structs.replace(RESULT, layers=(direct, direct)), 1e12).splitlines()
    assert lines[1:] == [
        "c3, c3 beyond 100 % of peak: this computer is faster than toy is described; `tilewright "
        "calibrate` measures it"
    ]
    for changes in ({"algorithm": "direct"}, {"algorithm": "winograd2", "timed_by": "measured"}):
        layer = msgspec.structs.replace(fast, **changes)
        text = total_lines(msgspec.structs.replace(RESULT, layers=(layer,)), 1e12)
        assert "this computer is faster" not in text


def test_short_schedules_list_tiles_in_the_order_of_the_loops():
    assert short_schedule(SCHEDULE) == (
        "channel 64 2x x | in_channel 32 tile 16 out_channel 128 vec m"
    )
    assert main_schedule(SCHEDULE) == "in_channel 32 tile 16 out_channel 128 vec m (+1)"
    maps = "".join(f"\nnest {name}\nfactors({name}_tile=8)" for name in ("rows", "cols"))
    assert main_schedule(f"algorithm sum{maps}") == "rows 8 (+1)"


def test_the_share_of_a_machine_says_whose_it_is_where_one_of_its_nodes_computes():
    one = msgspec.structs.replace(RESULT, layers=(LAYER,), total_milliseconds=2.0)
    assert ", 25.0 % of peak; " in total_lines(one, 1e12)
    assert ", 0.2 % of the whole machine's peak; " in total_lines(one, 128e12)
    assert ", 0.2 % of peak; " in total_lines(RESULT, 128e12)


def test_an_operator_that_was_run_says_where_its_result_was_written():
    layer = msgspec.structs.replace(LAYER, timed_by="measured", expected_error=1e-15)
    run = RunResult(layer, "toy", "exact", "y[b].npz", 0.0)
    head, result, _ = figures_text(run, load_machine("sw26010")).splitlines()
    assert head == "conv1: conv2d 8x16x8x8 -> 16, 3x3 s1 p1, winograd2 on toy"
    said = "result: exact, error 0.0e+00 of the largest value, 1.0e-15 expected"
    assert result == f"{said}, written to y[b].npz"
    nowhere = msgspec.structs.replace(run, output=None)
    assert f"\n{said}\n" in figures_text(nowhere, load_machine("sw26010"))


def test_a_narrow_table_breaks_no_name_of_an_algorithm():
    layer = msgspec.structs.replace(
        LAYER, name="conv4_1", algorithm="winograd2_fused", partition="batch x out_channels"
    )
    out = io.StringIO()
    result = msgspec.structs.replace(RESULT, layers=(layer,))
    Console(file=out, width=80).print(layer_table(result, 1_450_000_000, schedules=False))
    assert "winograd2_fused" in out.getvalue()
