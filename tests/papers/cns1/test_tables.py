"""Every printed number of the report has a row that says what became of it."""

import csv
import re
import tomllib
from collections import Counter
from importlib import resources
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from support.readings import judged as judged_table
from support.readings import verdicts_of_moved_numbers
from tilewright.machine import load_machine
from tilewright.papers import lab
from tilewright.papers.cns1 import design, plans, printed, quantities, tables
from tilewright.papers.cns1.all_nodes import closed_form, simulate_step
from tilewright.papers.cns1.cases import CASES, MODEL, TableCell
from tilewright.papers.cns1.printed import (
    Stated,
    cell_named,
    formula_value,
    printed_numbers,
    reproduced,
)
from tilewright.papers.discovery import load_experiment, titles
from tilewright.papers.lab import Lab
from tilewright.papers.model import ExperimentError, Result, Verdict, compare
from tilewright.papers.published import parse_published, read_published
from tilewright.papers.readings import verdicts
from tilewright.report.reproduction import verdict_counts, verdict_text

COUNTS = {
    "table2_1": (5, 0, 0, 0, 9),
    "table2_2": (0, 0, 0, 0, 24),
    "table3_1": (30, 0, 0, 0, 30),
    "chapter2": (6, 1, 0, 0, 2),
    "chapter3": (1, 0, 0, 1, 7),
    "chapter4": (9, 0, 0, 0, 0),
    "chapter4_formulas": (61, 0, 0, 8, 12),
    "chapter4_text": (34, 0, 0, 2, 2),
    "chapter5": (6, 5, 0, 14, 1),
    "chapter6": (18, 0, 0, 0, 5),
    "chapter6_formulas": (52, 1, 0, 1, 9),
    "chapter7": (24, 6, 5, 19, 1),
    "chapter8": (5, 2, 0, 7, 0),
    "code_sizes": (21, 1, 0, 14, 0),
    "figure2_1": (0, 0, 0, 0, 6),
    "figure3_2": (1, 0, 0, 1, 0),
    "figure4_1": (4, 0, 0, 0, 0),
    "figure6_1": (0, 0, 0, 0, 3),
    "figure6_2": (0, 0, 0, 0, 1),
    "table4_5": (12, 0, 0, 0, 0),
    "table4_6": (16, 0, 0, 0, 0),
    "table4_7": (4, 0, 0, 0, 0),
    "table5_1": (13, 0, 1, 0, 0),
    "table5_2": (10, 0, 0, 0, 0),
    "table5_3": (6, 0, 10, 0, 4),
    "table5_4": (1, 0, 4, 5, 0),
    "table5_5": (11, 0, 0, 12, 2),
    "table7_1": (3, 0, 0, 17, 2),
    "table7_2": (9, 0, 5, 0, 0),
    "table7_3": (5, 0, 0, 5, 0),
    "table7_4": (11, 0, 0, 5, 2),
    "table7_5": (23, 0, 0, 4, 0),
    "table7_6": (10, 0, 0, 5, 0),
    "table7_7": (16, 0, 0, 4, 0),
    "table7_8": (14, 0, 5, 1, 0),
}
"""Numbers of each table: as printed, within a printed limit, slips, off, fitted."""

TOTAL = [441, 16, 30, 125, 122]

OWN = {
    "all_nodes",
    "conventions",
    "design",
    "digits",
    "listings",
    "node_steps",
    "plans",
    "simulated",
}
"""Tables that the report does not have."""


def test_no_table_is_left_out():
    found = {name.removeprefix("cns1/") for name in titles() if name.startswith("cns1/")}
    assert found == OWN | set(COUNTS)


def test_nodes_that_share_are_told_by_the_first_group_of_them(monkeypatch):
    groups = {"inputs and outputs": [(0, 4), (1, 2, 3)], "hidden vectors": [(0, 3, 6), (1, 2)]}
    monkeypatch.setattr(plans, "_groups", lambda: groups)
    found = plans.figure3_2(Lab(quick=True))
    assert [row.ours for row in found.rows] == [2, 3]
    assert "inputs are shared by columns 0, 4 and" in " ".join(found.notes)


@pytest.fixture(scope="module", name="judged")
def _judged():
    """For each table its (printed numbers, ours, readings), and its result."""
    return {name: judged_table(f"cns1/{name}") for name in COUNTS}


