"""How programs are lowered for a Cambricon: activations and results in the vector scratchpad,
weights in the matrix scratchpad, every product rounded where it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.ir.nodes import (
    Program,
)
from tilewright.ir.primitives import Map
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
from tilewright.targets.cambricon.finish_beside import FinishBeside
from tilewright.targets.cambricon.round_elements import RoundElements
from tilewright.targets.cambricon.round_products import MATRIX, VECTOR, RoundProducts
from tilewright.targets.cambricon.slide_windows import SlideWindows
from tilewright.targets.cambricon.split_steps import SplitSteps


@dataclass(frozen=True)
class SharedFirst:
    """Orders the loops of a map so that what is shared by many elements is fetched once for all of
    them: those that such an operand depends on come first.

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


def _staging(stages: Mapping[str, str]) -> tuple[Pass, ...]:
    """The usual passes, then rounding and a memory for each buffer."""
    return (
        SharedFirst(),
        InferDma(stages, workspace=False, early=True),
        HandleBoundary(),
        RoundElements(),
        RoundProducts(),
        FinishBeside(),
        SlideWindows(),
        SplitSteps(),
    )


@dataclass(frozen=True)
class CambriconRules:
    """Two scratchpads; products of any extents."""

    def lowering(self, machine: Machine) -> Lowering:
        """The rules of one machine."""
        room = {name: machine.space(name).available_bytes for name in (VECTOR, MATRIX)}
        return Lowering(room, _staging, partial_blocks=True, any_extent=True, fixed_point=True)


RULES = CambriconRules()
