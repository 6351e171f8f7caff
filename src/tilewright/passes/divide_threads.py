"""Divide the loops of a program among threads that share its memory.

In: an instantiated program, the loops that neighbouring nests share, the number of threads. Out:
the same with each nest's loops divided as `ir.threads` says. Statements that no loop divides are
executed by one thread, as the only iteration of a divided loop.

before:  for row in range(28): gemm(...)
after:   for row in range(28, threads=2): gemm(...)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.common.expr import Const
from tilewright.ir.nodes import Barrier, For, Program, Stmt
from tilewright.ir.threads import loop_chain, occupies, parts_of
from tilewright.ir.visit import walk

ALONE = "alone"
"""The loop around what one thread does."""


@dataclass(frozen=True)
class DivideThreads:
    """Divides loops among `threads`; nests share the loops named in `together`."""

    name: ClassVar[str] = "divide_threads"
    together: frozenset[str]
    threads: int

    def apply(self, program: Program) -> Program:
        """The program divided among threads, `together` in loops that several nests share."""
        if self.threads == 1:
            return program
        return replace(program, body=_body(program.body, self.together, self.threads))


def _body(body: tuple[Stmt, ...], together: Collection[str], threads: int) -> tuple[Stmt, ...]:
    """Nest by nest, as barriers part them."""
    result: list[Stmt] = []
    nest: list[Stmt] = []
    for stmt in (*body, Barrier()):
        if isinstance(stmt, Barrier):
            result += [*_nest(tuple(nest), together, threads), stmt]
            nest = []
        else:
            nest.append(stmt)
    return tuple(result[:-1])


def _nest(body: tuple[Stmt, ...], together: Collection[str], threads: int) -> tuple[Stmt, ...]:
    match body:
        case (For(var, Const(count)) as loop,) if var in together:
            if occupies(count, threads):
                return (replace(loop, threads=threads),)
            if any(isinstance(stmt, Barrier) for stmt in walk(loop.body)):
                return (replace(loop, body=_body(loop.body, together, threads)),)
            return (replace(loop, body=_nest(loop.body, together, threads)),)
    chain = loop_chain(body)
    counts = [loop.extent.value if isinstance(loop.extent, Const) else 1 for loop, _ in chain]
    parts = parts_of(counts, [divisible for _, divisible in chain], 0, threads)
    divided = {loop.var: int(p) for (loop, _), p in zip(chain, parts, strict=True) if p > 1}
    if not divided:
        return (For(ALONE, Const(1), body, threads),) if body else ()
    return _marked(body, divided)


def _marked(body: tuple[Stmt, ...], divided: dict[str, int]) -> tuple[Stmt, ...]:
    """The body with the loops' parts."""
    return tuple(
        replace(s, threads=divided.get(s.var, 1), body=_marked(s.body, divided))
        if isinstance(s, For)
        else s
        for s in body
    )
