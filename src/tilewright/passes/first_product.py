"""Let the first product of a reduction overwrite C instead of zeroing it first.

In: a staged program. Out: the program with each zero fill of a result sunk to the first of its
products (`ir.chains`). There the fill becomes part of the product, which neither zeroes C nor reads
it.

before:  fill(c); for k: get(a[k] -> a); gemm(c, a, b)
after:   for k: get(a[k] -> a); if k == 0: fill(c)
                gemm(c, a, b)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.common.expr import Const, Var, all_of, binary, free_vars
from tilewright.ir.chains import Chain, ZeroFill, chain_at, memory_of, zero_fill
from tilewright.ir.nodes import Call, For, If, Program, Stmt, Transfer
from tilewright.ir.primitives import Fill
from tilewright.ir.visit import walk


@dataclass(frozen=True)
class FirstProduct:
    """Sinks zero fills to where products begin."""

    name: ClassVar[str] = "first_product"

    def apply(self, program: Program) -> Program:
        """The program with zero fills sunk to just before their products, where possible."""
        return replace(program, body=_body(program.body))


def _body(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body with fills sunk: first in inner loops, then the first possible one of this list."""
    body = tuple(replace(s, body=_body(s.body)) if isinstance(s, For) else s for s in body)
    for place, stmt in enumerate(body):
        fill = zero_fill(stmt)
        if fill is None:
            continue
        sunk = _sunk(body[place + 1 :], fill, ())
        if sunk is not None:
            rest = (If(fill.condition, (), fill.otherwise),) if fill.otherwise else ()
            return (*body[:place], *rest, *sunk)
    return body


def _sunk(
    body: tuple[Stmt, ...], fill: ZeroFill, passed: tuple[str, ...]
) -> tuple[Stmt, ...] | None:
    """The statements with the fill just before the products; None if another statement uses C
    before these. `passed` are the loops that the fill has been moved into.
    """
    memory = memory_of(fill.operand)
    place = next((i for i, s in enumerate(body) if _touches(s, memory)), len(body))
    if place == len(body):
        return None
    found, stmt = chain_at(body, place), body[place]
    if found is not None:
        return (*body[:place], _at_start(found[0], fill, passed), *body[place:])
    if not isinstance(stmt, For):
        return None
    inner = _sunk(stmt.body, fill, (*passed, stmt.var))
    if inner is None:
        return None
    return (*body[:place], replace(stmt, body=inner), *body[place + 1 :])


def _touches(stmt: Stmt, memory: str) -> bool:
    for inner in walk((stmt,)):
        match inner:
            case Call(_, operands) if memory in map(memory_of, operands):
                return True
            case Transfer(_, tensor, _, buffer) if memory in (tensor, buffer):
                return True
            case _:
                pass
    return False


def _at_start(chain: Chain, fill: ZeroFill, passed: tuple[str, ...]) -> Stmt:
    """The fill of the chain's C, guarded by the first iteration of the loops that revisit C."""
    c = chain.call.operands[0]
    kept = frozenset[str]().union(*(free_vars(r.start) for r in c.ranges))
    firsts = (binary("==", Var(loop), 0) for loop in passed if loop not in kept)
    letters = "".join(chr(ord("a") + i) for i in range(len(c.ranges)))
    zero = Call(Fill(), (replace(c, roles=letters),))
    condition = all_of((fill.condition, *firsts))
    return zero if condition == Const(1) else If(condition, (zero,))
