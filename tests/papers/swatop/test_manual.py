"""Tuned against manual: the same operators by both, the counts of the paper's cases."""

from __future__ import annotations

import pytest

from tilewright.ir.primitives import MatrixProduct
from tilewright.ops import conv2d, gemm
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings
from tilewright.papers.swatop import layers as of_layers
from tilewright.papers.swatop.layers import (
    Claim,
    _claim,
    _mean_of,
    layers,
    winograd_bound_cycles,
    winograd_layers,
)
from tilewright.papers.swatop.manual import (
    Counted,
    Pair,
    alike,
    count_rows,
    library_calls,
    manual_schedules,
    pairs,
    plans_with_our_product,
)
from tilewright.papers.swatop.schedules import Outcome, Setting, TuningTask, best_schedules
from tilewright.papers.swatop.tables import against_library
from tilewright.seeds.space import parameters, seeds_for

ON = Setting("sw26010")
CONV = conv2d(batch=128, in_channels=64, out_channels=64, height=16, width=16, kernel=3, padding=1)


def test_the_layers_are_those_that_the_text_counts() -> None:
    """9 + 20 + 14 distinct convolutions; without first layers 40."""
    found = layers(32)
    by_network = [
        sum(name.startswith(n) for name in found) for n in ("vgg16", "resnet50", "yolov2")
    ]
    assert by_network == [9, 20, 14]
    assert len(layers(32, first=False)) == 40
    assert {op.kernel for op in winograd_layers(1).values()} == {(3, 3)}


@pytest.mark.parametrize("algorithm", ["implicit", "explicit", "winograd2"])
def test_a_tuned_convolution_is_not_slower_than_the_manual_one(algorithm: str) -> None:
    (pair,) = pairs(Lab(), {"conv": CONV}, algorithm, ON)
    assert pair.speedup is not None
    assert pair.speedup > 0.99
    assert pair.manual.partition


def test_no_plan_of_swdnn_is_faster_with_the_same_product() -> None:
    """A layer for which images in vectors of four are as good a storage."""
    op = conv2d(batch=32, in_channels=256, out_channels=128, height=8, width=52, kernel=1)
    (pair,) = alike(Lab(), {"conv": op}, "implicit", Setting())
    assert pair.speedup is not None
    assert pair.speedup >= 1.0
    (rows_of_pixels,) = best_schedules([TuningTask(op, "implicit")])
    assert pair.tuned.cycles <= rows_of_pixels.cycles


def test_one_image_has_no_plan_of_swdnn() -> None:
    op = conv2d(batch=1, in_channels=64, out_channels=64, height=16, width=16, kernel=3, padding=1)
    (pair,) = pairs(Lab(), {"conv": op}, "implicit", ON)
    assert (pair.speedup, pair.tuned.refusal) == (None, "")
    assert pair.manual.refusal == f"swDNN has no plan for {op.describe()}"


def test_the_library_runs_large_squares_as_well_as_the_tuner_and_others_worse() -> None:
    square, thin = gemm(4096, 4096, 4096), gemm(200, 8000, 500)
    found = pairs(Lab(), {"square": square, "thin": thin}, "gemm", ON)
    assert [pair.name for pair in found] == ["square", "thin"]
    assert found[0].speedup == pytest.approx(1, abs=0.05)
    assert found[1].speedup > 1.2


@pytest.mark.parametrize(
    ("algorithm", "count"), [("winograd2", 16), ("winograd4", 36), ("explicit", 1)]
)
def test_every_product_is_a_call_of_the_library(algorithm: str, count: int) -> None:
    """By rows, or transposed where the result lies by columns; the same multiply-adds each time."""
    (seed,) = seeds_for(CONV, algorithm)
    (product,) = (s.nest for s in seed.spaces if isinstance(s.nest.primitive, MatrixProduct))
    found = set()
    for joint in seed.layout_combinations():
        orders = {x.tensor: x.dims for x in joint}
        calls = library_calls(product, orders, parameters(CONV), frozenset("w"))
        assert calls.count == count
        assert {calls.op.m, calls.op.n} >= {64}
        found.add((calls.op, calls.shared))
    assert len(found) == 4  # channels or pixels innermost, and weights either way
    assert len({op.flops for op, _ in found}) == 1
    if algorithm == "explicit":  # whose weights are an operand; Winograd's are transformed first
        assert {shared for _, shared in found} == {frozenset("a"), frozenset("b")}


