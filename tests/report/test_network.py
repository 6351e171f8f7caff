"""The lines below the table of a whole network, whole."""

import msgspec
import pytest

from tilewright.codegen.artifact import RoutineCycles
from tilewright.network.explain import NetworkExplanation, StageTime
from tilewright.network.results import Comparison, NetworkRun, StageResult
from tilewright.report.network import comparison_text, network_table, network_totals
from tilewright.report.network_explain import network_explanation_text

STAGE = StageResult("fc", "gemm m1 n2 k3", "prepacked", 0.0025, 0.00375, 1.5)
RUN = NetworkRun("net", "host", "f32", (STAGE,), 0.25, 4_000_000, 500_000, 0.0046, 2.5)
TIMED = Comparison("onnxruntime", "1.31", 2e-7, 1e-4, "m.onnx", 0.5, 2.25, 0.125)
APART = "against onnxruntime 1.31 on m.onnx: largest difference 2.00e-07 of the largest magnitude, "


def test_short_times_are_told_in_microseconds():
    assert network_totals(RUN) == (
        "total 4.600 us measured, 2.5 Gflop/s; products 3.750 us of it, 2.500 us by the model\n"
        "compiled in 0.25 s; 4.0 MB of constants, 0.5 MB of arena"
    )


def test_few_bytes_and_cut_labels_are_told():
    few = msgspec.structs.replace(RUN, arena_bytes=6_144)
    assert network_totals(few).endswith("; 4.0 MB of constants, 0.0061 MB of arena")
    long = msgspec.structs.replace(
        STAGE, label="conv2d 1x64x56x56 -> 64, 3x3 s1 p1 batch_norm relu"
    )
    cells = network_table(msgspec.structs.replace(RUN, stages=(long,))).columns[1].cells
    assert list(cells) == ["conv2d 1x64x56x56 -> 64, 3x3 s1 p1 batch_norm..."]


@pytest.mark.parametrize(
    ("speedup", "spread", "expected"),
    [
        (2.25, 0.125, "; 0.500 ms, ours is 2.25 times as fast (spread 12.5 %)"),
        (2.25, float("nan"), "; 0.500 ms, ours is 2.25 times as fast"),
        (float("nan"), float("nan"), "; 0.500 ms"),
        (None, None, ""),
    ],
)
def test_what_few_rounds_do_not_say_is_left_out(speedup, spread, expected):
    other = msgspec.structs.replace(TIMED, speedup=speedup, spread=spread)
    assert comparison_text(other) == f"{APART}within 0.0001{expected}"


SIMULATED = msgspec.structs.replace(
    RUN, cycles=1000, groups=1, work={"product": 1000}, causes={"compute": 1000}
)
STAGES = (
    StageTime(
        "conv",
        ("conv",),
        900,
        {"compute": 600, "primitive": 300},
        (
            RoutineCycles("tw_fill_f64", "1 row of 4 vectors", 38, 38, 2),
            RoutineCycles("tw_fill_f64", "2 rows of 1 vector", 92, 92, 1),
            RoutineCycles(
                "gemm_f64_n_column_row_8x16x4_8_16_4", "8 x 16 x 4 per core", 100, 101, 4
            ),
        ),
    ),
    StageTime(
        "a_stage_with_a_name_that_is_too_long",
        ("b",),
        100,
        {"primitive": 100},
        (RoutineCycles("map exp(x0)", "compiled C, assumed: 8 elements", 80, None, 1),),
    ),
)
EXPLAINED = """\
the 2 slowest of 2 stages, and what takes their time:
  conv                                  90.0 %: compute 67 %, primitive 33 %
  a_stage_with_a_name_that_is_too_long  10.0 %: primitive 100 %

their routines: calls of a core, and the cycles of all of them
  stage                                                routine  shapes  calls  priced  simulated
  conv                                             tw_fill_f64       2      3     168        168
                            gemm_f64_n_column_row_8x16x4_8_...       1      4     400        404
  a_stage_with_a_name_t...                         map exp(x0)       1      1      80

no stage changes a layout

total 4.600 us simulated, 1000 cycles of a core group, 2.5 Gflop/s; 0.0 % of it outside the products
by work: product 100.0 %
by cause: compute 100.0 %
planned in 0.25 s; 4.0 MB of constants, 0.5 MB of arena in each group
lower bounds: 500 cycles to compute the products at the peak, 250 to move inputs, weights and \
outputs once; the plan takes 2.00 times the larger
layouts: the plan takes 990 cycles by the model, of which the products take at least 900, each in \
the layouts that suit it best"""


def test_a_network_is_explained_with_the_routines_of_its_stages():
    found = NetworkExplanation(SIMULATED, STAGES, (), 500, 250, 990, 900)
    assert network_explanation_text(found) == EXPLAINED
    plain = tuple(msgspec.structs.replace(stage, routines=()) for stage in STAGES)
    text = network_explanation_text(msgspec.structs.replace(found, stages=plain))
    assert "routines" not in text
