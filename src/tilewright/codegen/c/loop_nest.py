"""The loop nest of an elementwise primitive, derived from its operands' axes.

In: the operands of a call, whose role letters say which dimensions are the same axis. Out: one loop
nest with a stride per operand. Dimensions of one letter are joined or split so that all operands
have equal extents, and neighbouring loops are merged.
"""

from __future__ import annotations

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr
from tilewright.ir.loop_axes import Axes, Loop, Paired, StridedAxis, axes_of
from tilewright.ir.nodes import View
from tilewright.ir.regions import strides_of

MAXIMUM_LOOPS = 6
"""Loops that the primitives of `tw_primitives.h` accept (TW_LOOPS there)."""


def view_offset(view: View) -> Expr:
    """Elements from the start of the slot to the view's first element."""
    offset: Expr = Const(0)
    for r, stride in zip(view.ranges, strides_of(view.shape), strict=True):
        offset = offset + r.start * stride
    return offset


def view_axes(view: View) -> Axes:
    """The view's dimensions by role letter. Raises ProgramError for one of several indices without
    a role.
    """
    for d, (role, r) in enumerate(zip(view.roles, view.ranges, strict=True)):
        if role == "." and r.extent != Const(1):
            raise ProgramError(
                f"dimension {d} of a view of {view.buffer!r} has no role and extent {r.extent}",
                fix="give it a role or extent 1",
            )
    return axes_of(view)


def matched(pairs: Paired, primitive: str) -> list[Loop]:
    """The loops over all axes of a call."""
    return [loop for letter, own in pairs for loop in match_axes(letter, own, primitive)]


def match_axes(letter: str, operands: tuple[list[StridedAxis], ...], primitive: str) -> list[Loop]:
    """Loops over one axis that the operands split differently; an operand without it is broadcast.

    >>> four_by_two = [StridedAxis(Const(4), Const(8)), StridedAxis(Const(2), Const(1))]
    >>> loops = match_axes("a", (four_by_two, [StridedAxis(Const(8), Const(3))]), "copy")
    >>> [(str(loop.extent), *map(str, loop.strides)) for loop in loops]
    [('4', '8', '6'), ('2', '1', '3')]
    """
    present = [i for i, axes in enumerate(operands) if axes]
    stacks = {i: list(operands[i]) for i in present}
    loops: list[Loop] = []
    while any(stacks.values()):
        if not all(stacks.values()):
            raise _mismatch(letter, primitive)
        inner = {i: stack.pop() for i, stack in stacks.items()}
        extent = _common_extent([axis.extent for axis in inner.values()], letter, primitive)
        strides = tuple(inner[i].stride if i in inner else Const(0) for i in range(len(operands)))
        loops.append(Loop(extent, strides))
        for i, axis in inner.items():
            if axis.extent != extent:
                stacks[i].append(StridedAxis(axis.extent // extent, axis.stride * extent))
    return loops[::-1]


def _common_extent(extents: list[Expr], letter: str, primitive: str) -> Expr:
    if all(e == extents[0] for e in extents):
        return extents[0]
    constants = [e.value for e in extents if isinstance(e, Const)]
    smallest = min(constants, default=0)
    if len(constants) < len(extents) or smallest < 1 or any(c % smallest for c in constants):
        raise _mismatch(letter, primitive)
    return Const(smallest)


def _mismatch(letter: str, primitive: str) -> ProgramError:
    return ProgramError(
        f"the operands of {primitive} disagree about axis {letter!r}",
        fix="give its dimensions the same extents in every operand",
    )


def merge_loops(loops: list[Loop]) -> tuple[Loop, ...]:
    """Join neighbouring loops that are contiguous in every operand."""
    merged: list[Loop] = []
    for loop in reversed(loops):
        inner = merged[-1] if merged else None
        if inner and loop.continues(inner):
            merged[-1] = Loop(loop.extent * inner.extent, inner.strides)
        else:
            merged.append(loop)
    return tuple(merged[::-1])


def padded(loops: tuple[Loop, ...], operands: int, primitive: str) -> tuple[Loop, ...]:
    """Exactly MAXIMUM_LOOPS loops, padded outside with loops of one iteration."""
    if len(loops) > MAXIMUM_LOOPS:
        raise ProgramError(
            f"{primitive} needs {len(loops)} nested loops, the primitives take {MAXIMUM_LOOPS}",
            fix="merge dimensions of its operands",
        )
    once = Loop(Const(1), (Const(0),) * operands)
    return (once,) * (MAXIMUM_LOOPS - len(loops)) + loops