def test_the_causes_of_a_version_with_calls_sum_to_its_cycles() -> None:
    (outcome,) = manual_schedules([TuningTask(CONV, "winograd2", ON)])
    assert sum(outcome.causes.values()) == outcome.cycles > 0


def test_no_tuned_winograd_undercuts_the_bound() -> None:
    machine = ON.load()
    found = best_schedules([TuningTask(CONV, name, ON) for name in ("winograd2", "winograd4")])
    assert 0 < winograd_bound_cycles(CONV, machine) < min(outcome.cycles for outcome in found)


def test_with_our_product_the_plans_of_swdnn_are_faster() -> None:
    tasks = [TuningTask(CONV, "implicit", ON)]
    (ours,), (theirs,) = plans_with_our_product(tasks), manual_schedules(tasks)
    assert ours.cycles < theirs.cycles


def test_counts_and_gains() -> None:
    """Two faster by 50 % and 100 %, one slower by 20 %, one that has no manual version."""
    outcome = lambda cycles: Outcome(cycles=cycles, causes={"compute useful": cycles})  # noqa: E731
    manual = [outcome(150), outcome(200), outcome(80), Outcome(refusal="none")]
    found = [Pair("", CONV, outcome(100), other) for other in manual]
    printed = Counted(faster=3, slower=1, faster_percent=75.0, slower_percent=-10.0)
    rows = list(count_rows("line", printed, found, total=4))
    assert [row.ours for row in rows] == [3, 1, 75, pytest.approx(-20)]
    assert rows[0].note == "1 have no manual version"
    assert rows[3].note == "tuned: compute useful 100 %; manual: compute useful 100 %"
    some = list(count_rows("line", printed, found, total=40))
    assert [row.ours for row in some] == [30, 10, 75, pytest.approx(-20)]
    assert some[2].note == "of 4 of 40 cases"
    assert some[0].note == (
        "1 have no manual version; of 4 cases, scaled to 40; "
        "tuned: compute useful 100 %; manual: compute useful 100 %"
    )


def test_the_notes_say_which_product_is_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    product = "this project's matrix product, 16.6 cycles per k on sw26010_measured"

    def nothing(*_: object, notes: tuple[str, ...], **__: object) -> Findings:
        return Findings((), notes=notes)

    monkeypatch.setattr(of_layers, "speedup_result", nothing)
    monkeypatch.setattr(of_layers, "_winograd_bound", lambda *_: ())
    whole, quick = of_layers.figure5(Lab()).notes, of_layers.figure5(Lab(quick=True)).notes
    explicit, winograd = of_layers.run(Lab()).notes, of_layers.figure6(Lab()).notes
    assert whole[0] == (
        f"the tuned schedules run with {product}; swDNN's plans with that of the public kernels, "
        "which takes 19 and a taken branch"
    )
    assert quick == whole[:1]
    assert "within a tenth" in whole[1]
    assert explicit[0] == winograd[0] == f"both versions with {product}"


def test_claims_on_some_layers_are_scaled_and_say_so() -> None:
    outcome = lambda cycles: Outcome(cycles=cycles, causes={"compute useful": cycles})  # noqa: E731
    found = [Pair("", CONV, outcome(100), outcome(n)) for n in (150, 200, 80, 170)]
    reason = "tuned: compute useful 100 %; manual: compute useful 100 %"
    won = _claim(Claim(128, "cases faster", 32), found, 43)
    assert (won.name, won.ours) == ("batch 128: cases faster", 32.25)
    assert won.note == "of 4 cases, scaled to 43"
    mean = _claim(Claim(128, "mean speedup", 1.3), found, 43)
    assert (mean.ours, mean.note) == (1.5, f"of 4 of 43 cases; {reason}")
    assert _claim(Claim(128, "cases faster", 3), found, 4).note == ""
    (alike,) = _mean_of("alike", found, 43)
    assert alike.note == "least 0.800, 1 of 4 below 0.98; of 4 of 43 cases"


def test_table_2_in_a_quick_run() -> None:
    result = against_library(Lab(quick=True))
    assert [row.published for row in result.rows[:4]] == [250, 93, 31.6, -6.6]
    assert result.summary["unaligned: least speedup"] > 0.9
