"""Maps of several instructions as one call for each, so that transfers come between them.

In: a program whose maps are rounded step by step. Out: one with a call for each step of maps along
one axis that no product makes the elements of; temporaries are buffers of their own.

before:  rounded_map(y_tile, x0_tile, x1_tile, expression=exp(x0 + x1) * x1, work=y_tile_work)
after:   rounded_step(y_tile_work0, x0_tile, x1_tile, expression=x0 + x1)
         rounded_step(y_tile_work0, y_tile_work0, expression=exp(x0))
         rounded_step(y_tile, y_tile_work0, x1_tile, expression=x0 * x1)
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from tilewright.common.expr import Const
from tilewright.ir.nodes import Buffer, Call, Operand, Program, Range, Stmt, View
from tilewright.ir.primitives import MatrixProduct
from tilewright.ir.visit import rewrite, walk
from tilewright.targets.cambricon.primitives import RoundedMap, RoundedStep
from tilewright.targets.cambricon.vector_steps import step_expression

_SEVERAL = 3
"""Steps from which on some run beside no transfer where all follow each other."""


class SplitSteps:
    """Gives each step a call."""

    name: ClassVar[str] = "split_steps"

    def apply(self, program: Program) -> Program:
        """The program with `RoundedStep`s."""
        calls = [s for s in walk(program.body) if isinstance(s, Call)]
        if any(isinstance(c.primitive, MatrixProduct) for c in calls):
            return program
        buffers = {b.name: b for b in program.buffers}
        users = [name for c in calls for name in c.primitive.buffers()]

        def change(stmt: Stmt) -> tuple[Stmt, ...] | None:
            if not isinstance(stmt, Call) or not isinstance(stmt.primitive, RoundedMap):
                return None
            work = stmt.primitive.work
            if work is None or users.count(work) > 1 or not _is_split(stmt, stmt.primitive):
                return None
            return _steps(stmt, stmt.primitive, buffers.pop(work), buffers)

        body = rewrite(program.body, change)
        return replace(program, buffers=tuple(buffers.values()), body=body)


def _is_split(call: Call, primitive: RoundedMap) -> bool:
    """True for a map of several steps along one axis, all of its operands alike."""
    steps = primitive.steps(len(call.operands) - 1)
    axes = {tuple(letter for letter in o.roles if letter != ".") for o in call.operands}
    return (
        len(steps.steps) >= _SEVERAL and not steps.constants and [len(own) for own in axes] == [1]
    )


def _steps(
    call: Call, primitive: RoundedMap, work: Buffer, buffers: dict[str, Buffer]
) -> tuple[Stmt, ...]:
    """A call for each step; `buffers` gets one for each of the temporaries in `work`."""
    steps, y = primitive.steps(len(call.operands) - 1), call.operands[0]
    places: list[Operand] = [*call.operands]
    extents = tuple(r.extent for r in y.ranges)
    for number in range(steps.temporaries):
        name, elements = f"{work.name}{number}", work.elements // steps.temporaries
        buffers[name] = replace(work, name=name, elements=elements)
        ranges = tuple(Range(Const(0), n) for n in extents)
        places.append(View(name, Const(0), extents, ranges, y.roles))
    found = list[Stmt]()
    for step in steps.steps:
        expression, sources = step_expression(step, primitive.fraction_bits)
        own = tuple(places[place] for place in (step.out, *sources))
        found.append(Call(RoundedStep(expression, primitive.fraction_bits), own))
    return tuple(found)
