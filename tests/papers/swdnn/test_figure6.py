"""swDNN Fig. 6: the printed cycles follow from the issue rule, and 16 is the minimum."""

import pytest

from tilewright.common.errors import CheckFailed
from tilewright.papers.lab import Lab
from tilewright.papers.swdnn import figure6
from tilewright.papers.swdnn.figure6 import LoopCase, checked_run


@pytest.fixture(scope="module")
def result():
    return figure6.run(Lab(quick=True))


def test_the_printed_cycles_are_met_exactly(result):
    compared = [row for row in result.rows if row.published is not None]
    assert len(compared) == 2 * (1 + 3 * 2)
    assert all(row.deviation == 0 for row in compared)
    by_name = {row.name: row.ours for row in result.rows}
    assert by_name["original, an iteration"] == 26
    assert by_name["reordered, an iteration"] == 17
    assert by_name["original, efficiency of 8 iterations"] == pytest.approx(61.5, abs=0.05)


@pytest.mark.parametrize("n", [2, 16, 48])
def test_the_proven_pipeline_takes_16_cycles_an_iteration_and_5_more(n):
    run = checked_run(LoopCase("optimal", n))
    assert (run.cycles, run.proven_minimum) == (16 * n + 5, True)


def test_a_loop_that_computes_something_else_is_no_result(monkeypatch):
    monkeypatch.setattr(figure6, "_SUMS", (*figure6._SUMS[1:], 1))
    with pytest.raises(CheckFailed) as caught:
        checked_run(LoopCase("original", 2))
    assert str(caught.value) == "the original loop computes another product than A B"


def test_the_picture(result):
    (axes,) = figure6.draw(result).axes
    assert [line.get_label() for line in axes.lines] == [
        "original", "reordered", "optimal", "published, original: 61.5 %",
    ]  # fmt: skip
