"""A program made ready for timing: numbered statements, with what their time depends on.

The cores run in lockstep and core (0, 0) has the largest extents, so its extents decide every cost;
which part of a tile is data is kept for all cores. `kernel_prepare` makes these values from a
program.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from tilewright.common.expr import Expr
from tilewright.common.straight_line import StraightLine, straight_line
from tilewright.cost.calls import PricedCall
from tilewright.cost.steps import TransferStep
from tilewright.ir.nodes import Barrier, Call, Transfer
from tilewright.ir.primitive import Primitive
from tilewright.simulate.kernel.signature import Timed

MAIN_MEMORY = ""
"""In the place of a buffer: the operand is used where it lies."""


@dataclass(frozen=True)
class Loop:
    """A loop, and every expression that the time of one iteration depends on."""

    number: int
    var: str
    extent: Expr
    body: tuple[Action, ...]
    timed: tuple[Timed, ...]
    text: str


@dataclass(frozen=True)
class Branch:
    """A condition."""

    condition: Expr
    then: tuple[Action, ...]
    orelse: tuple[Action, ...]


@dataclass(frozen=True)
class Region:
    """The part of a tile that lies inside its tensor, as extents over core and loop symbols."""

    number: int
    text: str
    extents: tuple[Expr, ...]
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class Move:
    """A transfer: its slot and its step on core (0, 0), the region of every core."""

    number: int
    step: TransferStep
    slot: Expr
    region: Region
    text: str

    @property
    def stmt(self) -> Transfer:
        """The statement."""
        return self.step.stmt

    @cached_property
    def code(self) -> StraightLine:
        """The slot and the numbers of the step."""
        return straight_line((self.slot, *self.step.numbers))


@dataclass(frozen=True)
class Pause:
    """A wait."""

    buffer: str
    slot: Expr
    text: str


@dataclass(frozen=True)
class TileAxis:
    """Where matrix axis `name` (m, n or k) lies: dimension `dim` of the tile under an operand."""

    operand: int
    rank: int
    dim: int
    name: str
    start: Expr
    extent: Expr
    step: Expr


@dataclass(frozen=True)
class Work:
    """A primitive call, or a chain of so many products; `buffers` are those of its operands.

    `numbers` are, one after the other: the slots of the operands, the elements of their tiles, the
    `dims` that its cost depends on, and for each link start, extent and step of each of `axes`.
    `priced` lacks the extents.
    """

    number: int
    call: Call
    priced: PricedCall[Primitive]
    buffers: tuple[str, ...]
    dims: tuple[str, ...]
    axes: tuple[TileAxis, ...]
    result: Region | None
    numbers: tuple[Expr, ...]
    text: str
    links: int = 1

    @cached_property
    def code(self) -> StraightLine:
        """The numbers."""
        return straight_line(self.numbers)


Action: TypeAlias = Loop | Branch | Move | Pause | Barrier | Work


@dataclass(frozen=True)
class SlotSize:
    """The slots of one buffer; `sharing` names the buffers that lie at the same addresses."""

    copies: int
    elements: int
    bytes: int
    sharing: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PreparedProgram:
    """A program ready to be timed; `moves` and `works` are found by their numbers."""

    body: tuple[Action, ...]
    moves: tuple[Move, ...]
    works: tuple[Work, ...]
    buffers: dict[str, SlotSize]
    allocated_bytes: int
