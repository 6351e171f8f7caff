"""Buffers have addresses in memories of the core, and end inside them."""

from __future__ import annotations

import pytest

from tilewright.codegen.c.names import buffer_end, buffer_infos
from tilewright.common.errors import CapacityError, ProgramError
from tilewright.ir.parser import parse

PROGRAM = """\
def p():
    a: buffer("f64", 8, copies=2, offset_bytes=0)
    b: buffer("f32", 6, offset_bytes=128)
    barrier()
"""


def test_a_buffer_ends_behind_its_last_slot() -> None:
    infos = buffer_infos(parse(PROGRAM), {"spm": 152})
    assert [(info.name, buffer_end(info)) for info in infos] == [("a", 128), ("b", 152)]


def test_a_buffer_beyond_its_memory_is_refused() -> None:
    with pytest.raises(CapacityError) as refused:
        buffer_infos(parse(PROGRAM), {"spm": 151})
    assert str(refused.value) == (
        "buffer 'b' ends at byte 152 of the scratchpad, 151 are available to buffers; "
        "choose smaller tiles or fewer copies"
    )
    with pytest.raises(ProgramError, match=r"^buffer 'a' lies in .*, which the core lacks;"):
        buffer_infos(parse(PROGRAM), {"vector": 1000})
    with pytest.raises(ProgramError, match=r"^buffer 'a' has no address in the scratchpad; run "):
        buffer_infos(parse(PROGRAM.replace(", offset_bytes=0", "")), {"spm": 1000})
