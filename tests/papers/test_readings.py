"""Verdicts on printed numbers, and readings of columns that fit no other numbers."""

import math
from typing import get_args

import pytest

from support.readings import judged, verdicts_of_moved_numbers
from tilewright.papers.discovery import load_experiment
from tilewright.papers.lab import Lab
from tilewright.papers.model import Verdict, compare
from tilewright.papers.readings import Printed, Reading, prints_as, verdicts
from tilewright.report.reproduction import verdict_text


@pytest.mark.parametrize(
    ("value", "printed", "agrees"),
    [
        (21.55, Printed("x", "21.6"), True),
        (21.54, Printed("x", "21.6"), False),
        (0.1726, Printed("x", "0.17"), True),
        (2.6499999996, Printed("x", "2.7"), True),  # a half, but for what doubles add
        (5.6, Printed("x", "7", "<"), True),
        (5.2, Printed("x", "5.5", ">"), False),
        (5.5, Printed("x", "5.5", ">"), False),
        (7.0, Printed("x", "7", "<"), False),
    ],
)
def test_agreement_is_to_the_printed_digit(value, printed, agrees):
    assert prints_as(value, printed) is agrees


def test_a_reading_gives_its_whole_column_or_nothing():
    table = [Printed(name, "2", column="c") for name in "abcd"]
    ours = {"a": 2.0, "b": 1.0, "c": 1.0, "d": 1.0}
    whole = Reading("two", dict.fromkeys("abcd", 2.1))
    assert verdicts(table, ours, {"c": whole}) == ["as printed", "slip", "slip", "slip"]
    part = Reading("two but once", {**whole.values, "a": 3.0})
    assert verdicts(table, ours, {"c": part}) == ["as printed", "off", "off", "off"]
    assert verdicts(table[1:], ours, {"c": whole}) == ["off", "off", "off"]  # too few to tell


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (compare("x", 0.32, 0.3249, "exact"), "as printed"),
        (compare("x", 0.32, 0.325, "exact"), "off by +0.005"),
        (compare("x", 1600, 1600.4, "simulated"), "as printed"),
        (compare("x", 1600, 1541.2, "simulated"), "off by -58.8"),
        (compare("x", 1600, 1541, "simulated", limits=(1600, math.inf)), "off by -59"),
        (compare("x", 1600, 2484, "simulated", limits=(1600, math.inf)), "within a printed limit"),
        (compare("x", 1600, 1541, "fitted"), "fitted"),
        (compare("x", 1 / 3, 1 / 3, "exact"), "as printed"),
        (compare("x", 8.0, 8.0, "published"), ""),
        (compare("x", 8.0, 8.0, "exact", printed=False), ""),
        (compare("x", None, 8.0, "exact"), ""),
        (compare("x", 8.0, None, "simulated"), ""),
    ],
)
def test_a_number_is_as_printed_or_off_by_a_difference(row, expected):
    assert verdict_text(row) == expected


@pytest.mark.parametrize("name", ["bwdsp/equations", "bwdsp/table4"])
def test_corrected_equations_fail_for_numbers_that_are_not_printed(name):
    given, _ = judged(name)
    assert "slip" in verdicts(*given)
    found = [*verdicts_of_moved_numbers(given)]
    assert len(found) == 6 * len(given.table)
    assert not any("slip" in column for column in found)


COUNTS = {
    "bwdsp/claims": (11, 0, 0, 1, 0),
    "bwdsp/equations": (18, 0, 19, 0, 1),
    "bwdsp/figure6": (0, 0, 0, 8, 0),
    "bwdsp/table2": (2, 0, 0, 11, 0),
    "bwdsp/table3": (66, 0, 0, 0, 0),
    "bwdsp/table4": (26, 0, 12, 0, 2),
    "swdnn/figure2": (3, 0, 0, 1, 0),
    "swdnn/figure6": (34, 0, 0, 0, 0),
}
"""Numbers as printed, within a printed limit, slips, off, fitted, as the page of what comes out
says; tables that take seconds are counted by `tilewright reproduce`.
"""


@pytest.mark.parametrize("name", COUNTS)
def test_numbers_of_a_table_are_counted_by_what_became_of_them(name):
    found = load_experiment(name).run(Lab()).summary
    assert tuple(found[verdict] for verdict in get_args(Verdict)) == COUNTS[name]
