"""Taps in the border of zeros around images are left out of kernels, and of their price."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tilewright.ir.interpret import interpret
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.machine import Machine, load_machine
from tilewright.ops import conv2d
from tilewright.targets.host.taps import padded_chains, same_taps, without_padding
from tilewright.tune.choose import choose

HOST = load_machine("host_avx2")


@given(
    st.integers(1, 6), st.integers(0, 3), st.integers(1, 9), st.integers(1, 3), st.integers(1, 3)
)
def test_runs_of_windows_take_exactly_the_taps_inside(extent, start, taps, step, apart):
    inside = range(start, start + 7)
    places = range(0, extent * step, step)
    found = same_taps(places, range(0, taps * apart, apart), inside)
    assert [i for one in found for i in range(one.first, one.first + one.count)] == [*range(extent)]
    for one in found:
        for i in range(one.first, one.first + one.count):
            within = {t for t in range(taps) if places[i] + t * apart in inside}
            taken = {*range(one.tap, one.tap + one.taps)}
            assert within <= taken
            assert taken <= within or taken == {0}
    assert all((a.tap, a.taps) != (b.tap, b.taps) for a, b in pairwise(found))


PROGRAM = """\
def direct():
    x: tensor("f32", "input", zeros(rows=(1, 1), cols=(1, 1)), rows={padded}, cols=9, channels=8)
    w: tensor("f32", "constant", kernel_rows=3, kernel_cols=3, in_channels=8, out_channels=8)
    y: tensor("f32", "output", rows={rows}, cols=7, channels=8)
    for out_row in range({turns}):
        fill(y[at(out_row * {tile}, {tile}), at(0, 7), at(0, 8)]("abc"), value=0.0)
        for kernel_row in range(3):
            for kernel_col in range(3):
                gemm(
                    y[at(out_row * {tile}, {tile}), at(0, 7), at(0, 8)]("nnm"),
                    w[kernel_row, kernel_col, at(0, 8), at(0, 8)]("..km"),
                    x[
                        at(out_row * {tile} + kernel_row, {tile}), at(kernel_col, 7), at(0, 8)
                    ]("nnk"),
                    vector="m",
                    dtype="f32",
                )
"""


def pieces_of(
    turns: int, tile: int, machine: Machine = HOST
) -> list[tuple[int, list[tuple[int, int]]]]:
    """The pixels and taps of the pieces of each kind of turns, and where these end."""
    rows = turns * tile
    program = parse(PROGRAM.format(turns=turns, tile=tile, rows=rows, padded=rows + 2))
    (padded,) = padded_chains(program, machine)
    return [(end, [(p.pixels, p.taps) for p in pieces]) for end, pieces in padded.kinds({})]


def test_columns_are_taken_apart_where_there_are_rows_enough_and_corners_stay_with_their_rows():
    assert pieces_of(1, 7) == [(1, [(25, 9), (7, 6), (7, 6), (5, 6), (5, 6)])]
    assert pieces_of(1, 4) == [(1, [(14, 9), (7, 6), (7, 6)])]


def test_pieces_have_as_many_pixels_as_a_multiply_add_takes_cycles():
    assert pieces_of(1, 5) == [(1, [(21, 9), (7, 6), (7, 6)])]
    quick = structs.replace(HOST, core=structs.replace(HOST.core, multiply_add_latency_cycles=3))
    assert pieces_of(1, 5, quick) == [(1, [(15, 9), (7, 6), (7, 6), (3, 6), (3, 6)])]


@given(st.integers(1, 4), st.integers(1, 7))
def test_what_is_left_out_does_not_change_a_bit(turns, tile):
    rows, generator = turns * tile, np.random.default_rng(turns)
    program = parse(PROGRAM.format(turns=turns, tile=tile, rows=rows, padded=rows + 2))
    shapes = {"x": (rows, 7, 8), "w": (3, 3, 8, 8)}
    given = {n: generator.integers(-9, 9, s).astype(np.float32) for n, s in shapes.items()}
    given["x"] = np.pad(given["x"], ((1, 1), (1, 1), (0, 0)))
    expected, found = (interpret(p, given)["y"] for p in (program, without_padding(program, HOST)))
    assert np.array_equal(found, expected)


def test_turns_at_the_edges_have_pieces_of_their_own():
    assert pieces_of(5, 1) == [(1, [(7, 6)]), (4, [(7, 9)]), (5, [(7, 6)])]
    assert pieces_of(2, 2) == [(1, [(7, 6), (7, 9)]), (2, [(7, 9), (7, 6)])]


def test_the_text_asks_which_turn_it_is():
    program = parse(PROGRAM.format(turns=5, tile=1, rows=5, padded=7))
    text = print_program(without_padding(program, HOST))
    assert [line.strip() for line in text.splitlines() if "if " in line] == [
        "if out_row < 1:",
        "elif out_row < 4:",
    ]
    assert text.count("for kernel_row in range(2)") == 2
    assert text.count("for kernel_row in range(3)") == 1


def test_turns_of_too_many_kinds_are_left_as_they_are():
    rows = PROGRAM.replace("kernel_row in range(3)", "kernel_row in range(9)")
    rows = rows.replace("kernel_rows=3", "kernel_rows=9").replace("rows=(1, 1)", "rows=(4, 4)")
    program = parse(rows.format(turns=20, tile=1, rows=20, padded=28))
    (padded,) = padded_chains(program, HOST)
    assert padded.kinds({}) == []
    assert without_padding(program, HOST) == program


def test_padded_images_are_priced_without_the_taps_that_are_left_out():
    padded, larger = (
        conv2d(
            batch=1, in_channels=256, out_channels=256, height=size, width=size, kernel=3,
            padding=padding, dtype="f32",
        )
        for size, padding in ((14, 1), (16, 0))
    )  # fmt: skip
    found, whole = (one.best.cycles for one in choose([padded, larger], HOST, algorithm="direct"))
    assert 40**2 / 42**2 < found / whole < 0.95
