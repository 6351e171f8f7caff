"""Lowering rules of a node of the CNS-1.

The vector unit reads weights and sums in place in main memory. A broadcast operand, with a factor
for each row of the weights, is copied to the data cache. Products take whole stripes of columns and
whole words of factors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.common.errors import ScheduleError
from tilewright.ir.nodes import Call, Program, Tile
from tilewright.ir.primitives import Lookup, Map, MatrixProduct
from tilewright.ir.visit import calls_of
from tilewright.machine import Machine
from tilewright.passes.base import Pass
from tilewright.passes.handle_boundary import HandleBoundary
from tilewright.passes.infer_dma import InferDma
from tilewright.passes.lowering import Lowering
from tilewright.targets.cns1.timing.layers import ROWS_AT_ONCE, STRIPE

CACHE = "cache"
_ELEMENTS = frozenset(("i8", "i16", "i32"))


@dataclass(frozen=True)
class PlaceOperands:
    """Puts buffers into the data cache. A product takes its first factor there, by rows, and
    weights that lie along n or along k; a product that is added to weights takes both factors
    there.

    before:  a_tile: buffer("i8", 1024)
    after:   a_tile: buffer("i8", 1024, space="cache")
    """

    name: ClassVar[str] = "place_operands"

    def apply(self, program: Program) -> Program:
        """The program with the memory of each buffer. Raises ScheduleError for calls whose operands
        have other types or orientations, or lie elsewhere.
        """
        for call, _ in calls_of(program.body, Map):
            _check_map(call, program)
        for call, _ in calls_of(program.body, Lookup):
            _check_lookup(call, program)
        for call, product in calls_of(program.body, MatrixProduct):
            placed = ["main" if isinstance(o, Tile) else CACHE for o in call.operands]
            if updates_weights(call, program):
                _check_update(placed, call, program)
            else:
                _check_product(placed, product, call, program)
        return replace(program, buffers=tuple(replace(b, space=CACHE) for b in program.buffers))


_MOST_OPERANDS = 2
"""Tensors that the code of a map has addresses for, in addition to its result."""


def updates_weights(call: Call, program: Program) -> bool:
    """True if a product is added to the values that C holds before the program runs."""
    c = call.operands[0]
    return isinstance(c, Tile) and program.tensor(c.tensor).kind == "updated"


def _check_map(call: Call, program: Program) -> None:
    """Check that elements are read and written in place; they wrap to 32 bits."""
    kinds = [program.element_type(operand) for operand in call.operands]
    if not set(kinds) <= _ELEMENTS:
        raise ScheduleError(
            f"a Torrent maps elements of {', '.join(sorted(_ELEMENTS))}, found {', '.join(kinds)}",
            fix="--dtype i8:i32:i16:even:wrap, or other such types",
        )
    if len(kinds) > 1 + _MOST_OPERANDS:
        raise ScheduleError(
            f"a Torrent maps up to {_MOST_OPERANDS} tensors, found {len(kinds) - 1}",
            fix="map its parts one after the other",
        )
    if not all(isinstance(operand, Tile) for operand in call.operands):
        raise ScheduleError(
            "a Torrent maps elements in main memory, found some of them in its cache",
            fix="use them in place",
        )


def _check_lookup(call: Call, program: Program) -> None:
    """Check that sums, a table of bytes and results lie in main memory."""
    kinds = [program.element_type(operand) for operand in call.operands]
    if kinds != ["i8", "i32", "i8"]:
        raise ScheduleError(
            f"a Torrent looks sums of i32 up in a table of i8, found {kinds[1]} and {kinds[2]}",
            fix="--dtype i32,i8:i32:i8",
        )
    if not all(isinstance(operand, Tile) for operand in call.operands):
        raise ScheduleError(
            "a Torrent looks up in main memory, found operands in its cache",
            fix="use them in place",
        )


def _check_product(placed: list[str], product: MatrixProduct, call: Call, program: Program) -> None:
    """Check factors of one or two bytes by rows in the cache, weights and sums in memory."""
    if any(len(tensor.shape) > 2 for tensor in program.tensors):
        raise ScheduleError(
            "a Torrent multiplies matrices, found tensors of more than two dimensions",
            fix="take gemm, once for each matrix",
        )
    kinds = [program.element_type(operand) for operand in call.operands]
    if kinds[0] != "i32" or kinds[1] not in ("i8", "i16") or kinds[2] != "i16":
        raise ScheduleError(
            "a Torrent multiplies factors of i8 or i16 by weights of i16 into sums of i32, found "
            f"{kinds[1]} times {kinds[2]} into {kinds[0]}",
            fix="--dtype i8,i16:i32 or i16:i32",
        )
    results = [tensor.dtype for tensor in program.tensors if tensor.kind == "output"]
    if results != ["i32"]:
        raise ScheduleError(
            f"a Torrent leaves sums of i32 as they are, found results of {', '.join(results)}",
            fix="--dtype i8,i16:i32, and an operator of its own for what follows: lookup or map",
        )
    forms = product.matrices(call.operands, program)
    if any(form.order != "row" for form in forms[:2]):
        raise ScheduleError(
            "a Torrent reads the first factor and the sums by rows, found one of them by columns",
            fix="lay it out by rows, and leave --transpose-a out",
        )
    if placed != ["main", CACHE, "main"]:
        raise ScheduleError(
            "a Torrent multiplies rows of a factor in its cache by weights in main memory, "
            f"found {', '.join(placed)} for the sums and both factors",
            fix="use the sums and the second factor in place",
        )


def _check_update(placed: list[str], call: Call, program: Program) -> None:
    kinds = [program.element_type(operand) for operand in call.operands]
    if kinds != ["i16", "i8", "i16"]:
        raise ScheduleError(
            "a Torrent adds data of i8 times errors of i16 to weights of i16, found "
            f"{kinds[1]} times {kinds[2]} and {kinds[0]}",
            fix="--dtype i8,i16:i16",
        )
    if placed != ["main", CACHE, CACHE]:
        raise ScheduleError(
            "a Torrent updates weights in main memory by two factors in its cache, found "
            f"{', '.join(placed)}",
            fix="use the weights in place, and copy both factors",
        )


def _staging(stages: Mapping[str, str]) -> tuple[Pass, ...]:
    """The usual passes, then the memory of each operand."""
    return InferDma(stages, workspace=False), HandleBoundary(), PlaceOperands()


@dataclass(frozen=True)
class Cns1Rules:
    """A cache for factors; weights and sums in place; whole stripes."""

    def lowering(self, machine: Machine) -> Lowering:
        return Lowering(
            {CACHE: machine.space(CACHE).available_bytes},
            _staging,
            block=(STRIPE // machine.core.lanes("i32"), 1),
            partial_blocks=True,
            in_place=True,
            along_terms=True,
            update_terms=1,
            overlap=False,
            multiples={"n": STRIPE, "k": ROWS_AT_ONCE},
        )


RULES = Cns1Rules()
