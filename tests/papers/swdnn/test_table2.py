"""swDNN Table II: the fitted rule holds within what the machine file states."""

from tilewright.papers.lab import Lab
from tilewright.papers.swdnn import table2


def test_the_rule_holds_where_it_was_fitted():
    result = table2.run(Lab())
    assert len(result.rows) == 24
    assert result.rows[2].published == 17.25
    assert {row.kind for row in result.rows[1:12]} == {"fitted"}
    assert result.summary["get, fitted sizes, rows compared"] == 11
    assert result.summary["get, fitted sizes, mean absolute deviation %"] < 2.8
    assert result.summary["put, fitted sizes, worst absolute deviation %"] < 14


def test_a_small_put_is_said_not_to_be_fitted():
    rows = table2.run(Lab()).rows
    (row,) = [r for r in rows if r.note.startswith("a put this small reads")]
    assert (row.name, row.kind) == ("put of 32 bytes", "model")
    assert row.deviation > 0.5
    assert row.note == "a put this small reads, changes and writes a whole transaction"
    dips = [r.name for r in rows if "measured below the trend" in r.note]
    assert dips == ["get of 384 bytes", "put of 384 bytes"]


def test_a_users_rows_take_the_place_of_the_table(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(
        "# source: mine\nsize_bytes,get_gigabytes_per_second,put_gigabytes_per_second\n256,20,25\n"
    )
    result = table2.run(Lab(rows=path))
    assert [(row.published, row.kind) for row in result.rows] == [(20, "model"), (25, "model")]
    assert result.notes[0] == "published: mine"


def test_the_picture_has_published_and_model_lines():
    (axes,) = table2.draw(table2.run(Lab())).axes
    assert [line.get_label() for line in axes.lines] == [
        "get, published", "get, model", "put, published", "put, model",
    ]  # fmt: skip
    assert len(axes.lines[0].get_xdata()) == 12
