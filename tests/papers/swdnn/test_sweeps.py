"""swDNN Figs. 7 and 9: the configurations of Fig. 8, and what four ways make of some of them."""

import pytest

from tilewright.machine import load_machine
from tilewright.papers.lab import Lab, ResultRecords
from tilewright.papers.model import WORTH_EXPLAINING, Result
from tilewright.papers.swdnn.fixed_plans import layer, swdnn_plan
from tilewright.papers.swdnn.sweep import (
    KERNELS,
    LARGE,
    MACHINES,
    PEAK_GFLOPS,
    SMALL,
    SweepConfiguration,
    sweep_figure,
    sweep_result,
)

LAYERS = [SweepConfiguration(64, 64), SweepConfiguration(128, 128, 5)]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of both figures for one set of layers."""
    with ResultRecords(tmp_path_factory.mktemp("sweeps") / "records") as records:
        lab = Lab(records=records)
        return {
            figure: sweep_result(lab, figure, LAYERS, 2, "two of them")
            for figure in ("figure7", "figure9")
        }


@pytest.fixture
def result(results):
    return results["figure7"]


def test_the_scripts_with_their_ends_included_give_21_and_81_and_30_configurations():
    assert len(SMALL) == 21
    assert len(LARGE) == 81
    assert len(KERNELS) == 30


def test_every_layer_has_a_simulated_row_for_each_way(result):
    rows = [row for row in result.rows if row.published is None]
    assert [row.name for row in rows] == [
        f"{name}: {way}" for name in ("Ni 64 No 64", "Ni 128 No 128 K 5") for way in MACHINES
    ]
    assert all(row.kind == "simulated" and 0 < row.ours < PEAK_GFLOPS for row in rows)
    assert all(row.note for row in rows)


def test_the_claims_of_the_text_are_compared_with_medians(result):
    claims = [row for row in result.rows if row.published is not None]
    assert len(claims) == 2 * len(MACHINES) + 2
    assert [row.ours for row in claims[-2:]] == [None, None]
    assert claims[0].published == 1600
    assert not any("configurations" in row.note for row in claims)


def test_the_notes_name_the_machine_of_each_way(result):
    free = "where taken branches and changes of roles cost nothing"
    assert result.notes[2:6] == (
        f"swDNN's plans, public product: on sw26010, {free}",
        "swDNN's plans, public product, measured costs: on sw26010_measured, with the costs that "
        "measured kernels show",
        f"swDNN's plans, our product: on sw26010, {free}",
        f"tuned, our product: on sw26010, {free}",
    )


def test_a_quick_run_says_of_how_many_its_medians_are():
    found = sweep_result(Lab(quick=True), "figure9", KERNELS, 1, "one of them")
    claims = [row for row in found.rows if "median of" in row.name]
    assert len(claims) == 2 * len(MACHINES)
    assert all(row.note.startswith("of 1 of 30 configurations") for row in claims)


@pytest.mark.parametrize("figure", ["figure7", "figure9"])
def test_what_is_far_off_has_a_reason(results, figure):
    rows = results[figure].rows
    far = [row for row in rows if row.deviation and abs(row.deviation) > WORTH_EXPLAINING]
    assert [row.note != "" for row in far] == [True] * len(far) != []


def test_tuning_does_not_lose_against_the_fixed_plans(result):
    found = {row.name: row.ours for row in result.rows}
    for layer_ in LAYERS:
        tuned = found[f"{layer_.name}: tuned, our product"]
        assert tuned >= found[f"{layer_.name}: swDNN's plans, our product"]


def test_the_public_product_is_slower_than_ours(result):
    found = {row.name: row.ours for row in result.rows}
    for layer_ in LAYERS:
        public = found[f"{layer_.name}: swDNN's plans, public product"]
        assert public < found[f"{layer_.name}: swDNN's plans, our product"]


def test_the_picture_marks_the_claim(result):
    (axes,) = sweep_figure(Result("swdnn", "figure7", "some layers", result.rows, {})).axes
    assert [line.get_label() for line in axes.lines] == [
        *MACHINES, "published: most above 1600",
    ]  # fmt: skip


def test_the_rule_takes_whole_channels_both_buffers_twice_and_the_largest_block():
    op = layer(batch=128, channels=(128, 128), rows=16, cols=64, kernel=3)
    machine = load_machine("sw26010_cg")
    candidate = swdnn_plan(op, "img", machine, promoted=False)
    factors = candidate.nests[0].factors
    assert (factors["in_channel_tile"], factors["out_channel_tile"]) == (128, 128)
    assert (factors["x_copies"], factors["w_copies"]) == (2, 2)
    given = {"out_col_tile": factors["out_col_tile"] // 2}
    smaller = swdnn_plan(op, "img", machine, promoted=False, tiles=given)
    assert smaller.nests[0].factors["out_col_tile"] == given["out_col_tile"]
    assert swdnn_plan(op, "img", machine, promoted=False, tiles={"out_col_tile": 5}) is None
