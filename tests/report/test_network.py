"""The lines below the table of a whole network, whole."""

import msgspec
import pytest

from tilewright.network.results import Comparison, NetworkRun, StageResult
from tilewright.report.network import comparison_text, network_table, network_totals

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
