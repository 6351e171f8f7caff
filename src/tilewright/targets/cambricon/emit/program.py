"""A program of the loop IR as DLA-AL: its loops, transfers and calls in order.

In: an explicit program. Out: the text of a source file, and the statement that each line belongs
to. Hardware orders operations on the same elements, so waits need no statements. Loops with a
shorter last turn are written twice, since instructions need known sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import lcm
from typing import assert_never

from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.common.expr import BinaryExpr, Const, Expr, Var, binary, free_vars, period
from tilewright.ir.nodes import Barrier, Call, For, If, Program, Stmt, Transfer, View, Wait
from tilewright.ir.regions import Repeat, split_region
from tilewright.ir.visit import expressions, map_body, rewrite, walk
from tilewright.targets.cambricon.emit.assembly import ProgramText
from tilewright.targets.cambricon.emit.calls import UNROLLED_TURNS, Context, repeated, write_call
from tilewright.targets.cambricon.emit.places import moved_places

_LAST = 11
"""Most last turns of a loop that may differ from the others: the rows of a window."""
_MNEMONICS = {
    ("get", "vector"): "vload",
    ("get", "matrix"): "mload",
    ("put", "vector"): "vstore",
    ("put", "matrix"): "mstore",
}


def emit_body(program: Program, symbols: Mapping[str, str], labels: str = ".L") -> tuple[str, ...]:
    """The statements of a program; `symbols` name its tensors in the source, `labels` prefixes its
    labels. Raises ProgramError for operations without instructions.
    """
    try:
        return _Writer(program, symbols, ProgramText(labels)).whole()
    except ProgramError:  # perhaps for lack of registers
        return _Writer(program, symbols, ProgramText(labels, frugal=True)).whole()


@dataclass
class _Writer:
    """Writes statements of one program."""

    program: Program
    symbols: Mapping[str, str]
    out: ProgramText

    @property
    def context(self) -> Context:
        return Context(self.program, self.out)

    def whole(self) -> tuple[str, ...]:
        """The statements of the program."""
        self.body(self.program.body)
        return self.out.lines()

    def body(self, body: Sequence[Stmt]) -> None:
        """Write statements in order."""
        for stmt in body:
            self._statement(stmt)

    def _statement(self, stmt: Stmt) -> None:
        self.out.begin()
        match stmt:
            case For():
                self._loop(stmt)
            case If(condition, then, orelse):
                self._branch(condition, then, orelse)
            case Transfer():
                self._transfer(stmt)
            case Call():
                self.out.comment(_title(stmt))
                write_call(stmt, self.context)
            case Wait() | Barrier():
                pass
            case _:
                assert_never(stmt)

    def _loop(self, loop: For) -> None:
        condition = self._condition(loop)
        if condition is not None:
            self._branch(condition, *((_where(loop, condition, i),) for i in (True, False)))
            return
        count = self.context.number(loop.extent)
        turns = _period(loop)
        if turns > 1:
            self._in_periods(loop, count, turns)
            return
        used = any(loop.var in free_vars(e) for s in walk(loop.body) for e in expressions(s))
        alone = any(isinstance(s, For) for s in walk(loop.body))
        for low, high in self._written_parts(loop, count):
            places = partial(self._moved, loop)
            with self.out.loop(loop.var, low, high, places, used=used, alone=alone):
                self.body(loop.body)

    def _condition(self, loop: For) -> Expr | None:
        """A condition in a perfect loop nest's innermost body that depends on none of the loops, if
        any. Moved outside, it leaves turns without branches, and places can move.
        """
        variables, body = {loop.var}, _executed(loop.body)
        while len(body) == 1 and isinstance(inner := body[0], For):
            variables, body = {*variables, inner.var}, _executed(inner.body)
        if any(isinstance(s, For) for s in body):
            return None
        tests = (s.condition for s in body if isinstance(s, If))
        same = (e for e in tests if not free_vars(e) & variables)
        return next((e for e in same if self.out.constant(e) is None), None)

    def _written_parts(self, loop: For, count: int) -> Iterator[tuple[int, int]]:
        """The parts of a loop; in innermost loops, parts of few turns are written turn by turn."""
        inmost = not self._has_many_turns(loop.body)
        for low, high in self._parts(loop, count):
            step = 1 if inmost and high - low <= UNROLLED_TURNS else max(1, high - low)
            yield from ((turn, turn + step) for turn in range(low, high, step))

    def _in_periods(self, loop: For, count: int, period: int) -> None:
        """A loop whose turns repeat with a period: the turns of one period are written out."""
        whole = count // period
        turns = (_turn(loop, period, number) for number in range(period))
        self._loop(replace(loop, extent=Const(whole), body=tuple(s for t in turns for s in t)))
        for number in range(whole * period, count):
            with self.out.loop(loop.var, number, number + 1):
                self.body(loop.body)

    def _parts(self, loop: For, count: int) -> Iterator[tuple[int, int]]:
        """Ranges of turns with equal extents and, if at most one loop is inside, equal branches:
        all turns, all but the first or some last ones, or single turns.
        """
        for last, first in product(range(_LAST + 1), (0, 1)):
            self.out.bounds[loop.var] = (first, max(first, count - 1 - last))
            if self._is_even(loop.body, loop.var):
                del self.out.bounds[loop.var]
                yield 0, first
                yield first, count - last
                yield from ((i, i + 1) for i in range(max(first, count - last), count))
                return
        del self.out.bounds[loop.var]
        yield from ((i, i + 1) for i in range(count))

    def _is_even(self, body: Sequence[Stmt], variable: str) -> bool:
        """True if no extent in the body varies over the loop's turns, and no branch does if the
        loop is one of the two innermost or its inner loops have few turns.
        """
        statements = [*walk(tuple(body))]
        loops = sum(isinstance(s, For) for s in statements)
        inmost = loops < 2 or not self._has_many_turns(body)
        known = [e for s in statements for e in _extents(s)]
        known += [s.condition for s in statements if isinstance(s, If) and inmost]
        return all(variable not in free_vars(self.out.folded(e)) for e in known)

    def _has_many_turns(self, body: Sequence[Stmt]) -> bool:
        """True if a loop inside has more turns than are unrolled."""
        turns = (self.out.constant(s.extent) for s in walk(tuple(body)) if isinstance(s, For))
        return any(count is None or count > UNROLLED_TURNS for count in turns)

    def _branch(self, condition: Expr, then: Sequence[Stmt], orelse: Sequence[Stmt]) -> None:
        known = self.out.constant(condition)
        if known is not None:
            self.body(then if known else orelse)
            return
        register = self.out.register(condition)
        self.out.choice(register, partial(self.body, then), partial(self.body, orelse))

    def _moved(self, loop: For) -> Iterator[tuple[Expr, int | Expr]]:
        return moved_places(self._places(loop.body), loop.var)

    def _places(self, body: Sequence[Stmt]) -> list[Expr]:
        """Starts of operands of the statements executed whenever the body is, including those in
        fully unrolled loops and in a loop that is the whole body.
        """
        found: list[Expr] = []
        for stmt in body:
            match stmt:
                case Transfer():
                    found += self._ends(stmt)
                case Call():
                    found += (self.context.span(o).start for o in stmt.operands)
                case If(condition, then, orelse):
                    known = self.out.constant(condition)
                    found += () if known is None else self._places(then if known else orelse)
                case For() if _period(stmt) == 1:
                    parts = [*self._written_parts(stmt, self.context.number(stmt.extent))]
                    inmost = not any(isinstance(s, For) for s in walk(stmt.body))
                    alone = inmost and len(_executed(body)) == 1
                    for low, _ in parts if alone or all(b - a == 1 for a, b in parts) else ():
                        with self.out.loop(stmt.var, low, low + 1):
                            found += self._places(stmt.body)
                case _:
                    pass
        return [self.out.folded(e) for e in found]

    def _ends(self, stmt: Transfer) -> tuple[Expr, Expr]:
        """Starts of a transfer in its buffer's memory and in its tensor."""
        tensor, buffer = self.program.tensor(stmt.tensor), self.program.buffer(stmt.buffer)
        place = Const((buffer.offset_bytes or 0) // dtype(buffer.dtype).size_bytes)
        start: Expr = Const(0)
        stride = 1
        for extent, r in reversed(list(zip(tensor.shape, stmt.ranges, strict=True))):
            start = start + r.start * stride
            stride *= self.context.number(extent)
        return place + stmt.slot * buffer.elements + stmt.first, start

    def _transfer(self, stmt: Transfer) -> None:
        """One instruction per contiguous block."""
        context, program = self.context, self.program
        tensor, buffer = program.tensor(stmt.tensor), program.buffer(stmt.buffer)
        repeats: list[Repeat] = []
        stride = 1
        for extent, r in reversed(list(zip(tensor.shape, stmt.ranges, strict=True))):
            repeats.insert(0, Repeat(context.number(r.extent), stride * context.number(r.step)))
            stride *= context.number(extent)
        if any(r.count == 0 for r in repeats):
            return
        blocks = split_region(repeats, 1)
        mnemonic = _MNEMONICS.get((stmt.direction, buffer.space))
        if mnemonic is None:
            raise ProgramError(f"no instruction moves the {buffer.space} scratchpad to main memory")
        axes: list[tuple[int, tuple[int, int]]] = []
        inner = int(blocks.length)
        for repeat in reversed((*blocks.outer, Repeat(blocks.count, blocks.stride))):
            if repeat.count != 1:
                axes.insert(0, (int(repeat.count), (inner, int(repeat.stride))))
            inner *= int(repeat.count)
        symbol, length = self.symbols[tensor.memory], int(blocks.length)
        self.out.comment(f"{stmt.direction} {stmt.tensor}")

        def write(starts: Sequence[Expr]) -> None:
            local, size = self.out.register(starts[0]), self.out.register(Const(length))
            known = self.out.constant(starts[1])
            if known is not None:
                self.out.write(mnemonic, local, size, f"#{symbol}+{known}")
            else:
                base = self.out.register(starts[1])
                self.out.write(mnemonic, local, size, base, f"#{symbol}")

        repeated(context, axes, self._ends(stmt), write)


def _executed(body: Sequence[Stmt]) -> list[Stmt]:
    """The statements that produce code."""
    return [s for s in body if not isinstance(s, Wait | Barrier)]


def _where(loop: For, condition: Expr, holds: bool) -> Stmt:
    """The loop specialised for a condition that holds, or does not."""

    def taken(stmt: Stmt) -> tuple[Stmt, ...] | None:
        if not isinstance(stmt, If) or stmt.condition != condition:
            return None
        return stmt.then if holds else stmt.orelse

    return rewrite((loop,), taken)[0]


def _period(loop: For) -> int:
    """Turns after which the conditions in a loop repeat."""
    conditions = (s.condition for s in walk(loop.body) if isinstance(s, If))
    return lcm(*(period(e, loop.var) for e in conditions))


def _turn(loop: For, period: int, number: int) -> tuple[Stmt, ...]:
    """The body in one turn of a period; the loop then counts periods."""

    def own(e: Expr) -> Expr:
        match e:
            case BinaryExpr("%", Var(name), Const(n)) if name == loop.var and period % n == 0:
                return Const(number % n)
            case Var(name) if name == loop.var:
                return e * period + number
            case BinaryExpr(op, a, b):
                return binary(op, own(a), own(b))
            case _:
                return e

    return map_body(loop.body, own)


def _title(call: Call) -> str:
    names = [o.buffer if isinstance(o, View) else o.tensor for o in call.operands]
    return f"{call.primitive.name} {', '.join(names)}"


def _extents(stmt: Stmt) -> Iterator[Expr]:
    """Expressions that must be known where a statement is written."""
    match stmt:
        case For():
            yield stmt.extent
        case Transfer():
            yield from (r.extent for r in stmt.ranges)
        case Call():
            for operand in stmt.operands:
                yield from (r.extent for r in operand.ranges)
                if isinstance(operand, View):
                    yield from operand.shape
        case _:
            return
