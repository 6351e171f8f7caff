"""The simulator against measured kernels: the stated errors hold, and any file of rows is taken."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tilewright.common.errors import CapacityError
from tilewright.machine import load_machine
from tilewright.papers.lab import Lab
from tilewright.papers.model import ExperimentError, Result, compare
from tilewright.papers.swdnn import measured
from tilewright.papers.swdnn.measured import MeasuredRow, rank_correlation, simulate_row

HEAD = "batch,in_channels,out_channels,stride,output,gflops\n"


def test_simulated_speeds_are_near_the_measured_ones() -> None:
    """A sample of the rows; the bounds are those that all rows keep to."""
    result = measured.measured(Lab(quick=True))
    assert len(result.rows) == 16
    assert result.summary["all, mean absolute deviation %"] < 4
    assert result.summary["all, worst absolute deviation %"] < 12
    assert result.summary["rank correlation"] > 0.95
    held_out, fitted = (result.summary[f"{k}, rows compared"] for k in ("held out", "fitted"))
    assert held_out + fitted == 16
    assert [row.kind for row in result.rows].count("fitted") == fitted > 0


def test_rows_that_were_fitted_are_drawn_apart() -> None:
    rows = (
        compare("a", 10.0, 11.0, "fitted"),
        compare("b", 20.0, 21.0, "simulated"),
        compare("c", None, 3.0, "simulated"),
    )
    (axes,) = measured.draw_measured(Result("swdnn", "measured", "t", rows, {})).axes
    drawn = {each.get_label(): each.get_offsets().tolist() for each in axes.collections}
    assert drawn == {"fitted": [[10, 11]], "held out": [[20, 21]]}


def test_a_users_rows_take_the_place_of_the_published_ones(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text(HEAD + "256,128,128,6,16,1500\n")
    result = measured.measured(Lab(rows=rows))
    (row,) = result.rows
    assert (row.published, row.note, row.kind) == (1500, "", "simulated")
    assert result.notes[0] == "published: rows.csv"
    assert list(result.summary) == [
        "all, rows compared",
        "all, mean absolute deviation %",
        "all, worst absolute deviation %",
    ], "there is nothing to rank, and nothing was fitted"


def test_a_users_row_is_never_one_of_those_fitted(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("B,Ni,No,stride,Ro,Gflop/s\n128,128,128,17,16,1329\n128,128,32,4,8,300\n")
    result = measured.measured(Lab(rows=rows))
    assert [row.kind for row in result.rows] == ["simulated", "simulated"]
    assert result.summary["rank correlation"] in (1, -1)
    assert not any(key.startswith(("fitted", "held out")) for key in result.summary)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "128,0,128,6,16,1500",
            "in_channels: expected a multiple of 8, which the mesh divides, found 0",
        ),
        (
            "128,100,128,6,16,1500",
            "in_channels: expected a multiple of 8, which the mesh divides, found 100",
        ),
        (
            "100,128,128,6,16,1500",
            "batch: expected a multiple of 128, which the register blocks of a mesh take, "
            "found 100",
        ),
        (
            "128,128,-32,6,16,1500",
            "out_channels: expected a multiple of 32, which the register blocks of a mesh take, "
            "found -32",
        ),
        (
            "128,128,128,6,18,1500",
            "output: expected a multiple of 4, which the core groups divide, found 18",
        ),
        (
            "128,128,128,0,16,1500",
            "stride: expected a number of 1 to 22, the columns that fit the cores' memory beside "
            "inputs and filters, found 0",
        ),
        (
            "128,384,512,1,16,1500",
            "stride: expected fewer channels or images: inputs and filters leave no room for a "
            "column, found 1",
        ),
        ("128,128,128,6,16,-5", "gflops: expected a measured speed above 0, found -5"),
        ("128,128,128,6,16,nan", "gflops: expected a measured speed above 0, found nan"),
    ],
)
def test_a_users_row_that_cannot_be_is_refused_with_its_line_and_column(
    tmp_path: Path, row: str, message: str
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text(f"{HEAD}256,128,128,6,16,1500\n\n{row}\n")
    with pytest.raises(ExperimentError) as caught:
        measured.measured(Lab(rows=rows))
    assert str(caught.value) == f"{rows}:4: {message}"


def test_the_most_columns_of_a_row_fit() -> None:
    machine = load_machine(measured.MACHINE)
    assert simulate_row(MeasuredRow(128, 128, 128, 22, 16, 1.0), machine).cycles > 0
    with pytest.raises(CapacityError):
        simulate_row(MeasuredRow(128, 128, 128, 23, 16, 1.0), machine)


def test_rows_that_four_groups_do_not_divide_are_refused() -> None:
    row = MeasuredRow(128, 128, 128, 17, 18, 1.0)
    with pytest.raises(ExperimentError) as caught:
        simulate_row(row, load_machine("sw26010"))
    assert str(caught.value) == (
        "B 128, Ni 128, No 128, S 17, 18 x 18: 18 rows of results are not divided by 4 core groups"
    )


def test_rank_correlation() -> None:
    def of(ours: list[float]) -> float | None:
        pairs = zip([1.0, 2.0, 3.0, 4.0], ours, strict=True)
        return rank_correlation([compare("", p, o, "simulated") for p, o in pairs])

    assert of([1, 20, 30, 400]) == 1
    assert of([4, 3, 2, 1]) == -1
    assert of([1, 2, 4, 3]) == 0.8
    assert of([1, 1, 2, 2]) == pytest.approx(0.894)


def test_the_kept_results_list_what_is_simulated() -> None:
    """Every measured value of the kept table, and the simulated one of a sample."""
    kept = Path(__file__).parents[3] / "docs" / "results" / "sw26010" / "measured.csv"
    lines = [x for x in kept.read_text(encoding="utf-8").splitlines() if not x.startswith("#")]
    listed = {}
    for line in csv.DictReader(lines):
        extents = (int(line[c]) for c in ("in_channels", "out_channels", "columns_kept", "output"))
        row = MeasuredRow(128, *extents, float(line["measured_gflops"]))
        listed[row.name] = (row, float(line["simulated_gflops"]))
    table = Lab().published("swdnn", "measured", MeasuredRow)
    assert [row for row, _ in listed.values()] == list(table.rows)
    for row in measured.measured(Lab(quick=True)).rows:
        assert row.ours == pytest.approx(listed[row.name][1], abs=0.051)
