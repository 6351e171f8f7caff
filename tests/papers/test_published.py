"""Tables of published numbers: what is read, and what is refused, with the place."""

from pathlib import Path

import pytest
from msgspec import Struct

import tilewright.papers
from tilewright.papers.model import ExperimentError
from tilewright.papers.published import parse_published, read_published, read_user_table

SHIPPED = sorted(Path(tilewright.papers.__file__).parent.glob("*/published/*.csv"))


class Line(Struct, frozen=True):
    name: str
    gflops: float
    rows: int | None = None


def refusal(text):
    with pytest.raises(ExperimentError) as caught:
        parse_published(text, Line, "t.csv")
    return str(caught.value)


def test_typed_rows_and_their_source():
    table = parse_published(
        '# source: a paper,\n# its table\nname,gflops,rows\n"a, b",1.5,3\n\nc,2,\n', Line, "t.csv"
    )
    assert table.source == "a paper, its table"
    assert table.rows == (Line("a, b", 1.5, 3), Line("c", 2.0))


def test_an_optional_column_may_be_left_out():
    assert parse_published("# source: x\nname,gflops\na,1\n", Line, "t.csv").rows == (
        Line("a", 1.0),
    )


@pytest.mark.parametrize(
    "text", ["", "name,gflops\na,1\n", "# a table\nname,gflops\n", "# source:"]
)
def test_no_source(text):
    assert refusal(text) == (
        "t.csv: does not say where its numbers come from; "
        "begin the file with a line `# source: ...`"
    )


def test_no_columns():
    assert refusal("# source: x\n") == "t.csv: has no line of column names"


@pytest.mark.parametrize("columns", ["name", "name,gflops,speed", "name,gflops,gflops"])
def test_other_columns(columns):
    assert refusal(f"# source: x\n{columns}\n") == (
        f"t.csv: has the columns {columns.replace(',', ', ')}; give the columns name, gflops, rows"
    )


class Layer(Struct, frozen=True):
    batch: int
    in_channels: int
    out_channels: int
    output: int
    gflops: float


@pytest.mark.parametrize(
    "heading", ["B,Ni,No,Ro,Gflop/s", "Batch size,Cin,Cout,Output size,GFLOPS", "b,ci,co,ro,gflops"]
)
def test_names_of_columns_that_papers_and_logs_use(heading):
    table = parse_published(f"# source: x\n{heading}\n128,64,32,16,1200\n", Layer, "t.csv")
    assert table.rows == (Layer(128, 64, 32, 16, 1200.0),)


def test_a_cell_too_many():
    assert refusal("# source: x\nname,gflops\na,1\nb,2,3\n") == (
        "t.csv:4: has 3 cells where there are 2 columns"
    )


def test_a_cell_of_another_type():
    assert refusal("# source: x\nname,gflops\na,fast\n") == (
        "t.csv:3: Expected `float`, got `str` - at `$.gflops`"
    )


def test_an_empty_cell_that_is_needed():
    assert refusal("# source: x\nname,gflops\na,\n") == (
        "t.csv:3: Object missing required field `gflops`"
    )


def test_a_table_that_is_not_there():
    with pytest.raises(ExperimentError) as caught:
        read_published("swdnn", "table99", Line)
    assert str(caught.value) == (
        "swdnn/published/table99.csv: there is no such table of published numbers"
    )


def test_a_users_file(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("# source: my machine\nname,gflops\na,1\n")
    assert read_user_table(path, Line).source == "my machine"
    path.write_bytes(b"# source: \xff\n")
    with pytest.raises(ExperimentError) as caught:
        read_user_table(path, Line)
    assert caught.value.where == str(path)
    assert caught.value.message.startswith("is not UTF-8 text: ")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parts[-3]}/{path.stem}")
def test_every_shipped_table_names_its_source_and_is_as_wide_as_its_head(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# source: ")
    rows = [line for line in lines if line and not line.startswith("#")]
    assert len(rows) > 1
