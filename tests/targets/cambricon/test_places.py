"""Places of operands: few statements, those that move in a loop by one."""

from __future__ import annotations

import pytest

from tilewright.common.expr import Const, Expr, Var
from tilewright.targets.cambricon.emit.assembly import ProgramText
from tilewright.targets.cambricon.emit.places import moved_places

TURN, K = Var("i"), Var("k")


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (8 + (TURN + 1) * 2 * 38, "i * 76 + 84"),
        ((K * 240 + TURN * 3 + 1) % 2, "(i + 1) % 2"),
        ((TURN - 1) % 16, "(i + 15) % 16"),
        (Const(3) * TURN - 5, "i * 3 - 5"),
    ],
    ids=str,
)
def test_constants_are_added_last(e: Expr, expected: str):
    """Factors of a modulus are left out."""
    out = ProgramText()
    out.bounds |= {"i": (1, 90), "k": (0, 9)}
    assert str(out.folded(e)) == expected


def test_parts_that_move():
    """By a stride, or so that two values in turn have one sum; what one statement computes is left,
    and so is what differs from turn to turn.
    """
    places = [TURN * 40 + K + 3, TURN * 40 + K + 9, TURN % 2 * 8 + K, TURN * 7, TURN // 2 + 1]
    found = [(str(e), str(move)) for e, move in moved_places(places, "i")]
    assert found == [("i * 40 + k + 3", "40"), ("i % 2 * 8 + k", "k * 2 + 8")]


def test_one_statement_moves_each_place():
    """A slot of two is turned over; places that are a constant apart share a register."""
    out = ProgramText()
    slot, start = 16 + TURN % 2 * 40, (TURN + 1) * 2 * 38
    places = [out.folded(e) for e in (slot, start, start + 5)]
    with out.loop("i", 0, 4, lambda: moved_places(places, "i")), out.statement():
        out.write("vload", *map(out.register, (slot, start, start + 5)))
    assert (
        "\n".join(out.lines())
        == """\
  smove $0, #0
  smove $1, #16
  smove $2, #76
  smove $3, #72
  smove $5, $1
  smove $6, $2
  smove $7, #4
.L0:
    sadd $8, $6, #5
    ssub $7, $7, #1
    vload $5, $6, $8
    ssub $5, $3, $5
    sadd $6, $6, #76
    cb $7, .L0"""
    )


def test_constants_of_a_program_stand_behind_its_first_operations():
    """The third one waits for the first and the fourth for the second: what they need is computed
    meanwhile.
    """
    out, places = ProgramText(), [Const(10 * number) for number in range(1, 5)]
    registers = [out.register(place) for place in places]
    for mnemonic, register in zip(("vload", "mload", "vav", "vstore"), registers, strict=True):
        out.write(mnemonic, register)
    assert (
        "\n".join(out.lines())
        == """\
  smove $0, #10
  vload $0
  smove $1, #20
  mload $1
  smove $2, #30
  vav $2
  smove $3, #40
  vstore $3"""
    )


def test_addresses_are_computed_where_operations_wait():
    """One operation waits for the one before the last: the map for the transfer, the store for the
    product, the next transfer for both.
    """
    out = ProgramText()
    with out.turns(4, [Const(0), Const(100)], [8, 8]) as (x, y), out.statement():
        for mnemonic, e in (("vload", x), ("mmv", x + 40), ("vav", y + 3), ("vstore", y)):
            out.begin()
            out.write(mnemonic, out.register(e))
    assert (
        "\n".join(out.lines()[5:])
        == """\
.L0:
    vload $2
    sadd $5, $2, #40
    sadd $6, $3, #3
    mmv $5
    sadd $2, $2, #8
    ssub $4, $4, #1
    vav $6
    vstore $3
    sadd $3, $3, #8
    cb $4, .L0"""
    )


@pytest.mark.parametrize(("held", "loops"), [(0, 1), (45, 1), (46, 2), (51, 2), (52, 3)])
def test_the_fewer_registers_are_free_the_further_inside_a_value_is_computed(held, loops):
    """With 12 free ones in the loop that it depends on, with 6 just outside the innermost one: of
    64, those that are held and seven of the three loops are taken.
    """
    out = ProgramText()
    for number in range(held):
        out.register(Const(1000 + number))
    with out.loop("i", 0, 3), out.loop("j", 0, 4), out.loop("k", 0, 5), out.statement():
        out.write("vload", out.register(TURN * 7))
    (line,) = (line for line in out.lines() if "smul" in line)
    assert line.index("smul") // 2 == loops + 1
