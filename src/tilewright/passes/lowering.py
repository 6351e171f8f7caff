"""How programs are lowered for a machine: its family's rules for primitives and transfers.

In: a machine. Out: a `Lowering`, which the schedule, the passes, the cost walker and the search
read. The default, for a family without a module `rules`, is a machine with scratchpads that an
engine fills while the cores compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

from tilewright.common.errors import TilewrightError
from tilewright.ir.chains import ChainRules
from tilewright.ir.nodes import SCRATCHPAD, Call, Program, Stmt
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import Accumulate
from tilewright.ir.visit import rewrite
from tilewright.machine import Capability, Machine
from tilewright.ops import Op
from tilewright.passes.base import Pass
from tilewright.passes.handle_boundary import HandleBoundary
from tilewright.passes.infer_dma import InferDma

# Accumulations become maps that read their own result. By this stage the result's initial value
# and its transfers are explicit, so a family's rules and prices for maps apply unchanged.
#
# before: fill(y_tile); for t: get(x -> x_tile); accumulate(y_tile, x_tile; "sum", "x0")
# after:  fill(y_tile); for t: get(x -> x_tile); map(y_tile, y_tile, x_tile; "x0 + x1")


@dataclass(frozen=True)
class MapAccumulations:
    """Replace calls of `accumulate` by calls of `map`."""

    name: ClassVar[str] = "map_accumulations"

    def apply(self, program: Program) -> Program:
        """The staged program with maps in place of accumulations."""
        return replace(program, body=rewrite(program.body, _mapped))


def _mapped(stmt: Stmt) -> tuple[Stmt, ...]:
    match stmt:
        case Call(Accumulate() as accumulate, operands):
            return (Call(accumulate.executed, (operands[0], *operands)),)
        case _:
            return (stmt,)


Staging = Callable[[Mapping[str, str]], tuple[Pass, ...]]
"""Maps each tensor's stage (the loop outside which it is transferred) to the passes of a nest."""


def staging(stages: Mapping[str, str]) -> tuple[Pass, ...]:
    """The passes for machines with scratchpads, for one set of discrete choices."""
    return InferDma(stages), HandleBoundary()


@dataclass(frozen=True)
class Lowering:
    """A machine's rules for programs.

    `buffer_bytes` limits the buffers of a core, by memory. `staging` returns the passes to the
    staged stage, which also choose the memory of each buffer. The matrix primitive works on a
    `block` of vectors along its vectorised dimension and of elements along the other; with
    `partial_blocks`, blocks may be partly filled. Extents of a product must be `multiples`, by
    letter. With `any_extent`, one operation accepts any extent, which seeds of whole depth require.
    With `fixed_point`, networks in fixed point have stages. With `in_place`, primitives read
    operands in main memory; with `along_terms`, products also read vectors along k there, and n and
    k then swap in `multiples`. `chains` rules which chains of products one call computes
    (`ir.chains`). A product over at most `update_terms` terms may be added to integers of C in
    place. With `overlap`, transfers run while the core computes, so a second copy of a buffer pays
    off. `max_error` is the default limit on an algorithm's deviation. `lacking` maps primitives
    that this machine lacks, though its family has them, to the error that explains why. `outdone`
    names algorithms that are slower than others for an operator: they are priced on request only.
    """

    buffer_bytes: Mapping[str, int]
    staging: Staging = staging
    block: tuple[int, int] = (1, 1)
    partial_blocks: bool = False
    any_extent: bool = False
    fixed_point: bool = False
    in_place: bool = False
    along_terms: bool = False
    chains: ChainRules | None = None
    update_terms: int = 0
    overlap: bool = True
    max_error: float | None = None
    multiples: Mapping[str, int] = field(default_factory=dict)
    lacking: Mapping[type[Primitive], TilewrightError] = field(default_factory=dict)
    outdone: Callable[[Op, Machine], frozenset[str]] = lambda op, machine: frozenset()


class Lowers(Protocol):
    """A family with lowering rules of its own."""

    def lowering(self, machine: Machine) -> Lowering:
        """The rules of one of the family's machines."""


LOWERS: Capability[Lowers] = Capability("rules", ("lowering",), "rules of its own")


def lowering_of(machine: Machine) -> Lowering:
    """The lowering rules of the machine's family, or those for scratchpads if it has none."""
    rules = LOWERS.of(machine)
    return rules.lowering(machine) if rules else Lowering({SCRATCHPAD: machine.spm_available_bytes})
