"""Every wrong source in `errors/` gives exactly the messages in the text file beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.asm import Limits, SourceErrors, assemble, assemble_file
from tilewright.isa import load_table

CPE = load_table("sw26010_cpe")
SOURCES = sorted((Path(__file__).parent / "errors").glob("*.s"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_messages(path: Path) -> None:
    with pytest.raises(SourceErrors) as raised:
        assemble_file(path, CPE)
    expected = path.with_suffix(".txt").read_text(encoding="utf-8")
    assert f"{raised.value}\n" == expected


def test_the_first_error_is_the_one_that_programs_see() -> None:
    with pytest.raises(SourceErrors) as raised:
        assemble("nop\n  vmda $1\n  halt 1\n", CPE, filename="k.s")
    error = raised.value
    assert (error.code, error.exit_code) == ("assembly", 1)
    assert (error.where, error.message, error.fix) == (
        "k.s:2:3",
        "unknown instruction 'vmda' in sw26010_cpe",
        "did you mean 'vmad'?",
    )
    places = [(d.line.number, d.span.column, d.span.length) for d in error.diagnostics]
    assert places == [(2, 3, 4), (3, 3, 4)]


def test_a_source_beyond_a_limit() -> None:
    limits = Limits(source_bytes=8, line_characters=20, expanded_lines=4)
    with pytest.raises(SourceErrors) as raised:
        assemble("nop\n" * 3, CPE, limits=limits)
    assert raised.value.message == "12 bytes exceed the limit of 8"
    limits = Limits(line_characters=20, expanded_lines=4)
    with pytest.raises(SourceErrors) as raised:
        assemble("nop # " + 20 * "x", CPE, limits=limits)
    assert raised.value.message == "the line has 26 characters, the limit is 20"
    with pytest.raises(SourceErrors) as raised:
        assemble("nop\n" * 5, CPE, limits=limits)
    assert raised.value.message == "the source expands to more than 4 lines"


def test_control_characters_do_not_reach_the_terminal() -> None:
    with pytest.raises(SourceErrors) as raised:
        assemble("nop \x1b[31m", CPE)
    assert str(raised.value) == (
        "<source>:1:5: error A101: unexpected character 0x1b\n"
        "    nop \ufffd[31m\n"
        "        ^\n"
        "  fix: remove it"
    )


def test_a_long_line_is_shown_around_the_caret() -> None:
    with pytest.raises(SourceErrors) as raised:
        assemble(".byte " + "1, " * 200 + "300", CPE)
    _, shown, caret, *_ = str(raised.value).splitlines()
    assert len(shown) < 130
    assert shown[caret.index("^") : caret.index("^") + 3] == "300"


def test_an_instruction_of_a_longer_or_shorter_name_that_takes_the_operands_is_suggested() -> None:
    with pytest.raises(SourceErrors) as raised:
        assemble("shift $1, $1, $1\nshift_right $1\nshift $1, $1", load_table("torrent"))
    found = [(d.message, d.fix) for d in raised.value.diagnostics]
    assert found == [
        ("shift takes 1 operand (a), 3 given", "did you mean 'shift_left'?"),
        ("shift_right takes 3 operands (d, a, b), 1 given", "did you mean 'shift'?"),
        ("shift takes 1 operand (a), 2 given", ""),
    ]


def test_a_line_has_4096_characters_where_nothing_else_is_said() -> None:
    line = "nop #".ljust(4096, "x")
    assert assemble(line, CPE).sections
    with pytest.raises(SourceErrors) as raised:
        assemble(f"{line}x", CPE)
    assert raised.value.message == "the line has 4097 characters, the limit is 4096"


def test_characters_are_counted_line_by_line() -> None:
    assert assemble("nop\n" * 3, CPE, limits=Limits(expanded_characters=9)).sections
    with pytest.raises(SourceErrors) as raised:
        assemble("nop\n" * 3, CPE, limits=Limits(expanded_characters=8))
    assert raised.value.message == "the source expands to more than 8 characters"


def test_immediates_reach_to_both_ends_of_their_field() -> None:
    for number in (-32768, 32767):
        assert assemble(f"ldi $1, {number}($2)", CPE).sections
    for number in (-32769, 32768):
        with pytest.raises(SourceErrors):
            assemble(f"ldi $1, {number}($2)", CPE)


def test_names_are_told_apart_by_their_case_where_the_dialect_says_nothing() -> None:
    with pytest.raises(SourceErrors) as raised:
        assemble("NOP", CPE)
    assert raised.value.message == "unknown instruction 'NOP' in sw26010_cpe"


@pytest.mark.parametrize("column", [1, 3, 99, 100, 101, 140, 500])
def test_of_a_long_line_120_characters_are_shown_the_error_among_the_first_100_or_amid(
    column,
) -> None:
    text = " " * (column - 1) + "vmda $1, $2 # " + "y" * 200
    with pytest.raises(SourceErrors) as raised:
        assemble(f"nop\n{text}\n", CPE, filename="k.s")
    head, shown, carets, *_ = str(raised.value).splitlines()
    assert head.startswith(f"k.s:2:{column}: error ")
    first = 0 if column <= 100 else column - 60
    assert shown == "    " + text[first : first + 120]
    marked = carets.index("^")
    assert shown[marked : marked + 4] == "vmda"
    assert carets.strip() == "^~~~"


@pytest.mark.parametrize("depth", [5, 6, 7, 9])
def test_of_many_macros_around_an_error_the_innermost_and_the_outermost_are_named(depth) -> None:
    inner = [f".macro m{n}\nm{n - 1}\n.endm\n" for n in range(1, depth)]
    text = ".macro m0\nvmda\n.endm\n" + "".join(inner) + f"m{depth - 1}\n"
    with pytest.raises(SourceErrors) as raised:
        assemble(text, CPE, filename="k.s")
    rows = [row.split()[1] for row in str(raised.value).splitlines() if row.startswith("  in ")]
    left_out = [row for row in str(raised.value).splitlines() if row.endswith(" more ...")]
    assert len(rows) == (depth if depth <= 6 else 6)
    assert left_out == ([f"  ... {depth - 6} more ..."] if depth > 6 else [])


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        (".if 1 + lost\nnop\n.endif\n", 9, "undefined symbol 'lost'"),
        ("  .if 1 / 0\n.endif\n", 9, "division by zero"),
        (".rept 2 * (1 +\nnop\n.endr\n", 14, "the line ends too early"),
        (".rept 1, 2\nnop\n.endr\n", 1, ".rept needs one number"),
    ],
)
def test_a_number_that_decides_is_wrong_at_its_own_column(text, column, message) -> None:
    with pytest.raises(SourceErrors) as raised:
        assemble(text, CPE)
    (found,) = raised.value.diagnostics
    assert (found.line.number, found.span.column, found.message) == (1, column, message)


def test_a_repetition_is_left_with_its_macro_alone() -> None:
    source = assemble(".macro m\n.rept 2\nnop\n.exitm\n.endr\nhalt\n.endm\nm\n", CPE)
    assert [placed.instruction.text() for placed in source.instructions] == ["nop"]
    with pytest.raises(SourceErrors) as raised:
        assemble(".rept 2\n.exitm\n.endr\n", CPE)
    assert raised.value.message == ".exitm outside a macro"


@pytest.mark.parametrize(
    ("number", "column", "message"),
    [("1 + lost", 16, "undefined symbol 'lost'"), ("1 / 0", 14, "division by zero")],
)
def test_a_number_of_another_language_is_wrong_at_its_own_column(number, column, message) -> None:
    text = f".static_rw\n@neuron x, {number}, 1, 1, 1, 1, 1, 1, 1\n"
    with pytest.raises(SourceErrors) as raised:
        assemble(text, load_table("cambricon"))
    (found,) = raised.value.diagnostics
    assert (found.line.number, found.span.column, found.message) == (2, column, message)
