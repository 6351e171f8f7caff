"""Lowering rules of a Cambricon: activations and results in the vector scratchpad, weights in the
matrix scratchpad, and every product rounded where it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.common.expr import Const
from tilewright.ir.nodes import Buffer, Call, Operand, Program, Range, Stmt, View
from tilewright.ir.primitives import Map, MatrixProduct
from tilewright.ir.visit import rewrite, walk
from tilewright.machine import Machine
from tilewright.passes.base import Pass
from tilewright.passes.handle_boundary import HandleBoundary
from tilewright.passes.infer_dma import (
    InferDma,
    chain_of,
    main_call,
    operands_of,
    symbols_of,
    unguarded,
)
from tilewright.passes.lowering import Lowering
from tilewright.targets.cambricon.finish_beside import FetchInParts, FinishBeside
from tilewright.targets.cambricon.primitives import RoundedMap, RoundedStep
from tilewright.targets.cambricon.round_elements import CopyInPlace, RoundElements
from tilewright.targets.cambricon.round_products import MATRIX, VECTOR, RoundProducts
from tilewright.targets.cambricon.slide_windows import KeepRows, SlideWindows
from tilewright.targets.cambricon.vector_steps import step_expression
from tilewright.targets.cambricon.windows_in_parts import WindowsInParts


@dataclass(frozen=True)
class SharedFirst:
    """Orders the loops of a map so that an operand shared by many elements is fetched once for all
    of them: loops that such an operand depends on become outer loops.

    before:  for row: for channel: map(y[row, channel], x[row, channel], b[channel])
    after:   for channel: for row: map(y[row, channel], x[row, channel], b[channel])
    """

    name: ClassVar[str] = "shared_first"

    def apply(self, program: Program) -> Program:
        """The seed-stage program with its loops in this order."""
        loops, body = chain_of(program.body)
        main = main_call(unguarded(body)[1])
        if not isinstance(main.primitive, Map):
            return program
        y, *others = operands_of(main)
        shared = (x for x in others if not {*y.roles} <= {*x.roles})
        names = frozenset().union(*(symbols_of(x) for x in shared))
        ordered = sorted(loops, key=lambda loop: loop.var not in names)
        for loop in reversed(ordered):
            body = (replace(loop, body=body),)
        return replace(program, body=body)


_SEVERAL = 3
"""Fewest steps worth splitting: of so many in a row, some run beside no transfer."""


class SplitSteps:
    """Splits a map of several instructions into one call per step, so that transfers come between.
    It applies to maps along one axis whose elements no product computes; temporaries become
    buffers.

    before:  rounded_map(y_tile, x0_tile, x1_tile, expression=exp(x0 + x1) * x1, work=y_tile_work)
    after:   rounded_step(y_tile_work0, x0_tile, x1_tile, expression=x0 + x1)
             rounded_step(y_tile_work0, y_tile_work0, expression=exp(x0))
             rounded_step(y_tile, y_tile_work0, x1_tile, expression=x0 * x1)
    """

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
    """True for a map of several steps along one axis whose operands all have the same axes."""
    steps = primitive.steps(len(call.operands) - 1)
    axes = {tuple(letter for letter in o.roles if letter != ".") for o in call.operands}
    return (
        len(steps.steps) >= _SEVERAL and not steps.constants and [len(own) for own in axes] == [1]
    )


def _steps(
    call: Call, primitive: RoundedMap, work: Buffer, buffers: dict[str, Buffer]
) -> tuple[Stmt, ...]:
    """A call for each step; `buffers` gains one for each temporary in `work`."""
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


def _staging(stages: Mapping[str, str]) -> tuple[Pass, ...]:
    """The usual passes, then those that round and that assign memories."""
    return (
        SharedFirst(),
        InferDma(stages, workspace=False, early=True, in_parts=True),
        HandleBoundary(),
        WindowsInParts(stages),
        RoundElements(),
        RoundProducts(),
        FinishBeside(),
        SlideWindows(),
        KeepRows(),
        FetchInParts(stages),
        SplitSteps(),
        CopyInPlace(),
    )


@dataclass(frozen=True)
class CambriconRules:
    """Two scratchpads; products of any extents."""

    def lowering(self, machine: Machine) -> Lowering:
        """The lowering rules of one machine."""
        room = {name: machine.space(name).available_bytes for name in (VECTOR, MATRIX)}
        return Lowering(room, _staging, partial_blocks=True, any_extent=True, fixed_point=True)


RULES = CambriconRules()
