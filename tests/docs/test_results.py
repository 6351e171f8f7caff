"""Tables of results: what a benchmark writes is what the page reads, and every fact is there."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from shared.results import Results, parse_results, results_text, this_command, write_results

from support.models import MODELS

FOLDER = Path(__file__).parents[2] / "docs" / "results"
TABLES = sorted(FOLDER.rglob("*.csv"))
TWO_NUMBERS = re.compile(r"[\d.]+ [\d.]+")
KEPT = Results(
    title="Whole networks",
    kind="measured",
    command="python benchmarks/host_networks.py",
    processor="a processor",
    conditions=" ".join(["batch 1, f32,"] * 20),
    columns=("network", "time_milliseconds"),
    rows=(("lenet5, small", "0.11"),),
    meanings={"network": "of the zoo"},
)


def test_the_text_of_results_parses_back():
    assert parse_results(results_text(KEPT)) == KEPT
    assert max(map(len, results_text(KEPT).splitlines())) <= 100


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_a_kept_table_is_as_a_benchmark_would_write_it(path):
    text = path.read_text(encoding="utf-8")
    results = parse_results(text)
    assert results_text(results) == text
    assert not [row for row in results.rows if any(map(TWO_NUMBERS.fullmatch, row))]


def test_a_benchmark_writes_its_rows_its_command_and_the_processor(tmp_path, monkeypatch):
    path = tmp_path / "r.csv"
    monkeypatch.setattr(sys, "argv", ["benchmarks/b.py", "vgg16", "--csv", str(path), "--quick"])
    facts = {"title": "t", "kind": "measured", "conditions": "batch 1"}
    write_results(path, [{"network": "vgg16", "milliseconds": 1 / 3, "note": None}], **facts)
    written = parse_results(path.read_text(encoding="utf-8"))
    assert written.command == "python benchmarks/b.py vgg16 --quick"
    assert written.processor
    assert (written.columns, written.rows) == (
        ("network", "milliseconds", "note"),
        (("vgg16", "0.3333", ""),),
    )


def test_without_a_file_nothing_is_written():
    write_results(None, [])


def test_the_command_leaves_out_where_the_results_go(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks/b.py", "--csv=r.csv", "--threads", "2"])
    assert this_command() == "python benchmarks/b.py --threads 2"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": ""}, "results without title"),
        ({"kind": "guessed"}, "'guessed' is no kind of number: take measured, simulated, model,"
         " exact"),
        ({"processor": ""}, "measured results without processor"),
        ({"meanings": {"speed": "s"}}, "there is no column 'speed'"),
        ({"rows": (("a",),)}, "row 1 has 1 cells of 2"),
    ],
)  # fmt: skip
def test_results_that_say_too_little_are_refused(change, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        replace(KEPT, **change)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# kind: measured\n", "", "results without kind"),
        ("# kind", "# load", "'load' is no fact of results: take title, kind, command, processor,"
         " machine, conditions"),
    ],
)  # fmt: skip
def test_a_file_that_says_too_little_is_refused(old, new, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        parse_results(results_text(KEPT).replace(old, new))


def test_the_table_of_model_files_has_each_of_them_once():
    table = parse_results((TABLES[0].parent / "models.csv").read_text(encoding="utf-8"))
    assert [row[0] for row in table.rows] == list(MODELS)
    assert {row[0]: row[1] for row in table.rows} == {m.name: m.source for m in MODELS.values()}
