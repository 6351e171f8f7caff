"""Products and updates as text: what is refused, loops where there is more than one round."""

from __future__ import annotations

import re
from functools import partial

import pytest

from tilewright.common.errors import ProgramError
from tilewright.machine import load_machine
from tilewright.targets.cns1.emit.calls import (
    NodeProduct,
    Update,
    write_fill,
    write_get,
    write_product,
    write_update,
)
from tilewright.targets.cns1.emit.writer import Writer

MACHINE = load_machine("cns1-128")
ROUND = r"if \(\$29 != \$0\) {}\d+"


def product(m: int = 2, n: int = 64, k: int = 64, factor: int = 1, **changes: int) -> NodeProduct:
    rows = {"factor_row_bytes": factor * k, "weight_row_bytes": 2 * n, "sum_row_bytes": 4 * n}
    return NodeProduct(m, n, k, factor, **{**rows, **changes})


def text_of(write, *arguments) -> str:
    writer = Writer()
    write(writer, *arguments)
    return writer.text()


@pytest.mark.parametrize(
    ("changes", "message", "fix"),
    [
        (
            {"n": 96},
            "a product of n = 96 is no whole number of blocks of 64",
            "take a multiple of 64",
        ),
        ({"k": 6}, "a product of k = 6 is no whole number of blocks of 4", "take a multiple of 4"),
        (
            {"k": 68, "along_terms": True},
            "a product of k = 68 is no whole number of blocks of 64",
            "take a multiple of 64",
        ),
        (
            {"factor": 4},
            "rows of 256 bytes in elements of 4 are not read by words of 4",
            "elements of 8 or 16 bit, and rows of whole words",
        ),
        (
            {"factor_row_bytes": 66},
            "rows of 66 bytes in elements of 1 are not read by words of 4",
            "elements of 8 or 16 bit, and rows of whole words",
        ),
    ],
)
def test_products_that_the_loops_do_not_divide_are_refused(changes, message, fix):
    with pytest.raises(ProgramError) as caught:
        product(**changes)
    assert (caught.value.message, caught.value.fix) == (message, fix)


def test_other_multiples_are_taken():
    assert product(n=68, along_terms=True).n == 68
    assert product(k=4).k == 4
    assert product(factor=2).factor_row_bytes == 128


def test_an_update_takes_whole_stripes():
    assert Update(3, 64, 128).n == 64
    with pytest.raises(ProgramError) as caught:
        Update(3, 96, 192)
    assert caught.value.message == (
        "an update of n = 96 columns is no whole number of blocks of 64"
    )
    with pytest.raises(ProgramError) as caught:
        Update(3, 64, 128, patterns=2)
    assert caught.value.message == (
        "an update of m = 3 rows by 2 patterns is no whole number of blocks of 4"
    )


@pytest.mark.parametrize(
    ("rows", "rounds", "moves"),
    [(1, 0, 0), (2, 0, 0), (3, 0, 1), (4, 1, 1), (5, 1, 1)],
)
def test_pairs_of_rows_are_a_loop_and_pointers_move_where_others_follow(rows, rounds, moves):
    text = text_of(write_product, MACHINE, product(m=rows))
    assert len(re.findall(ROUND.format("round"), text)) == rounds
    assert text.count("$7 = $7 + 128") == moves  # two rows of 64 bytes


@pytest.mark.parametrize(("rows", "rounds", "passes"), [(3, 0, 1), (4, 0, 1), (8, 1, 1), (9, 1, 2)])
def test_updates_of_four_rows_are_a_loop(rows, rounds, passes):
    text = text_of(write_update, MACHINE, Update(rows, 64, 128))
    assert len(re.findall(ROUND.format("group"), text)) == rounds
    assert text.count("$18 = $18 + $26") == passes


@pytest.mark.parametrize(
    ("columns", "loops", "tails"), [(16, 0, 1), (32, 1, 0), (64, 1, 0), (70, 1, 1)]
)
def test_vectors_of_zeros_are_a_loop_and_the_rest_is_shorter(columns, loops, tails):
    text = text_of(write_fill, 3, columns, 4 * columns)
    assert len(re.findall(r"if \(\$16 != \$17\) fill\d+", text)) == loops
    assert text.count("vlr = $12") == tails
    assert len(re.findall(ROUND.format("row"), text)) == 1


FILL = """\
    $29 = 3
row1:
    $17 = $16 + 256
fill2:
    m[$16+=$30].w = $v0
    if ($16 != $17) fill2
    nop
    $12 = 6
    vlr = $12
    $12 = $12 << 2
    m[$16+=$12].w = $v0
    vlr = $28
    $16 = $16 + 232
    $29 = $29 - 1
    if ($29 != $0) row1
    nop
"""


def test_rows_are_filled_by_vectors_of_128_bytes_the_rest_and_a_step_to_the_next_row():
    assert text_of(write_fill, 3, 70, 512) == FILL


def test_updates_step_from_the_last_row_of_four_to_the_next_columns_and_rows():
    text = text_of(write_update, MACHINE, Update(8, 128, 256))
    assert re.findall(r"\$2[67] = -?\d+", text) == [
        f"$27 = {128 - 3 * 256}", f"$26 = {4 * 256}",
    ]  # fmt: skip
    assert (Update(8, 128, 256).stripe_bytes, product().stripe_bytes) == (2 * 64, 2 * 64)


@pytest.mark.parametrize(
    ("size", "loops", "copies", "tails"),
    [(128, 1, 4, 0), (160, 1, 5, 0), (96, 0, 3, 0), (20, 0, 1, 1), (260, 1, 5, 1)],
)
def test_copies_are_groups_of_four_vectors_and_the_rest(size, loops, copies, tails):
    text = text_of(write_get, 2, size, 512)
    assert len(re.findall(r"if \(\$15 != \$17\) copy\d+", text)) == loops
    assert len(re.findall(r"= m\[\$15\+=", text)) == copies
    assert text.count("vlr = $12") == tails
    words = text_of(partial(write_get, as_words=True), 2, size, 512)
    assert words.count("].b = ") == text.count("].w = ") == 0
    assert words.count("].w = ") == text.count("].b = ") == copies
