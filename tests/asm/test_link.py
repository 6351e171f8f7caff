"""Linking: addresses, relocations, and every complaint word for word."""

from __future__ import annotations

import pytest
from msgspec import structs

from tilewright.asm import LinkErrors, Object, SourceErrors, assemble, elf_bytes, link, read_elf
from tilewright.asm.objects.elf import _signed
from tilewright.asm.text.macros import split_arguments, without_comment
from tilewright.common.errors import AssemblyError
from tilewright.isa import load_table

CPE = load_table("sw26010_cpe")


def source(text: str, name: str) -> Object:
    return assemble(text, CPE, filename=name)


MAIN = source(
    ".globl main\nmain: bsr twice\nldih $1, hi(table + 8)($31)\nldw $2, lo(table + 8)($1)\nhalt\n"
    ".extern twice, table\n.data\n.byte 7\n",
    "main.s",
)
LIBRARY = source(
    ".globl twice, table\nnop\ntwice: addl $1, $1, $1\nret\n"
    ".data\n.balign 16\ntable: .quad 1, twice, table - 4\n.word after\nafter: .bss\n.space 64\n",
    "library.s",
)


def test_sections_are_joined_with_their_alignment() -> None:
    image = link([MAIN, LIBRARY], CPE)
    places = {s.name: (s.address, s.size_bytes, s.alignment_bytes) for s in image.sections}
    assert places == {".text": (65536, 28, 4), ".data": (0, 44, 16), ".bss": (44, 64, 1)}
    assert image.address_of("table") == 16
    assert image.address_of("twice") == 65536 + 20
    assert image.is_linked


def test_lines_move_with_the_bytes_that_they_made() -> None:
    image = link([MAIN, LIBRARY], CPE)
    placed = {(own.section, own.offset): own.instruction.line for own in image.instructions}
    lines = [line for line in image.lines if line.section == ".text" and line.size_bytes]
    assert {(line.section, line.offset): line.number for line in lines} == placed
    data = [line for line in image.lines if line.section == ".data" and line.size_bytes]
    assert [(line.text, line.offset, line.size_bytes) for line in data] == [
        (".byte 7", 0, 1),
        ("table: .quad 1, twice, table - 4", 16, 24),
        (".word after", 40, 4),
    ]


def test_relocations_are_applied() -> None:
    image = link([MAIN, LIBRARY], CPE)
    assert [placed.instruction.text() for placed in image.instructions] == [
        "bsr $26, 4",
        "ldih $1, 0($31)",
        "ldw $2, 24($1)",
        "halt",
        "nop",
        "addl $1, $1, $1",
        "ret $26",
    ]
    numbers = memoryview(image.section(".data").data[16:40]).cast("Q")
    assert list(numbers) == [1, 65536 + 20, 12]
    assert image.section(".data").data[40:] == (44).to_bytes(4, "little")


def test_high_and_low_halves_of_a_far_address() -> None:
    image = link([MAIN, LIBRARY], CPE, data_address=0x7FF0)
    assert image.instructions[1].instruction.text() == "ldih $1, 1($31)"
    assert image.instructions[2].instruction.text() == "ldw $2, -32760($1)"


def test_objects_from_files_link_to_the_same_image() -> None:
    files = [read_elf(elf_bytes(o), CPE) for o in (MAIN, LIBRARY)]
    image, again = link([MAIN, LIBRARY], CPE), link(files, CPE)
    assert again.sections == image.sections
    assert set(again.symbols) == set(image.symbols)
    assert [p.instruction for p in again.instructions] == [
        p.instruction for p in image.instructions
    ]


def test_local_names_may_repeat() -> None:
    one = source("x: br x\n.data\nd: .word d", "one.s")
    two = source("nop\nx: br x\n.data\nd: .word d", "two.s")
    image = link([one, two], CPE)
    assert image.section(".data").data == bytes(4) + (4).to_bytes(4, "little")


def refused(*objects: Object, **options: int) -> str:
    with pytest.raises(AssemblyError) as raised:
        link(objects, CPE, **options)
    return str(raised.value)


def test_undefined_symbols_are_all_named() -> None:
    lost = source(".extern twise, nothing\nbr twise\n.data\n.quad nothing", "lost.s")
    assert refused(lost, LIBRARY) == (
        "lost.s: undefined symbol 'twise' at .text+0x0; did you mean 'twice'?\n"
        "lost.s: undefined symbol 'nothing' at .data+0x0"
    )
    with pytest.raises(LinkErrors) as raised:
        link([lost, LIBRARY], CPE)
    assert len(raised.value.errors) == 2


def test_other_refusals() -> None:
    assert refused(LIBRARY, LIBRARY) == (
        "library.s: 'twice' is also defined in library.s\n"
        "library.s: 'table' is also defined in library.s"
    )
    assert refused() == "nothing to link; give at least one object"
    assert refused(link([LIBRARY], CPE)) == "library.s: it is linked already"
    other = source('.section .text2, "ax"\nnop', "a.s"), source('.section .text2, "aw"', "b.s")
    assert refused(*other, source('.section .text2, "aw"\n.byte 1', "c.s")) == (
        "c.s: section .text2 has other flags than in another object"
    )


