"""Prices of calls, transfers and waits on a family's machines: one object that a family may refine.

In: shapes, prepared nests and the values of their parameters, one candidate or arrays of them. Out:
cycles and truth values of the same form. `Prices` itself prices scratchpads that an engine fills
while the cores compute; a family with other machines brings a subclass in its module `prices`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tilewright.common.errors import CapacityError
from tilewright.common.expr import Value
from tilewright.cost.buffers import bytes_by_space
from tilewright.cost.calls import Costs, PricedCall, call_cycles
from tilewright.cost.chain import Prepared
from tilewright.cost.elementwise import LoopForm, elementwise_costs
from tilewright.cost.fetches import CodeLines
from tilewright.cost.pipeline_types import GET, PUT
from tilewright.cost.steps import CallStep, TransferStep
from tilewright.cost.timing import TransferShape, transfer_cycles
from tilewright.ir.nodes import Direction, Program
from tilewright.ir.primitive import Primitive
from tilewright.machine import Capability, Machine
from tilewright.machine.model import Leaf
from tilewright.passes.lowering import lowering_of

Ends = tuple[Value, Value, Value, Value, Value]
"""`first`, `last`, `before`, `behind` and `paced` as of `Cost`."""


class Limited(Protocol):
    """A part of generated code limited by its instructions, for one candidate or arrays of them."""

    @property
    def found_bytes(self) -> Value:
        """Bytes that the candidates need."""

    @property
    def limit_bytes(self) -> int:
        """Most bytes that there may be."""

    def least(self, op: str, nest: str) -> CapacityError:
        """Error for an operator's nest: even the tile that needs the least exceeds the limit."""


@dataclass(frozen=True)
class RequestField:
    """Bytes that the largest request of a tensor's transfers has in one field of the engine's
    descriptor, the number of the machine `key` that limits it, and what else would help.
    """

    what: str
    tensor: str
    found_bytes: Value
    limit_bytes: int
    key: str
    other: str

    def error(self) -> CapacityError:
        """Error for one candidate, with the number of the machine that users can set."""
        found = int(self.found_bytes)
        return CapacityError(
            f"tensor {self.tensor!r}: a DMA request has a {self.what} of {found} bytes, "
            f"{self.key} is {self.limit_bytes}",
            fix=f"--set {self.key}={found} or more, or {self.other}",
        )

    def least(self, op: str, nest: str) -> CapacityError:
        """Error for the tile that asks for the least."""
        found = int(self.found_bytes)
        return CapacityError(
            f"no tile of {op} fits: of the tiles of {nest!r} the one that asks for least has DMA "
            f"requests with a {self.what} of {found} bytes for {self.tensor!r}, {self.key} is "
            f"{self.limit_bytes}",
            fix=f"--set {self.key}={found} or more",
        )


