"""`tilewright reproduce` as a user types it."""

import csv
import json
import re

import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app
from tilewright.papers.discovery import titles


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["reproduce", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def test_without_a_name_the_experiments_are_listed():
    found = json.loads(run("--json").stdout)
    assert {e["name"]: e["title"] for e in found["experiments"]} == titles()
    listed = run().stdout
    assert all(name in listed for name in titles())


def test_one_experiment_prints_its_table_and_writes_its_files(tmp_path):
    text = run("swdnn/table2", "--jobs", 1, "-o", tmp_path).stdout
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
    assert lines[0] == "swdnn/table2: DMA bandwidth of one core group by block size"
    assert "get of 128 bytes 17.25 17.51 +1.5 % fitted fitted" in lines
    files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert files == [
        "records.sqlite",
        *(f"swdnn/table2.{suffix}" for suffix in ("csv", "json", "png", "svg")),
    ]
    with (tmp_path / "swdnn/table2.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "name", "published", "ours", "deviation", "kind", "note", "unit", "verdict",
    ]  # fmt: skip
    assert rows[0]["published"] == "4.31"


def test_the_json_of_one_is_the_value_that_is_written(tmp_path):
    printed = run("swdnn/table2", "--jobs", 1, "-o", tmp_path, "--json").stdout
    assert json.loads(printed) == json.loads((tmp_path / "swdnn/table2.json").read_text())
    assert set(json.loads(printed)) == {
        "paper", "experiment", "title", "rows", "summary", "notes",
    }  # fmt: skip


def refusal(*arguments, code):
    error = json.loads(run(*arguments, "--json", code=code).stdout)["error"]
    return error["code"], error["message"], error["fix"]


def test_an_unknown_experiment_lists_the_known_ones():
    assert refusal("swdnn/table99", code=1) == (
        "experiment",
        "there is no experiment 'swdnn/table99'",
        f"the experiments are {', '.join(titles())}",
    )


def test_options_that_do_not_go_together(tmp_path):
    assert refusal("swdnn/table2", "--all", code=2)[:2] == (
        "usage",
        "swdnn/table2 is one experiment: leave --all, or name its paper alone",
    )
    for several in (("--all",), ("swdnn",), ("swdnn", "--all")):
        assert refusal(*several, "--rows", tmp_path / "x.csv", code=2)[:2] == (
            "usage",
            "--rows takes the place of one table: name one experiment",
        )
    assert refusal("swdnn/table2", "--option", "seconds", code=2)[:2] == (
        "usage",
        "--option takes KEY=VALUE, found 'seconds'",
    )


@pytest.mark.parametrize(
    ("experiment", "name"),
    [
        ("cns1/table5_1", "cns1/table5_1"),
        ("swdnn/table2", "swdnn/table2"),
        ("cns1", "cns1/all_nodes"),
    ],
)
def test_options_that_an_experiment_does_not_read_are_refused(experiment, name):
    assert refusal(experiment, "--option", "foo=bar", code=2)[:2] == (
        "usage",
        f"{name} takes no --option, found foo",
    )
