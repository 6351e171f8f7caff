"""swATOP Table 3: the arithmetic of the printed table, counts and the extrapolation."""

import pytest

from tilewright.graph.zoo import network
from tilewright.ops import Conv2d
from tilewright.papers.lab import Lab
from tilewright.papers.published import read_published
from tilewright.papers.swatop import table3
from tilewright.papers.swatop.schedules import Setting
from tilewright.papers.swatop.table3 import NetworkCase, PrintedNetwork, Tuned, _rows, tune

PRINTED = read_published("swatop", "table3", PrintedNetwork).rows


def test_the_printed_table_contradicts_itself_as_the_notes_say():
    speed_ups = [row.black_box_seconds / row.model_seconds for row in PRINTED]
    assert speed_ups == pytest.approx([452.0, 353.2, 365.3], abs=0.05)
    averages = [row.candidates / row.layers for row in PRINTED]
    assert averages == pytest.approx([452.0, 353.2, 365.1], abs=0.05)
    each = [row.black_box_seconds / row.candidates for row in PRINTED]
    assert each == pytest.approx([42.3, 42.3, 42.4], abs=0.06)
    assert sum(row.layers for row in PRINTED) == 43


@pytest.mark.parametrize("row", PRINTED, ids=lambda row: row.network)
def test_the_networks_have_as_many_distinct_convolutions_as_the_paper_counts(row):
    ops = {op for _, op in network(row.network, 128).layers() if isinstance(op, Conv2d)}
    assert len(ops) == row.layers


def test_tuning_a_network():
    tuned = tune(NetworkCase("lenet5", Setting(), sample=2))
    assert tuned.layers == 3
    assert tuned.sampled == 6 <= tuned.priced < tuned.candidates
    assert tuned.model_seconds == tuned.ranking_seconds + tuned.emitting_seconds > 0
    assert tuned.simulating_seconds > 0


def test_rows_say_what_is_extrapolated():
    ours = Tuned(9, 9000, 900, 0.5, 0.5, 90, 45.0)
    rows = {row.name: row for row in _rows(PRINTED[0], ours)}
    assert rows["vgg16, candidates a layer"].ours == 1000
    assert rows["vgg16, by the model"].ours == 1.0
    black_box = rows["vgg16, black box, extrapolated"]
    assert (black_box.ours, black_box.published) == (45.0, 172200)
    assert black_box.note.startswith(
        "extrapolated from 90 of 900 priced candidates, simulated in 50 ms"
    )
    assert rows["vgg16, black box / model"].ours == 45


def test_the_quick_form():
    result = table3.run(Lab(quick=True))
    assert result.rows[0].name == "vgg16, distinct layers"
    assert result.rows[0].deviation == 0
