"""Tuned against manual: the same operators by both, the counts of the paper's cases."""

from __future__ import annotations

import pytest

from tilewright.ops import conv2d, gemm
from tilewright.papers.lab import Lab
from tilewright.papers.swatop import table2
from tilewright.papers.swatop.against import Pair, library_products, manual_schedule, pairs
from tilewright.papers.swatop.counts import Counted, count_rows
from tilewright.papers.swatop.figure6 import winograd_layers
from tilewright.papers.swatop.layers import layers
from tilewright.papers.swatop.schedules import Outcome, Setting, Task
from tilewright.seeds.space import seeds_for

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


def test_a_seed_around_library_products_has_one_schedule_for_them() -> None:
    (seed,) = seeds_for(CONV, "winograd2")
    changed = library_products(seed)
    assert changed is library_products(seed)
    (product,) = (s for s in changed.spaces if s.nest.primitive == "gemm")
    assert len(list(product.combinations())) == 2  # the vectors run along either dimension
    others = [s for s in changed.spaces if s.nest.primitive != "gemm"]
    assert others == [s for s in seed.spaces if s.nest.primitive != "gemm"]
    assert manual_schedule(Task(CONV, "winograd2", ON)).cycles > 0


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


def test_table_2_in_a_quick_run() -> None:
    result = table2.run(Lab(quick=True))
    assert [row.published for row in result.rows[:4]] == [250, 93, 31.6, -6.6]
    assert result.summary["unaligned: least speedup"] > 0.9
