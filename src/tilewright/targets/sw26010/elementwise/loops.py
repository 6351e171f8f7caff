"""The six loops around the routines of maps and reductions; the innermost one is a row.

In: registers, and the code for a row's items. Out: blocks of a routine's text. The caller gives the
pointer steps of each loop; counters of the outer loops are in the frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tilewright.isa import Instruction
from tilewright.targets.sw26010.elementwise.code import (
    LINK,
    STACK,
    RoutineCode,
    move,
    op,
    saved,
    with_number,
)

LEVELS, WORD = 6, 8
COUNT, EXTENT, ROWS_LEFT = 18, 20, 27
"""Registers: the extents of all loops, the extent of a row, the iterations left over rows."""
SAVED_AT = 64
"""Offset of the register save area in the frame."""
_IN_MEMORY = LEVELS - 2
_STACK_AT = 40
Block = tuple[str, list[Instruction]]
"""Straight code with its label, which may be empty."""


@dataclass(frozen=True)
class RowPart:
    """A step of `elements` elements of a row; the labels of its blocks start with a prefix, and
    `rest` names the one for the end of a row.
    """

    rest: str
    elements: int
    blocks: Callable[[str], Sequence[Block]]


@dataclass(frozen=True)
class Loops:
    """The registers of a nest: `left` counts within a row, `outside` is 0 if there is one row,
    `spare` is free between rows. `moved` advances every pointer to the next iteration of a loop. A
    row that `asks_for_rest` passes over all parts behind its loop at once if it ends there.
    """

    code: RoutineCode
    left: int
    outside: int
    spare: int
    moved: Callable[[int], list[Instruction]]
    asks_for_rest: bool = False

    def counted(self, turns: deque[int], *, rows_only: bool = False) -> list[Instruction]:
        """Load counters of the loops around a row, or only of the one over rows, through registers
        in turn; `outside` is 0 for one row, negative if a loop is empty.
        """
        code = []
        for level in range(LEVELS - 1):
            register = ROWS_LEFT if level == _IN_MEMORY else turns[0]
            turns.rotate(-1)
            code.append(op("ldl", register, (WORD * level, COUNT)))
            if level < _IN_MEMORY and not rows_only:
                code.append(op("stl", register, (WORD * level, STACK)))
            code += [with_number("subl", register, 1, turns[0])]
            code += [op("or", self.outside, turns[0], self.outside)]
            turns.rotate(-1)
        return code

    def started(self, turns: deque[int]) -> list[Instruction]:
        """Load counters of the loops around the one over rows, through registers in turn."""
        code = []
        for level in range(_IN_MEMORY):
            code.append(op("ldl", turns[0], (WORD * level, COUNT)))
            code.append(op("stl", turns[0], (WORD * level, STACK)))
            turns.rotate(-1)
        return code

    def rows(self, mode: str, opening: Sequence[Instruction], parts: Sequence[RowPart]) -> None:
        """The loop over rows in one mode: the first part does as much of a row as `opening` counts,
        and parts of half the size each do the rest.
        """
        most, *fewer = parts
        follows = [*(f"{mode}_rest_{part.rest}" for part in fewer), f"{mode}_next"]
        first = f"{mode}_rest" if self.asks_for_rest else follows[0]
        self.code.block(f"{mode}_row", [*opening, op("beq", self.left, first)])
        group = f"{mode}_group"
        count = [with_number("subl", self.left, 1, self.left), op("bne", self.left, group)]
        self._write(group, [*most.blocks(group), ("", count)])
        if self.asks_for_rest:
            some = with_number("and", EXTENT, most.elements - 1, self.left)
            self.code.block(first, [some, op("beq", self.left, follows[-1])])
        for part, label, following in zip(fewer, follows, follows[1:], strict=False):
            test = with_number("and", EXTENT, part.elements, self.left)
            self.code.block(label, [test, op("beq", self.left, following)])
            self._write("", part.blocks(label))
        self._next_row(mode)

    def _write(self, label: str, blocks: Iterable[Block]) -> None:
        """Write the blocks; one without a label joins the one before, unless a branch ends that."""
        joined: list[Block] = [(label, [])]
        for name, code in blocks:
            before = joined[-1][1]
            if name or (before and before[-1].is_branch):
                joined.append((name, list(code)))
            else:
                before.extend(code)
        for name, code in joined:
            self.code.block(name, code)

    def _next_row(self, mode: str) -> None:
        """Advance to the next row, through as many levels of the nest as have ended."""
        self.code.block(f"{mode}_next", [op("beq", self.outside, "done")])
        row = f"{mode}_row"
        count = with_number("subl", ROWS_LEFT, 1, ROWS_LEFT)
        self.code.block("", [*self.moved(_IN_MEMORY), count, op("bne", ROWS_LEFT, row)])
        for level in reversed(range(_IN_MEMORY)):
            inner, left, spare = WORD * (level + 1), self.left, self.spare
            again = [op("ldl", ROWS_LEFT, (inner, COUNT))]
            if level + 1 < _IN_MEMORY:
                again = [op("ldl", spare, (inner, COUNT)), op("stl", spare, (inner, STACK))]
            code = [op("ldl", left, (WORD * level, STACK)), *again, *self.moved(level)]
            code += [with_number("subl", left, 1, left), op("stl", left, (WORD * level, STACK))]
            self.code.block("", [*code, op("bne", left, row)])
        self.code.block("", [op("br", "done")])


def framed(size: int, registers: Sequence[int], place: int) -> list[Instruction]:
    """Allocate a stack frame of a number of bytes; of whole vectors if registers are saved."""
    if not registers:
        return [move(STACK, STACK, -size)]
    code = [move(STACK, 5), move(STACK, 6, -size), with_number("srl", 6, 5, 6)]
    code += [with_number("sll", 6, 5, 6), move(6, STACK), op("stl", 5, (_STACK_AT, STACK))]
    return [*code, *saved(registers, place)]


def closing(size: int, registers: Sequence[int], place: int) -> list[Instruction]:
    """Restore the registers and the stack that `framed` saved, and return."""
    if not registers:
        return [move(STACK, STACK, size), op("ret", LINK)]
    code = saved(registers, place, restore=True)
    return [*code, op("ldl", STACK, (_STACK_AT, STACK)), op("ret", LINK)]
