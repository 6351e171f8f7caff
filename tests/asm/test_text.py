"""The language: expressions, symbols, macros, conditions, directives, as source -> bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tilewright.asm import Relocation, RelocationKind, SourceErrors, Symbol, assemble, assemble_file
from tilewright.isa import Memory, Register, SymbolReference, load_table

CPE = load_table("sw26010_cpe")


def data_of(source: str) -> bytes:
    return assemble(f".data\n{source}\n", CPE).section(".data").data


def quad(expression: str) -> int:
    return int.from_bytes(data_of(f".quad {expression}"), "little", signed=True)


def text_of(source: str) -> list[str]:
    return [placed.instruction.text() for placed in assemble(source, CPE).instructions]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("7 / -2", -3),
        ("1 << 4 | 3", 19),
        ("6 & 3 ^ 1 | 8", 11),
        ("~0", -1),
        ("!0 + !5", 1),
        ("- -4", 4),
        ("1 < 2 == 1", 1),
        ("2 >= 3 || 0 != 0", 0),
        ("1 && 2", 1),
        ("0x10 + 0b11 + 0o17", 34),
        ("'A'", 65),
        ("'\\n' + '\\''", 49),
        ("hi(0x12348000) * 65536 + lo(0x12348000)", 0x12348000),
        ("lo(0x8000)", -32768),
        ("'#' + 1 # comment", 36),
        ("8 // comment", 8),
    ],
)
def test_expression(expression: str, value: int) -> None:
    assert quad(expression) == value


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
@example(-(2**31), -1)
def test_operators_agree_with_c(a: int, b: int) -> None:
    assert quad(f"({a}) * ({b}) - ({a}) + ({b})") == a * b - a + b
    if b:
        assert quad(f"({a}) / ({b}) * ({b}) + ({a}) % ({b})") == a
        assert quad(f"({a}) / ({b})") == int(a / b)
    high, low = (int(word) for word in (quad(f"hi({a})"), quad(f"lo({a})")))
    assert high * 65536 + low == a
    assert -(2**15) <= low < 2**15


@pytest.mark.parametrize("directive", [".space 2", ".balign 4"])
def test_a_fill_is_a_signed_or_unsigned_byte(directive: str) -> None:
    for fill in range(-130, 260):
        source = f".data\n.short 0\n{directive}, {fill}\n"
        if -128 <= fill <= 255:
            made = assemble(source, CPE).section(".data").data
            assert made == b"\0\0" + bytes([fill % 256, fill % 256])
            continue
        with pytest.raises(SourceErrors) as refused:
            assemble(source, CPE)
        assert f"fill byte {fill} is outside -128 .. 255" in str(refused.value)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (".byte 1, -1, 255", "01ffff"),
        (".half 0x1234", "3412"),
        (".word 1, -1", "01000000ffffffff"),
        (".float 1.5, -inf", "0000c03f000080ff"),
        (".double -2", "00000000000000c0"),
        ('.ascii "a\\0", "b"', "610062"),
        ('.asciz "\\x41\\102"', "414200"),
        ('.ascii "\u00e9"', "c3a9"),
        (".space 3, 0xaa\n.zero 1", "aaaaaa00"),
        (".byte 1\n.align 2\n.byte 2", "0100000002"),
        (".byte 1\n.balign 4, 9\n.byte 2", "0109090902"),
        (".set a, 1\n.byte a\n.set a, a + 1\n.byte a", "0102"),
        (".byte a\n.set a, 7\n.byte a", "0707"),
        ("a = 5\n.byte a", "05"),
        (".set n, end - start\nstart: .byte n, 0\nend:", "0200"),
        (".set a, b + 1\n.set b, c + 1\n.byte a\n.set c, 1", "03"),
        ("x: .byte . - x, . - x", "0000"),
        ("1: .byte 2f - 1b\n2: .byte 2b - 1b", "0101"),
    ],
)
def test_data(source: str, expected: str) -> None:
    assert data_of(source).hex() == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (".rept 2\n.byte 1\n.rept 2\n.byte 2\n.endr\n.endr", "010202010202"),
        (".irp x, 1, 2 + 3\n.byte \\x\n.endr", "0105"),
        (".macro m a, b=2, c\n.byte \\a, \\b, \\c + 0\n.endm\nm 1\nm 1, 5, 6\nm c=3, a=4",
         "010200010506040203"),
        (".macro m a:vararg\n.byte \\a\n.endm\nm 1, 2, 3", "010203"),
        ('.macro m a\n.ascii "\\a"\n.endm\nm "x, y"', "782c2079"),
        (".macro m\nl\\@: .byte l\\@ - 0b\n.endm\n0: m\nm", "0001"),
        (".macro m a\n.byte \\a\\()1\n.endm\nm 2", "15"),
        (".macro outer\n.macro inner\n.byte 9\n.endm\ninner\n.endm\nouter", "09"),
        (".macro m n\n.byte \\n\n.if \\n == 0\n.exitm\n.endif\nm \\n-1\n.endm\nm 2", "020100"),
        (".if 0\n.byte 1\n.elseif 2 > 1\n.byte 2\n.else\n.byte 3\n.endif", "02"),
        (".if 1\n.if 0\n.byte 1\n.else\n.byte 2\n.endif\n.else\n!! junk\n.endif", "02"),
        (".ifdef a\n.byte 1\n.endif\n.set a, 0\n.ifdef a\n.byte 2\n.endif", "02"),
        (".ifndef b\n.byte 3\n.endif\n.set b, 0\n.ifndef b\n.byte 4\n.endif", "03"),
        (".macro m a\n.ifb \\a\n.byte 1\n.else\n.byte 2\n.endif\n.endm\nm\nm x", "0102"),
        (".set i, 0\n.rept 3\n.byte i * i\n.set i, i + 1\n.endr", "000104"),
    ],
)  # fmt: skip
def test_expansion(source: str, expected: str) -> None:
    assert data_of(source).hex() == expected


def test_numeric_labels_mean_the_nearest() -> None:
    assert text_of("1: nop\nbr 1b\n1: br 1f\nbr 1b\n1: halt") == [
        "nop",
        "br .L1.1",
        "br .L1.3",
        "br .L1.2",
        "halt",
    ]
    source = assemble("1: nop\nbr 1b\n1: br 1f\nbr 1b\n1: halt", CPE)
    distances = [
        word & 0x1FFFFF for word in memoryview(source.section(".text").data).cast("I")[1:4]
    ]
    assert distances == [2**21 - 2, 1, 2**21 - 2]


def test_instructions_keep_labels_lines_and_symbols() -> None:
    source = assemble("nop\nstart: again: ldw $1, lo(v+4)($31)\nbr start\n.data\nv: .word 0", CPE)
    load, branch = (placed.instruction for placed in source.instructions[1:])
    assert (load.labels, load.line) == (("start", "again"), 2)
    assert load.operands == (Register(1), Memory(SymbolReference("v", 4, "lo"), Register(31)))
    assert branch.target == SymbolReference("start")
    assert source.relocations == (Relocation(".text", 4, RelocationKind.LOW, "v", 4, 1),)


def test_symbols_of_the_object() -> None:
    source = assemble(
        ".globl f, n\n.type f, @function\nf: nop\n.size f, . - f\n.set n, -3\n"
        ".Lhidden: .set g, f + 2\n.extern used, unused\n.data\n.quad used, .Lhidden, .data",
        CPE,
    )
    assert source.symbols == (
        Symbol("f", ".text", 0, True, "function", 4),
        Symbol("n", "", -3, True),
        Symbol("g", ".text", 2),
        Symbol("used", None, 0, True),
    )
    assert [(r.symbol, r.addend) for r in source.relocations] == [
        ("used", 0),
        (".text", 4),
        (".data", 0),
    ]


def test_code_is_padded_with_instructions_that_do_nothing() -> None:
    assert text_of("halt\n.align 4\nhalt") == ["halt", "halt"]
    data = assemble("halt\n.align 4\nhalt", CPE).section(".text").data
    nop = assemble("nop", CPE).section(".text").data
    assert data[4:16] == 3 * nop


def test_included_files_come_from_the_folder_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.s").write_text("two:\tnop\n\tqqq\n")
    (tmp_path / "a.s").write_text('\tnop\n\t.include "sub/b.s"\n\tbr two\n')
    with pytest.raises(SourceErrors) as raised:
        assemble_file(tmp_path / "a.s", CPE)
    assert str(raised.value) == (
        "sub/b.s:2:2: error A201: unknown instruction 'qqq' in sw26010_cpe\n"
        "    \tqqq\n"
        "    \t^~~\n"
        "  fix: write qqq: if it is a label\n"
        "  in a file included at a.s:2"
    )
    (tmp_path / "sub" / "b.s").write_text("two:\tnop\n")
    assert len(assemble_file(tmp_path / "a.s", CPE).instructions) == 3


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.s").write_text("nop\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "way_out.s").symlink_to(tmp_path / "secret.s")
    with pytest.raises(SourceErrors) as raised:
        assemble('.include "way_out.s"', CPE, folder=tmp_path / "in")
    assert raised.value.message == "'way_out.s' lies outside the folder of the source"


def test_text_alone_has_no_folder() -> None:
    with pytest.raises(SourceErrors) as raised:
        assemble('.include "a.s"', CPE)
    assert raised.value.message == "this source has no folder to include from"


def test_carriage_returns_are_line_ends() -> None:
    assert text_of("nop\r\nhalt\r\n") == ["nop", "halt"]


def test_an_operand_of_a_statement_is_an_expression() -> None:
    torrent = load_table("torrent")
    source = assemble("loop: $8 = $8 - (1 + 2)\n", torrent)
    assert [placed.instruction.text() for placed in source.instructions] == ["$8 = $8 - 3"]
    with pytest.raises(SourceErrors) as raised:
        assemble("loop: $8 = $8 - \n", torrent)
    assert raised.value.message == "an operand is missing"