class Prices:
    """Prices of machines whose engines transfer while the cores compute."""

    costs: Costs = elementwise_costs(LoopForm())
    """The cost of a call of each kind of primitive that there is code for."""

    unrolled_turns: int = 1
    """Turns of a loop that are written out, where cores keep a window of operations."""

    told_by_place: bool = True
    """True if what a transfer takes depends on where in main memory its blocks start."""

    waits: bool = False
    """True if `elapsed_cycles` exceed those of calls and transfers."""

    def transfer_kind(self, direction: Direction) -> int:
        """How the pipeline plays a transfer (`cost.pipeline_types`)."""
        return GET if direction == "get" else PUT

    def unit(self, step: CallStep | TransferStep) -> int:
        """The number of the unit of a call or transfer, where cores keep a window of operations."""
        return int(isinstance(step, CallStep))

    def operations(self, machine: Machine, call: PricedCall[Any]) -> Value:
        """Operations that a call becomes where cores keep a window of them in flight."""
        return 1

    def ends(self, machine: Machine, call: PricedCall[Any]) -> Ends:
        """The cycles of a call's first and last operation, those of issue of the statements before
        and behind them, and from the first's issue to the last's at least, where cores keep a
        window of operations in flight.
        """
        each = call_cycles(machine, call, self.costs) / np.maximum(
            1, self.operations(machine, call)
        )
        return each, each, 0, 0, 0

    def first_reads(self, primitive: Primitive, count: int) -> Collection[int]:
        """Which of `count` operands that a call reads its first operation reads."""
        return range(count)

    def last_reads(self, primitive: Primitive, count: int) -> Collection[int]:
        """Which of `count` operands that a call reads its last operation reads."""
        return range(count)

    def reads_in_turn(self, primitive: Primitive) -> Collection[int]:
        """Operands of which each operation of a call reads a part of its own, in order."""
        return ()

    def writes_in_turn(self, primitive: Primitive) -> bool:
        """True if each operation of a call writes a part of its own, in order."""
        return False

    def in_pieces(self, primitive: Primitive) -> bool:
        """True if each operation of a call takes a part of its own of the first operand read."""
        return False

    def around(self, shape: TransferShape) -> tuple[Value, Value]:
        """Cycles of issue of the statements before and behind a transfer's operations."""
        return 0, 0

    def service_cycles(
        self,
        machine: Machine,
        direction: Direction,
        shape: TransferShape,
        tensor_bytes: Value,
        *,
        shared: bool,
    ) -> Value:
        """Cycles that a transfer of this shape, of a tensor of so many bytes, is served."""
        return transfer_cycles(machine, direction, shape, shared=shared)

    def as_emitted(self, program: Program, machine: Machine) -> Program:
        """An explicit program without what its code leaves out."""
        return program

    def kept_share(self, prepared: Prepared, machine: Machine, env: Mapping[str, Value]) -> Value:
        """The share of its calls' cycles that a nest keeps, where code leaves out some of them."""
        return 1.0

    def elapsed_cycles(
        self,
        prepared: Prepared,
        machine: Machine,
        env: Mapping[str, Value],
        cycles: Value,
    ) -> Value:
        """Cycles of a nest, given the `cycles` of its calls and transfers."""
        return cycles

    def changes(self, machine: Machine) -> tuple[Mapping[str, Leaf], ...]:
        """Settings of the machine worth simulating a kernel with; if none, faster engines."""
        return ()

    def has_room(self, program: Program, machine: Machine, env: Mapping[str, Value]) -> Value:
        """True if the buffers fit each memory, and generated code the limits of instructions."""
        room, fits = lowering_of(machine).buffer_bytes, np.True_
        for space, needed in bytes_by_space(program, env, machine).items():
            fits = fits & np.less_equal(needed, room.get(space, 0))
        for one in self.limited(program, machine, env):
            fits = fits & np.less_equal(one.found_bytes, one.limit_bytes)
        return fits

    def code(self, program: Program, machine: Machine) -> CodeLines | None:
        """The routines of a program, where they do not fit a core's instruction cache together."""
        return None

    def refill_note(self, machine: Machine) -> str:
        """How refills of the instruction cache are priced where that is not as usual, or that they
        are not; empty otherwise.
        """
        return ""

    def limited(
        self, program: Program, machine: Machine, env: Mapping[str, Value]
    ) -> Iterable[Limited]:
        """Parts of the program's code that may exceed what instructions take; empty if none can."""
        return ()


PRICES: Capability[Prices] = Capability(
    "prices",
    ("costs", "waits", "transfer_kind", "service_cycles", "elapsed_cycles", "has_room"),
    "prices of its own",
)
_ENGINES = Prices()


def prices_of(machine: Machine) -> Prices:
    """Prices of the machine's family, or those of engines and scratchpads."""
    return PRICES.of(machine) or _ENGINES


def call_costs(machine: Machine) -> Costs:
    """The costs of calls on the machine."""
    return prices_of(machine).costs
