"""swDNN Table III and Fig. 2: equations from programs, and the paper's arithmetic on itself."""

import pytest

from tilewright.papers.lab import Lab
from tilewright.papers.swdnn import figure2, table3


@pytest.fixture(scope="module")
def result():
    return table3.run(Lab())


def rows_of(result, what):
    return [row for row in result.rows if row.name.endswith(f": {what}")]


def test_required_bandwidth_follows_equations_1_and_2(result):
    img, narrow, batch, wide = rows_of(result, "RBW")
    assert [img.published, narrow.published] == [29.0, 23.2]
    assert img.ours == pytest.approx(29.0, abs=0.05)
    assert narrow.ours == pytest.approx(23.2, abs=0.05)
    assert batch.note.startswith("Eq. 2 gives 27.07; a block of ")
    assert wide.note.startswith("Eq. 2 gives 25.78; a block of ")


def test_the_papers_formula_does_not_give_its_own_model_column(result):
    rows = rows_of(result, "mdl, its own formula on its own numbers")
    assert [round(row.ours, 1) for row in rows] == [392.7, 423.8, 424.5, 468.6]
    assert [row.published for row in rows] == [368, 397, 422, 407]
    assert rows[0].note == "(21.9 / 29.0)^2 x 742.4 x 0.9275 = 392.7"
    implied = [round(row.published, 3) for row in rows_of(result, "EE")]
    assert implied == [0.869, 0.869, 0.929, 0.806]


def test_no_simulated_run_beats_the_plain_roofline(result):
    bounds = rows_of(result, "meas, plain roofline")
    for bound, run in zip(bounds, rows_of(result, "meas, as printed"), strict=True):
        assert (bound.kind, run.kind) == ("model", "simulated")
        assert run.ours <= bound.ours


def test_promoting_a_transfer_and_the_public_product(result):
    printed, promoted, public = (
        {row.name.split(": ")[0]: row.ours for row in rows_of(result, what)}
        for what in ("meas, as printed", "meas, promoted", "meas, promoted, public product")
    )
    assert set(promoted) == set(public) >= {"batch Ni 256 No 256", "batch Ni 128 No 384"}
    assert all(promoted[line] > printed[line] for line in promoted)
    assert all(public[line] < promoted[line] for line in promoted)


def test_the_public_product_is_near_what_was_measured(result):
    """Nothing was fitted to this table."""
    near = rows_of(result, "meas, as printed, public product")[:3]
    near += rows_of(result, "meas, promoted, public product")[1:]
    assert all(abs(row.deviation) < 0.17 for row in near)


def test_the_picture_has_the_measured_and_the_model_columns(result):
    (axes,) = table3.draw(result).axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[:2] == ["mdl, published", "mdl, its own formula on its own numbers (exact)"]
    assert "meas, published" in labels
    assert len(axes.get_xticklabels()) == 4


def test_figure_2():
    rows = {row.name: row for row in figure2.run(Lab()).rows}
    assert rows["direct required"].ours == pytest.approx(139.2)
    assert rows["registers required"].ours == pytest.approx(23.2)
    assert rows["registers available"].ours == pytest.approx(46.4)
    assert rows["direct utilization"].ours == pytest.approx(0.330, abs=5e-4)
    assert rows["direct utilization"].note == "(8 / 139.2)^2 = 0.330 %"