def test_values_that_do_not_fit() -> None:
    big = source(".bss\n.space 65537", "big.s")
    assert refused(big) == (
        "data and zeros end at 65537 bytes, the local memory has 65536; save 1 bytes"
    )
    far = source(".extern table\nldi $1, table($31)\n.data\n.byte table", "far.s")
    assert refused(far, LIBRARY, data_address=40000) == (
        "far.s: 'table' at .text+0x0: value of 40016 is outside -32768 .. 32767 of ldi; "
        "use hi() and lo()\n"
        "far.s: 'table' at .data+0x0: address 0x9c50 does not fit 1 bytes"
    )
    odd = source(".extern odd\nbr odd", "odd.s"), source(".globl odd\n.set odd, 65538", "value.s")
    assert refused(*odd) == (
        "odd.s: 'odd' at .text+0x0: branch target 0x10002 is not aligned to 4 bytes; "
        "write .balign 4 before the label"
    )


@pytest.mark.parametrize(("directive", "size"), [("byte", 1), ("word", 4)])
def test_an_address_as_data_is_a_signed_or_an_unsigned_number(directive: str, size: int) -> None:
    def linked(value: int) -> list[Object]:
        text = f".data\n.{directive} far + {value - 100}\n.extern far"
        return [source(text, "data.s"), source(".globl far\n.set far, 100", "far.s")]

    least, most = -(1 << 8 * size - 1), (1 << 8 * size) - 1
    for value in (least, -1, 0, most):
        data = link(linked(value), CPE).section(".data").data
        assert int.from_bytes(data, "little") == value % (most + 1)
    for value in (least - 1, most + 1):
        assert refused(*linked(value)) == (
            f"data.s: 'far' at .data+0x0: address {value:#x} does not fit {size} bytes"
        )


@pytest.mark.parametrize("value", [0, 1, 63, 64, 127, 128, 8191, 8192, -1, -64, -65, -8192, -8193])
def test_signed_numbers_of_a_line_table_take_the_fewest_bytes(value: int) -> None:
    """Seven bits a byte, the last one with the sign (DWARF 3, section 7.6)."""
    *low, last = _signed(value)
    assert all(byte & 0x80 for byte in low)
    found = last - 0x80 if last & 0x40 else last
    for byte in reversed(low):
        found = found << 7 | byte & 0x7F
    assert found == value
    assert len(low) == (value if value >= 0 else ~value).bit_length() // 7


def test_room_for_nothing_takes_none() -> None:
    made = source(".data\n.space 0\nx: .byte 1\n.space 2, 7\n", "room.s")
    assert made.section(".data").data == bytes([1, 7, 7])


def test_a_half_of_an_address_has_no_difference_from_another() -> None:
    assert source(".data\nd: .quad (d + 3) - d", "d.s").section(".data").data[0] == 3
    for halves in ("hi(d) - hi(d)", "lo(d) - d", "d - lo(d)"):
        with pytest.raises(SourceErrors, match=r"the difference of d and d is not known here"):
            source(f".data\nd: .quad {halves}", "d.s")


@pytest.mark.parametrize("a", [0, 1, -4])
@pytest.mark.parametrize("b", [0, 1, -4])
def test_conditions_are_one_or_zero(a: int, b: int) -> None:
    operators = ("||", "&&", "<", "<=", ">", ">=", "==", "!=")
    texts = ", ".join(f"{a} {operator} {b}" for operator in operators)
    made = source(f".data\n.byte {texts}", "c.s").section(".data").data
    both = [bool(a) or bool(b), bool(a) and bool(b)]
    assert list(made) == [*both, a < b, a <= b, a > b, a >= b, a == b, a != b]


def test_commas_in_brackets_and_quotes_part_nothing() -> None:
    assert split_arguments('(a, b), "c, d", [e, (f)], g', "([)]") == [
        "(a, b)", '"c, d"', "[e, (f)]", "g",
    ]  # fmt: skip
    assert split_arguments('"a, b", c', "()") == ['"a, b"', "c"]
    assert split_arguments(", a", "()") == ["", "a"]


@pytest.mark.parametrize(
    "code",
    ["", "m a, b", '"#", 1', "'#', 1", r"'\'', 1", r'"\"#", 1', "'a #", "it's"],
)
def test_a_comment_begins_at_a_mark_outside_quotes(code: str) -> None:
    kept = code.partition("#")[0] if code == "'a #" else code
    for comment in ("", "#", "# a 'b' \"c\"", "// d # e"):
        assert without_comment(code + comment, ("#", "//")) == kept


def test_without_a_memory_data_has_no_limit_and_code_lies_behind_it() -> None:
    table = structs.replace(CPE, memories=())
    text = "nop\n.data\n.byte 7\n.bss\n.balign 8\n.space 1 << 20\n"
    image = link([assemble(text, table)], table)
    places = {section.name: section.address for section in image.sections}
    assert places == {".text": 8 + (1 << 20), ".data": 0, ".bss": 8}
