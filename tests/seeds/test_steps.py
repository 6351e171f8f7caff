"""Steps and schedules as text: they print, parse back equal, and everything else is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.errors import ScheduleError
from tilewright.seeds.steps import (
    Fuse,
    Layout,
    Pad,
    Reorder,
    Schedule,
    Skew,
    Split,
    Spread,
    Stage,
    Step,
    Vectorize,
    Walk,
    parse_schedule,
    print_step,
)

TEXT = """\
layout(x, group, rows, cols, channels, batch)
split(out_col, out_col_tile)
fuse(out_col, n)
spread(out_channel, rows)
reorder(out_row, out_col, kernel_row)
vectorize(n)
stage(x, kernel_row)
pad(out_col)
skew(out_row, kernel_row, in_row)
walk(out_col, core_col)
factors(out_col_tile=7, x_copies=2)"""

STEPS: tuple[Step, ...] = (
    Layout("x", ("group", "rows", "cols", "channels", "batch")),
    Split("out_col", "out_col_tile"),
    Fuse("out_col", "n"),
    Spread("out_channel", "rows"),
    Reorder(("out_row", "out_col", "kernel_row")),
    Vectorize("n"),
    Stage("x", "kernel_row"),
    Pad("out_col"),
    Skew("out_row", "kernel_row", "in_row"),
    Walk("out_col", "core_col"),
)


def test_every_step_has_one_line() -> None:
    schedule = Schedule(STEPS, (("out_col_tile", 7), ("x_copies", 2)))
    assert str(schedule) == TEXT
    assert parse_schedule(TEXT) == schedule


def test_empty_lines_and_indentation_do_not_matter() -> None:
    assert parse_schedule("\n  vectorize( m )\n\n") == Schedule((Vectorize("m"),))


words = st.from_regex(r"[a-z][a-z0-9]{0,5}_[a-z]", fullmatch=True)
tuples = st.lists(words, max_size=4).map(tuple)
steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(Split, words, words),
    st.builds(Fuse, words, words),
    st.builds(Reorder, tuples),
    st.builds(Layout, words, tuples),
    st.builds(Vectorize, words),
    st.builds(Spread, words, words),
    st.builds(Stage, words, words),
    st.builds(Pad, words),
    st.builds(Skew, words, words, words),
)
schedules = st.builds(
    Schedule,
    st.lists(steps, max_size=8).map(tuple),
    st.dictionaries(words, st.integers(1, 2**40), max_size=4).map(lambda d: tuple(d.items())),
)


@given(schedules)
def test_any_schedule_parses_back_equal(schedule: Schedule) -> None:
    assert parse_schedule(str(schedule)) == schedule


@given(schedules, st.data())
def test_a_damaged_text_is_refused_or_read_as_a_schedule(
    schedule: Schedule, data: st.DataObject
) -> None:
    text = str(schedule)
    place = data.draw(st.integers(0, len(text)))
    damaged = text[:place] + data.draw(st.text(max_size=3)) + text[place + 1 :]
    read = Schedule(())
    with suppress(ScheduleError):
        read = parse_schedule(damaged)
    assert parse_schedule(str(read)) == read


KNOWN = (
    "the steps are factors, fuse, layout, pad, reorder, skew, split, spread, stage, vectorize, "
    "walk, whole"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("split", "line 1: 'split' is not a step"),
        ("vectorize(n)\nvectorize(n) m", "line 2: 'vectorize(n) m' is not a step"),
        ("split(row, 32)", "line 1: 'split(row, 32)' is not a step"),
        ("split(row, *tiles)", "line 1: 'split(row, *tiles)' is not a step"),
        ("os.system(row)", "line 1: 'os.system(row)' is not a step"),
        ("split(row, tile, 0", "line 1: 'split(row, tile, 0' is not a step"),
        ("f" + "(" * 70, f"line 1: 'f{'(' * 59}' is not a step"),
        ("\nunroll(row)", f"line 2: unknown step 'unroll'; {KNOWN}"),
        ("split(row)", "line 1: split takes 2 names (axis, factor), found 1"),
        ("vectorize()", "line 1: vectorize takes 1 names (letter), found 0"),
        ("layout()", "line 1: layout takes a tensor and its dimensions"),
        ("split(row, tile, into=n)", "line 1: split takes names, found into="),
        ("factors(row_tile)", "line 1: factors takes name=integer, 1 or more, found 'row_tile'"),
        ("factors(tile=0)", "line 1: factors takes name=integer, 1 or more, found 'tile=0'"),
        ("factors(tile=-8)", "line 1: factors takes name=integer, 1 or more, found 'tile=-8'"),
        ("factors(tile=True)", "line 1: factors takes name=integer, 1 or more, found 'tile=True'"),
        ("factors(tile=8.5)", "line 1: factors takes name=integer, 1 or more, found 'tile=8.5'"),
        ("factors(**tiles)", "line 1: factors takes name=integer, 1 or more, found '**tiles'"),
        ("factors(tile=8, tile=9)", "line 1: factor 'tile' is given twice"),
        (
            "factors(tile=8)\nfactors(tile=9)",
            "line 2: factors stand in one line, a second one follows",
        ),
    ],
)  # fmt: skip
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(text)
    assert str(caught.value) == message


def test_a_step_alone() -> None:
    assert print_step(Reorder(())) == "reorder()"
    assert print_step(Layout("w", ("a", "b"))) == "layout(w, a, b)"
