"""Rewrites of programs, before and after."""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir.nodes import Barrier, Stmt, Wait
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.ir.visit import rewrite

BEFORE = """\
def p(n):
    barrier()
    for i in range(n):
        if i < 3:
            barrier()
        else:
            wait(tile[i])
        wait(tile[0])
"""
AFTER = """\
def p(n):
    barrier()
    barrier()
    for i in range(n):
        if i < 3:
            barrier()
            barrier()
"""


def test_statements_are_replaced_from_the_inside_out() -> None:
    """Barriers by two, waits by nothing; a loop is given with what its body has become."""
    given: list[Stmt] = []

    def replaced(stmt: Stmt) -> tuple[Stmt, ...] | None:
        given.append(stmt)
        match stmt:
            case Barrier():
                return (stmt, stmt)
            case Wait():
                return ()
            case _:
                return None

    program = parse(BEFORE)
    body = rewrite(program.body, replaced)
    assert print_program(replace(program, body=body)) == AFTER
    assert given[-1] == body[-1]
