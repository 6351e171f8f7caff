"""The scanner of plain lines against the grammar: what it reads, the grammar reads the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.dialects import BRACKETED, TABLES
from tilewright.asm.text.parse import line_parser
from tilewright.isa import InstructionTable, load_table

CPE = load_table("sw26010_cpe")
PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.s"))
PIECES = (
    " ", "\t", "\r", ",", ", ", ":", ": ", "=", "-", "+", "+-", "- ", "(", ")", "[", "]",
    "[r1+", "[r1, ", "($2)", "8($v1)", "-8(%1)", "[R3-0x10]", "[r1+8]", "[%r1+table]",
    "[x1, #4]", "0", "07", "12", "-12", "1f", "1b", "1.5", "1e3", "0x1F", "0x", "9" * 17,
    "9" * 18, "9" * 19, "0x" + "f" * 16, "'a'", '"a"', ".", "r1", "r12", "$1", "$sp", "%r1",
    "R1", "Rv3", "x9", "v3", "r77", "r1x", "r1.x", "hi(", "lo", "inf", "add", "load", "stop",
    ".loc", ".byte", ".Lx", "a.b", "_", "#", "#5", "#-5", "$5", "//", "#c", "; c", "--", "@@ c",
    "|#", "@nobits", "%progbits", "\\", "\x0b", "\xa0", "é",
)  # fmt: skip
LINES = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=9).map("".join),
    st.tuples(
        st.sampled_from(("", "top: ", ".L1:\t", " a : ")),
        st.sampled_from(("add", "load", "x.y", ".byte", "hi", "r1", "")),
        st.lists(st.sampled_from(PIECES), max_size=4).map(", ".join),
        st.sampled_from(("", "  ", " # c", " // c", " ; c", "--c")),
    ).map(lambda parts: f"{parts[0]}{parts[1]} {parts[2]}{parts[3]}"),
)


@given(st.sampled_from([CPE, BRACKETED, *TABLES]), LINES)
@example(CPE, "hi: lo hi, ($1), -5 // x")
@example(BRACKETED, "hi($1)")
@example(CPE, ".loc 1")
@example(CPE, ".file: nop")
def test_what_is_scanned_is_what_the_grammar_reads(table: InstructionTable, line: str) -> None:
    parser = line_parser(table)
    scanned = parser.scan(line)
    assert scanned is None or scanned == parser.by_grammar(line)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_lines_of_programs_read_the_same(path: Path) -> None:
    parser = line_parser(CPE)
    for line in path.read_text().splitlines():
        scanned = parser.scan(line)
        assert scanned is None or scanned == parser.by_grammar(line)


@pytest.mark.parametrize(
    ("table", "line"),
    [
        (CPE, ""),
        (CPE, "  # a comment"),
        (CPE, "top:"),
        (CPE, "top: vldd $1, -32($2)  // two"),
        (CPE, "ldi $sp, ($31)"),
        (CPE, "addl $1, 0x10, $2"),
        (CPE, "bne $1, .Ltop"),
        (BRACKETED, "load v1, [r1-8]"),
        (BRACKETED, "load v1, [ra]"),
        (BRACKETED, "add r1, r2, #-5 ; comment"),
        (BRACKETED, "loop r1, again"),
    ],
)
def test_plain_lines_are_scanned(table: InstructionTable, line: str) -> None:
    parser = line_parser(table)
    assert parser.scan(line) == parser.by_grammar(line)


@pytest.mark.parametrize(
    "line", ["a: b: nop", "x = 1", ".byte 1", "addl $1, 1+1, $2", "ldi $1, x($2)", "1: nop", "nop,"]
)
def test_other_lines_are_left_to_the_grammar(line: str) -> None:
    assert line_parser(CPE).scan(line) is None
