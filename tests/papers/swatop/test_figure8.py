"""swATOP Fig. 8: which cases a sentence is about, what the worst cases say, the quick form."""

import pytest

from tilewright.papers.lab import Lab
from tilewright.papers.swatop import figure8
from tilewright.papers.swatop.figure8 import PrintedSentence, _statistic
from tilewright.papers.swatop.listings import listing1
from tilewright.papers.swatop.schedules import Outcome


@pytest.fixture(scope="module")
def result():
    patch = pytest.MonkeyPatch()
    patch.setattr(figure8, "QUICK", 1)
    yield figure8.run(Lab(quick=True))
    patch.undo()


def outcome(efficiency):
    return Outcome(cycles=10, efficiency=efficiency, causes={"wait bandwidth": 6, "primitive": 4})


def test_a_sentence_is_about_its_batches():
    found = {op: outcome({1: 0.2, 32: 0.6, 128: 0.8}[op.batch]) for op in listing1()}
    mean = _statistic(
        PrintedSentence("winograd2", "32+128", "mean", 0.64, "60%"), found, "all", 150
    )
    assert (mean.ours, mean.deviation) == pytest.approx((0.7, 0.7 / 0.64 - 1))
    assert mean.name == "winograd2, batch 32, 128, mean (all)"
    assert mean.note == "printed: 60%"
    best = _statistic(
        PrintedSentence("winograd2", "1+32+128", "best", 1.2, "near 120%"), found, "all", 225
    )
    assert best.ours == 0.8
    assert "our time: wait bandwidth 60 %, primitive 40 %" in best.note


def test_cases_that_do_not_fit_are_left_out_of_the_mean_and_counted():
    first, second = listing1()[:2]
    found = {first: outcome(0.5), second: Outcome(refusal="too large")}
    row = _statistic(PrintedSentence("explicit", "1", "mean", 0.5, "half"), found, "two", 2)
    assert (row.ours, row.note) == (0.5, "printed: half; 1 cases exceed main memory")


def test_a_sentence_on_some_of_its_cases_says_of_how_many():
    found = {op: outcome(0.5) for op in listing1()[:2]}
    row = _statistic(PrintedSentence("explicit", "1", "mean", 0.5, "half"), found, "two", 75)
    assert row.note == "printed: half; of 2 of 75 cases"


def test_the_notes_say_which_product_is_priced_on_which_machine(result):
    product = "all algorithms with this project's matrix product"
    assert [note for note in result.notes if note.startswith(product)] == [
        f"{product}, 16.6 cycles per k on sw26010_measured",
        f"{product}, 16.0 cycles per k on sw26010",
    ]


def test_the_quick_form(result):
    statistics = [row for row in result.rows if row.published is not None]
    assert len(statistics) == 2 * 2 * 6
    cases = [row for row in result.rows if "conv2d" in row.name]
    assert [row.name.split()[0] for row in cases] == list(figure8.ALGORITHMS)
    assert all("bound by" in row.note and "engine busy" in row.note for row in cases)
    assert all(0 < row.ours < 2.25 for row in cases)
    compared = [row for row in statistics if row.deviation is not None]
    assert all("our time" in row.note for row in compared if abs(row.deviation) > 0.1)


def test_the_picture(result):
    (axes,) = figure8.draw(result).axes
    assert [line.get_label() for line in axes.lines] == [*figure8.ALGORITHMS, "peak"]
