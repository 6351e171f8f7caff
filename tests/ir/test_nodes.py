"""Looking things up in a program."""

import pytest

from support.explicit_programs import GEMM
from tilewright.common.errors import ProgramError
from tilewright.ir.parser import parse

PROGRAM = parse(GEMM)
EMPTY = parse("def p():\n    barrier()")


def test_declarations_by_name():
    assert PROGRAM.tensor("b").dims == ("k", "n")
    assert PROGRAM.buffer("c_tile").offset_bytes == 2048


@pytest.mark.parametrize(
    ("look_up", "message"),
    [
        (PROGRAM.tensor, "program 'gemm' has no tensor 'x'; its tensors are a, b, c"),
        (
            PROGRAM.buffer,
            "program 'gemm' has no buffer 'x'; its buffers are a_tile, b_tile, c_tile",
        ),
        (EMPTY.buffer, "program 'p' has no buffer 'x'; its buffers are none"),
    ],
)
def test_unknown_names(look_up, message):
    with pytest.raises(ProgramError) as caught:
        look_up("x")
    assert str(caught.value) == message
