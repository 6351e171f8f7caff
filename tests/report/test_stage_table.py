"""Tables of stages keep to so many columns: what a stage does is cut, figures never."""

import io

import msgspec
from rich.console import Console

from tilewright.common.limits import PAGE as COLUMNS
from tilewright.network.results import NetworkRun, StageResult
from tilewright.report.network import network_table, plan_table
from tilewright.report.table import wrapped_line

CONV = StageResult(
    "res2a_branch2b", "conv2d 1x64x56x56 -> 64, 3x3 s1 p1 batch_norm relu", "implicit_rows", 0.267,
    0.25, 10.5, "product", 300, "compute", 4, "out_channels",
)  # fmt: skip
FILL = StageResult(
    "res2b_branch2a_relu_border_2", "fill 3712 with 0.0", "", 0.003,
    0.0625, None, "layout", 100, "dma bandwidth", 1,
)  # fmt: skip
RUN = NetworkRun(
    "net", "sw26010", "f64", (CONV, FILL), 0.25, 0, 0, 0.4, 2.5, groups=1, cycles=400
)  # fmt: skip
PAGE = """\
net on sw26010, f64, 2 stages

 stage                          work                           ms           ms  % of
   what                         algorithm      bound      (model)  (simulated)  time  core groups
 ──────────────────────────────────────────────────────────────────────────────────────────────────
 res2a_branch2b                 product        compute     0.2670       0.3000  75.0  4 by
   conv2d 1x64x56x56 -> 64,...  implicit_rows                                         out_channels
 res2b_branch2a_relu_border_2   layout         dma         0.0030       0.1000  25.0  1
   fill 3712 with 0.0                          bandwidth
"""
MEASURED = """\
net on sw26010, f64, 2 stages

 layer                                                               ms          ms           % of
   what                                          algorithm      (model)  (measured)  Gflop/s  time
 ──────────────────────────────────────────────────────────────────────────────────────────────────
 res2a_branch2b                                  implicit_rows   0.2670      0.2500     10.5  80.0
   conv2d 1x64x56x56 -> 64, 3x3 s1 p1 batch_...
 res2b_branch2a_relu_border_2                                    0.0030      0.0625           20.0
   fill 3712 with 0.0
"""


def shown(table, width):
    console = Console(file=io.StringIO(), width=width)
    console.print(table, soft_wrap=True, width=width)
    lines = console.file.getvalue().rstrip().splitlines()
    assert max(map(len, lines)) <= width
    return "".join(f"{line.rstrip()}\n" for line in lines)


def rows(width):
    """The lines of a table of simulated stages, with single spaces."""
    return [" ".join(line.split()) for line in shown(plan_table(RUN, width), width).splitlines()]


def test_a_stage_has_a_line_where_it_fits_and_what_it_does_is_cut():
    assert rows(200)[2:5:2] == [
        "stage what work algorithm bound ms (model) ms (simulated) % of time core groups",
        "res2a_branch2b conv2d 1x64x56x56 -> 64, 3x3 s1 p1 batch_norm... product implicit_rows "
        "compute 0.2670 0.3000 75.0 4 by out_channels",
    ]
    assert rows(151)[2:6:3] == [
        "ms ms % of",
        "res2a_branch2b conv2d 1x64x56x56 -> 64, 3x3... product implicit_rows "
        "compute 0.2670 0.3000 75.0 4 by out_channels",
    ]


def test_what_a_stage_does_goes_below_its_name_where_lines_are_short():
    assert shown(plan_table(RUN), 100) == PAGE
    for width in range(85, 200):
        words = {word for row in rows(width) for word in row.split()}
        assert words >= {"0.2670", "0.1000", "75.0", "implicit_rows", "out_channels"}, width


def test_a_table_of_measured_stages_keeps_to_a_page():
    text = shown(network_table(msgspec.structs.replace(RUN, cycles=None)), 100)
    assert text == MEASURED


def test_a_page_has_100_columns():
    fits = f"{'x' * 49} {'y' * 50}"
    assert len(fits) == COLUMNS
    assert wrapped_line(fits) == fits
    assert wrapped_line(f"{fits}y") == f"{'x' * 49}\n  {'y' * 51}"


def test_a_stage_of_two_groups_says_how_they_share_it():
    two = msgspec.structs.replace(CONV, groups=2, divided="rows")
    table = plan_table(msgspec.structs.replace(RUN, stages=(two,)), 200)
    assert "2 by rows" in shown(table, 200)
