"""Objects as text: data in rows of bytes, long runs as space, labels where they stand."""

from __future__ import annotations

import pytest

from tilewright.asm import assemble, disassemble
from tilewright.asm.disassemble import _equal_bytes
from tilewright.isa import load_table

CPE = load_table("sw26010_cpe")

ROW = ", ".join(["0x00"] * 16)
TEXT = f"""\
	.globl main
	.globl first
	.set limit, -3
	.extern table
	.text
	.balign 4
main:
	nop
	.data
	.balign 2
	.byte {ROW}
	.byte 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00
run:
	.space 32
filled:
	.space 5000, 0x07
	.byte 0x01, 0x02
far:
	.quad table+4
	.section odd, "a", @progbits
	.byte 0xff
	.bss
	.balign 8
first:
second:
	.space 8
third:
	.space 12
last:
"""


def test_the_text_of_an_object_is_that_of_its_bytes() -> None:
    assert disassemble(assemble(TEXT, CPE), CPE) == TEXT


@pytest.mark.parametrize("count", [1, 2, 4095, 4096, 4097, 8192, 9000])
@pytest.mark.parametrize("end", [0, 1, 5000])
def test_equal_bytes_are_counted_up_to_another_one_or_the_end(count: int, end: int) -> None:
    data = b"ab" + b"x" * count + b"y"
    assert _equal_bytes(data, 2, len(data)) == count
    assert _equal_bytes(data, 2, 2 + min(end, count)) == min(end, count)
