"""The tables, equations and claims of the BWDSP paper."""

import re
from functools import cache

import pytest

from tilewright.papers.bwdsp.plans import mobilenet1
from tilewright.papers.discovery import load_experiment
from tilewright.papers.lab import Lab


@cache
def run(name):
    return load_experiment(f"bwdsp/{name}").run(Lab(quick=True))


def test_one_rule_yields_all_rows_of_table_4():
    result = run("table4")
    assert len(result.rows) == 40
    assert {row.verdict for row in result.rows} == {"as printed", "slip", "fitted"}
    assert [row.name for row in result.rows if row.kind == "fitted"] == [
        "conv4_3 optimised: input columns",
        "conv4_3 optimised: output columns",
    ]
    assert (
        result.summary.items()
        >= {
            "rows of 10 by the formulas as printed": 3,
            "rows of 10 by the formulas corrected, without rounding to even": 9,
            "rows of 10 by the formulas with rounding to even": 10,
        }.items()
    )
    assert {note for note in result.notes if note.startswith(("conv4", "conv5"))} == {
        "conv4_3 general: 28 of 56 cores have rows",
        "conv5_3 general: 14 of 56 cores have rows",
        "conv4_3 optimised: the last tile of a row has 4 of 8 columns, which the table does not "
        "show",
        "conv5_3 optimised: 49 of 56 cores have a tile",
    }


def test_table_3_is_the_network_of_the_zoo():
    result = run("table3")
    assert (result.summary["as printed"], len(result.rows)) == (66, 66)


def test_corrected_equations_give_what_the_printed_ones_do_not():
    rows = {row.name: row for row in run("equations").rows}
    assert {row.verdict for row in rows.values()} == {"as printed", "slip", "fitted"}
    wrong = {name: (row.ours, row.note) for name, row in rows.items() if row.note}
    assert wrong["Eq. 1 SAME, conv1_1: O_H"] == (
        75,
        "slip: the stride in the place of the kernel gives 224",
    )
    assert wrong["Eq. 4, conv1_2: AVG_H"] == (
        226,
        "slip: a core's share of the output gives 6",
    )
    assert wrong["Eq. 5, conv4_3: AVG_W"] == (
        9,
        "fitted: that widths are rounded to even, which this row alone shows",
    )
    assert "Eq. 5, conv5_3: AVG_W" not in wrong
    assert [name for name, row in rows.items() if row.kind == "fitted"] == ["Eq. 5, conv4_3: AVG_W"]


def test_channels_and_padding_are_in_no_formula():
    assert run("table1").summary == {"parameters that no formula uses": "C, P"}


def test_work_falls_in_two_of_three_layers():
    ours = {row.name: row.ours for row in run("claims").rows}
    falls = [ours[f"conv{n}_3: the busiest core has less work"] for n in (3, 4, 5)]
    assert falls == [0, 1, 1]


def test_the_text_says_of_which_pools_nothing_moves():
    """Of all under the optimised strategy, of those behind 112 rows and more under the other."""
    rows = {r.name: r for r in run("claims").rows if ": moved into its pool, " in r.name}
    claimed = {row.name: row.published for row in rows.values()}
    assert len(claimed) == 10
    assert set(claimed.values()) == {0, None}
    assert [name.partition(":")[0] for name, value in claimed.items() if value is None] == [
        "conv3_3", "conv4_3", "conv5_3",
    ]  # fmt: skip


def test_figure_6_under_each_definition():
    result = run("figure6")
    ours = {row.name: row.ours for row in result.rows}
    assert ours["conv4_3, moved: input_rows"] == 774_144
    assert ours["conv4_3, moved: output_tiles"] == 538_624
    assert ours["conv4_3, moved with the pool: reduction"] == pytest.approx(1 - 0.46384, abs=1e-5)
    assert ours["conv5_1, moved: output_tiles"] > ours["conv5_1, moved: input_rows"]
    totals = [value for key, value in result.summary.items() if key.startswith("moved over")]
    assert totals[:2] == [11_648_000, 8_512_512]
    assert totals[2] < 4.4e6
    (axes,) = load_experiment("bwdsp/figure6").module.draw(result).axes
    names = [text.get_text() for text in axes.get_xticklabels()]
    assert (names[0], names[-1], len(names)) == ("conv1_1", "conv5_3", 13)


def test_each_definition_of_figure_6_is_explained_and_each_layer_has_its_ratio():
    result = run("figure6")
    ours = {row.name: row for row in result.rows}
    definitions = {
        row.name.rpartition(":")[0].partition(", ")[2]
        for row in result.rows
        if row.name.startswith("conv1_2,") and row.name.endswith(": best")
    }
    explained = {note.partition(":")[0] for note in result.notes}
    assert definitions == explained & definitions
    assert definitions == {
        "read", "halo", "moved", "moved, multicast", "moved with the pool", "moved with weights",
    }  # fmt: skip
    assert ours["conv4_3, moved: output_tiles"].note == "69.6 % of input_rows"
    once, each = (
        ours[f"conv5_3, {kind}: input_rows"].ours for kind in ("moved, multicast", "moved")
    )
    assert once < each


def test_the_best_plans_against_the_papers():
    below = {
        name.removesuffix(": below the paper's plan, %"): value
        for name, value in run("plans").summary.items()
    }
    assert below["vgg16, convolutions and pools, least activations, work 1x"] > 48
    assert below["vgg16, convolutions and pools, least everything, work 1x"] > 90
    assert below["vgg16, all layers, least everything, work 1x"] >= 79


def test_time_hangs_on_main_memory():
    ours = {row.name: row.ours for row in run("sensitivity").rows}
    assert (
        ours["as described: best [ms]".removesuffix(" [ms]")] < ours["as described: output_tiles"]
    )


def test_programs_take_a_little_more_than_the_peak():
    (row,) = (row for row in run("sensitivity").rows if row.name.endswith("computing"))
    peak, streamed = map(float, re.findall(r"[\d.]+(?= ms)", row.note))
    assert peak < row.ours < 1.05 * peak
    assert row.ours < streamed < 1.15 * peak


def test_mobilenet_multiplies_as_often_as_its_authors_count():
    """569 million times (Howard et al. 2017, Table 4), of which the classifier 1024 x 1000."""
    network = mobilenet1()
    products = sum(node.op.flops for node in network.nodes if node.op.kind == "conv2d") / 2
    assert products + 1024 * 1000 == 568740352
    (output,) = network.outputs
    assert network.tensors[output].shape == (1, 1024, 7, 7)
