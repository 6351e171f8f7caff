"""How programs are lowered for a machine: what its family says of its primitives and transfers.

In: a machine. Out: a `Lowering`, which the schedule, the passes, the cost walker and the search
ask. A family without a module `rules` has machines with scratchpads that an engine fills while the
cores compute.
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

# Accumulations become maps that take their result in: where it starts and when it is moved is
# said by then, and what a family knows of maps holds for them.
#
# before: fill(y_tile); for t: get(x -> x_tile); accumulate(y_tile, x_tile; "sum", "x0")
# after:  fill(y_tile); for t: get(x -> x_tile); map(y_tile, y_tile, x_tile; "x0 + x1")


@dataclass(frozen=True)
class MapAccumulations:
    """Replace calls of `accumulate` by calls of `map`."""

    name: ClassVar[str] = "map_accumulations"

    def apply(self, program: Program) -> Program:
        """Staged-stage program in, the same without accumulations out."""
        return replace(program, body=rewrite(program.body, _mapped))


def _mapped(stmt: Stmt) -> tuple[Stmt, ...]:
    match stmt:
        case Call(Accumulate() as accumulate, operands):
            return (Call(accumulate.executed, (operands[0], *operands)),)
        case _:
            return (stmt,)


Staging = Callable[[Mapping[str, str]], tuple[Pass, ...]]
"""From each tensor's stage (the loop outside which it is transferred) to the passes of a nest."""


def staging(stages: Mapping[str, str]) -> tuple[Pass, ...]:
    """The passes for machines with scratchpads, once per set of discrete choices."""
    return InferDma(stages), HandleBoundary()


@dataclass(frozen=True)
class Lowering:
    """The rules of a machine for programs.

    `buffer_bytes` are all that the buffers of a core may take, by memory; `staging` gives the
    passes to the staged stage, and says which memory a buffer lies in. The matrix primitive works
    on a `block` of vectors along its vectorised dimension and of elements along the other;
    `partial_blocks`: blocks need not be full. The extents of a product have to be `multiples`, by
    letter. One operation takes `any_extent`: seeds of whole depth are for such machines. Networks
    in `fixed_point` have stages. `in_place`: primitives take operands where they lie in main
    memory; `along_terms`: of a product also with vectors along k, then n and k change places in
    `multiples`. `chains`: those of products that one call takes (`ir.chains`). A product over
    `update_terms` or fewer may be added to the integers that C holds, where it lies. `overlap`:
    transfers pass while the core computes, so that a second copy of a buffer is of use.
    Algorithms may have a largest deviation of `max_error` unless users say so. `lacking` are the
    primitives that the family has and this machine has not, each with the error that says why.
    `outdone` names the algorithms that others compute an operator faster than: they are priced
    where they are asked for.
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
    """A family that lowers programs in its own way."""

    def lowering(self, machine: Machine) -> Lowering:
        """The rules of one of its machines."""


LOWERS: Capability[Lowers] = Capability("rules", ("lowering",), "rules of its own")


def lowering_of(machine: Machine) -> Lowering:
    """The lowering rules of the machine's family, or those for scratchpads if it has none."""
    rules = LOWERS.of(machine)
    return rules.lowering(machine) if rules else Lowering({SCRATCHPAD: machine.spm_available_bytes})
