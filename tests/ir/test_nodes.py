"""Looking things up in a program."""

import pytest

from support.explicit_programs import GEMM
from tilewright.common.errors import ProgramError
from tilewright.ir.nodes import Tensor, memory_words
from tilewright.ir.parser import parse

PROGRAM = parse(GEMM)
EMPTY = parse("def p():\n    barrier()")


def test_declarations_by_name():
    assert PROGRAM.tensor("b").dims == ("k", "n")
    assert PROGRAM.buffer("c_tile").offset_bytes == 2048


def test_a_program_is_given_inputs_and_constants_and_has_the_rest_as_results():
    kinds = ("input", "constant", "output", "updated", "scratch")
    made = [Tensor("x", "f64", kind, (), ()) for kind in kinds]
    assert [x.kind for x in made if x.is_given] == ["input", "constant"]
    assert [x.kind for x in made if x.is_result] == ["output", "updated"]


def test_a_memory_is_told_by_its_name_unless_it_is_the_default():
    assert [memory_words(name) for name in ("spm", "synapse")] == ["scratchpad", "memory 'synapse'"]


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