def test_every_printed_number_is_judged(judged):
    """The numbers of `docs/explanation/reproduced.md`."""
    found = {
        name: tuple(int(result.summary[verdict]) for verdict in get_args(Verdict))
        for name, (_, result) in judged.items()
    }
    assert found == COUNTS
    assert [sum(column) for column in zip(*COUNTS.values(), strict=True)] == TOTAL


def test_the_list_of_the_reports_numbers_names_rows_and_keys_that_exist():
    """Each line names a table of `reproduce`, all of whose numbers it counts, or a key of the
    machine file with its value; none is left open.
    """
    package = resources.files("tilewright")
    with package.joinpath("papers/cns1/numbers.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    machine = package.joinpath("targets/cns1/machines/cns1-128.toml").read_text(encoding="utf-8")
    listings = {path.name for path in package.joinpath("papers/cns1/listings").iterdir()}
    counted, totals = {}, Counter()
    for line in lines:
        kind, where, numbers = line["kind"], line["where"], int(line["numbers"])
        totals[kind] += numbers if kind != "program" else 1
        if where.startswith("cns1/"):
            assert (where, kind) not in counted
            counted[where, kind] = numbers
        elif kind == "input":
            value = tomllib.loads(machine)
            for part in where.split("."):
                value = value[part]
            assert (numbers, value) == (1, float(line["value"])), line
        else:
            assert kind == "program"
            assert where in {"", *listings}
            assert line["what"]
    expected = {
        (f"cns1/{name}", kind): numbers
        for name, (*judged, fitted) in COUNTS.items()
        for kind, numbers in (("row", sum(judged)), ("input", fitted))
        if numbers
    }
    assert counted == expected
    assert totals == {"row": 612, "input": 146, "program": 9}
    root = Path(__file__).parents[3]
    page = root / "docs/explanation/reproduced.md"
    shown = f"[{TOTAL[0]} of its {sum(TOTAL[:4])} predicted numbers]"
    assert shown in (root / "README.md").read_text(encoding="utf-8")
    found = re.search(
        r"counts (\d+) numbers of chapters 2 to 8: (\d+) with a row, (\d+) inputs",
        " ".join(page.read_text(encoding="utf-8").split()),
    )
    assert found is not None
    told = [int(number) for number in found.groups()]
    assert told == [sum(told[1:]), totals["row"], totals["input"]]


def test_a_row_says_what_became_of_it(judged):
    beginnings = {"slip": "slip: ", "fitted": "fitted: "}
    for given, result in judged.values():
        for verdict, row in zip(verdicts(*given), result.rows, strict=False):
            assert row.verdict == verdict
            assert row.note.startswith(beginnings.get(verdict, ("", "printed as "))), row
            assert (row.kind == "fitted") is (verdict == "fitted")


@pytest.mark.parametrize("chapter", ["chapter7", "chapter8"])
def test_no_prediction_of_a_chapter_is_twice_or_half_of_what_is_printed(chapter, judged):
    for row in judged[chapter][1].rows:
        least = 0 if "printed as" in row.note else row.published / 2
        assert least < row.ours < 2 * row.published, row


def test_the_listings_leave_their_loops_in_about_the_cycles_that_are_printed(judged):
    rows = judged["code_sizes"][1].rows
    leaving = [row for row in rows if row.name.endswith("leaving the loop [cycles]")]
    assert len(leaving) == 3
    assert all(abs(row.ours - row.published) < 10 for row in leaving)


def test_training_multiplies_as_often_as_its_products_have_weights(judged):
    """Twice with the larger and three times with the smaller matrix, half as large, of 1024 hidden
    nodes on each node; the error of an output is half an operation.
    """
    rows = {row.name: row.ours for row in judged["chapter7"][1].rows}
    expected = 7 / 3 + 0.5 / (3 * 1024)
    assert rows["arithmetic of training over recall"] == pytest.approx(expected, rel=1e-12)


def test_readings_fail_for_numbers_that_are_not_printed(judged):
    """A reading gives no column in which one number is moved by one to three of its last digits:
    what is called a slip could not have been read into any other number.
    """
    found = [moved for given, _ in judged.values() for moved in verdicts_of_moved_numbers(given)]
    assert len(found) > 6 * 50
    assert sum("slip" in column for column in found) <= 0.05 * len(found)


def test_inputs_that_were_fitted_are_said_where_they_were_fitted(judged):
    """Numbers that the machine file calls fitted to a table stand beside numbers of that table."""
    sources = dict(load_machine("cns1-128").sources)
    fitted = {key: text for key, text in sources.items() if text.startswith("fitted to ")}
    marked = {
        (number.fitted, name)
        for name, (given, _) in judged.items()
        for number in given[0]
        if number.fitted.startswith("runtime.")
    }
    assert {key for key, _ in marked} == set(fitted)
    for key, text in fitted.items():
        for number in re.findall(r"\d\.\d", text):
            assert (key, f"table{number.replace('.', '_')}") in marked


@pytest.mark.parametrize(
    ("name", "panels", "parts"),
    [("figure2_1", 1, 7), ("figure4_1", 3, 6), ("figure6_1", 1, 10), ("figure6_2", 1, 10)],
)
def test_timelines_show_every_part(name, panels, parts):
    """Each part has a bar of at least a point in one of the panels."""
    experiment = load_experiment(f"cns1/{name}")
    assert experiment.draw is not None
    figure = experiment.draw(experiment.run(Lab()))
    FigureCanvasAgg(figure).draw()
    assert len(figure.axes) == panels
    assert len(figure.axes[0].get_yticks()) == parts
    seen = set()
    for axes in figure.axes:
        low, high = axes.get_xlim()
        for part, bars in enumerate(axes.collections):
            paths = [path.get_extents() for path in bars.get_paths()]
            seen |= {part for box in paths if box.x1 > low and box.x0 < high}
            assert bars.get_linewidth()[0] >= 1
    assert seen == set(range(parts))


@pytest.mark.parametrize("name", ["table2_1", "table2_2", "table3_1"])
def test_machines_and_networks_have_the_numbers_that_describe_them(name, judged):
    result = judged[name][1]
    assert [row.ours for row in result.rows] == [row.published for row in result.rows]


@pytest.mark.parametrize("name", COUNTS)
def test_every_printed_number_has_a_formula_and_every_reading_its_whole_column(name):
    rows = read_published("cns1", name, Stated).rows
    assert all(row.ours for row in rows)
    read = {row.column for row in rows if row.reading}
    assert read == set(tables.READINGS.get(name, {})), "columns with a text"
    assert "" not in read
    assert all(row.reading for row in rows if row.column in read)


def test_quantities_are_those_that_formulas_name():
    rows = [row for name in COUNTS for row in read_published("cns1", name, Stated).rows]
    own = Path(quantities.__file__).read_text(encoding="utf-8")
    formulas = (text for row in rows for text in (row.ours, row.reading))
    named = Counter(re.findall(r"\w+", " ".join([own, *formulas])))
    defined = re.findall(r"^(?:def )?([A-Za-z]\w+)(?= =|\()", own, re.MULTILINE)
    assert [name for name in defined if named[name] == 1] == []


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        *((f"{case.name}: rate", case) for case in CASES),
        ("peak of 1024 nodes", TableCell(1024, "768M", "4.5 Mb")),
        ("18 Mb chip: KB", TableCell(128, "192M", "18 Mb")),
        ("1536M on 1024 nodes: p_i", TableCell(1024, "1536M", "4.5 Mb")),
        ("m_length", MODEL),
    ],
)
def test_a_rows_name_tells_its_machine_and_network(name, cell):
    assert cell_named(name) == cell


def test_a_formula_is_of_quantities_other_rows_and_names_that_are_handed_over():
    name = "18 Mb hit [ns]"
    assert formula_value("rdram.read_hit_ns + extra", "table4_5", name, {"extra": 1}) == 45
    others = "row('m_length', 'chapter4_text') + printed('18 Mb hit [ns]')"
    assert formula_value(others, "table4_5", name, tables.NAMES) == 137 + 108
    with pytest.raises(NameError, match="open"):
        formula_value("open('file')", "table4_5", name, {})


MINE = """\
# source: mine
name,value
bytes of an activation,1.02
"bytes of a weight",1.8
"not of the report",7
"""


def test_a_users_rows_take_the_place_of_the_printed_ones(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(MINE)
    result = load_experiment("cns1/chapter3").run(Lab(rows=path))
    assert [verdict_text(row) for row in result.rows] == ["off by -0.02", "off by +0.2"]


def test_formulas_are_never_a_users(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("# source: mine\nname,value,ours\nbytes of a weight,2,1 + 1\n")
    with pytest.raises(ExperimentError) as caught:
        load_experiment("cns1/chapter3").run(Lab(rows=path))
    assert caught.value.message == "has the columns name, value, ours"
    assert caught.value.fix == "give the columns name, value, relation, column, fitted"


VERDICTS = """\
# source: mine
name,value,relation,column,fitted,ours,reading
a,1.5,=,c,,1.5,1.5
b,2.5,=,c,,2,row('a') + 1
c,3.5,=,c,,3,3.5
d,4.5,=,c,,4,printed('d')
e,7,<,,,5,
f,2.0,=,,,row('b') + extra,
g,3.0,=,,the text,3,
"""


def test_numbers_are_counted_by_what_became_of_them(monkeypatch):
    """The reading gives its whole column."""
    table = parse_published(VERDICTS, Stated, "mine.csv")
    monkeypatch.setattr(printed, "read_published", lambda *_: table)
    monkeypatch.setattr(lab, "read_published", lambda *_: table)
    names = {"extra": 0.16}
    rows = reproduced(Lab(), "mine", names, {"c": "a half more"}).rows
    assert verdict_counts(rows) == {
        "as printed": 1, "within a printed limit": 1, "slip": 3, "off": 1, "fitted": 1,
    }  # fmt: skip
    assert [row.note for row in rows] == [
        "", *(f"slip: a half more gives {n}.5" for n in (2, 3, 4)), "printed as an upper limit",
        "", "fitted: the text",
    ]  # fmt: skip


def test_printed_numbers_are_those_of_a_table():
    rows = read_published("cns1", "table7_8", Stated).rows
    assert printed_numbers("table7_8") == {row.name: float(row.value) for row in rows}


def test_steps_of_a_simulated_node_are_near_the_closed_form():
    result = load_experiment("cns1/node_steps").run(Lab())
    found = {row.name: row.deviation for row in result.rows}
    recall = [found[f"{kernel} {matrix}"] for kernel in ("recall", "forward") for matrix in "AB"]
    assert all(abs(deviation) < 0.005 for deviation in recall)
    assert found["error"] < -0.1  # 48 cycles a pass for 53
    assert 0 < found["backpropagation B"] < 0.01
    assert all(-0.02 < found[f"update {matrix}"] < 0 for matrix in "AB")


def test_what_differs_around_the_rows_is_told_in_cycles():
    """Beside its passes an update takes 8.5 cycles for each four rows, where the report has two
    less than none; a line that opens for each four rows takes 13 in both.
    """
    rows, passes = 1024, 8
    simulated = simulate_step("update B").cycles
    around = simulated / (rows / 4) - 96 * passes - 13
    assert around == pytest.approx(8.5, abs=0.1)
    assert closed_form()["update B"] / (rows / 4) - 98 * passes - 13 == pytest.approx(-2, abs=0.5)


def test_design_questions_follow_the_machine():
    usual = {row.name: row.ours for row in load_experiment("cns1/design").run(Lab()).rows}
    assert usual["loop, as described"] == 64
    assert usual["training, memory as described: share of the time"] == 1
    assert usual["loop, no multiply-accumulate"] == 67  # 67 instructions, one a cycle
    assert usual["loop, stripes of 32"] == 112
    assert usual["kernel, stripes of 32"] > 1.7 * usual["kernel, as described"]
    assert usual["kernel, one pattern at a time"] > 1.7 * usual["kernel, as described"]
    assert 0.7 < usual["training, memory 2 times as fast: share of the time"] < 0.8
    slower = Lab(options={"memory.rdram.read_hit_ns": "200"})
    found = {row.name: row.ours for row in load_experiment("cns1/design").run(slower).rows}
    assert found["loop, as described"] > 64


@pytest.mark.parametrize("numbers", [(1, 2, 3, 4, 5, 6), (9, -4, 0, 7, 5, -2)])
def test_coefficients_come_back_from_the_values_of_their_formula(numbers):
    c, a, b, d, e, f = numbers

    def value(h, o, log_pi, log_ph):
        return c + h * (a * log_pi + b) + o * (d * log_ph + e) - f * log_ph

    counted = {key: value(*key) for key in product((0, 1), repeat=4)}
    assert list(quantities.terms(counted).values()) == list(numbers)


def test_shares_of_the_time_are_drawn_over_the_speed_of_the_memory():
    names = {f"recall, {s} times as fast: share of the time": s / 8 for s in design.SPEEDS}
    names |= {"recall, total": 3.0, "kernel, as it is": 7.0, "training, share of the time": None}
    rows = tuple(compare(name, None, ours, "model") for name, ours in names.items())
    memory, kernel = design.draw(Result("cns1", "design", "t", rows, {}, ())).axes
    (line,) = memory.lines
    assert [tuple(point) for point in line.get_xydata()] == [(s, s / 8) for s in design.SPEEDS]
    assert [bar.get_width() for bar in kernel.patches] == [7.0]
