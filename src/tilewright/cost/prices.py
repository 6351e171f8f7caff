"""Prices of calls, transfers and waits on a family's machines: one object that a family may refine.

In: shapes, prepared nests and values for their parameters, of one candidate or arrays of them. Out:
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
"""The fields `first`, `last`, `before`, `behind` and `paced` of `Cost`."""


class Limited(Protocol):
    """A number in generated code that an instruction limits, for one candidate or many."""

    @property
    def found_bytes(self) -> Value:
        """Bytes that each candidate needs."""

    @property
    def limit_bytes(self) -> int:
        """Most bytes that the instruction allows."""

    def least(self, op: str, nest: str) -> CapacityError:
        """Error for a nest of operator `op` in which even the smallest need exceeds the limit."""


@dataclass(frozen=True)
class RequestField:
    """Bytes in one field (`what`) of the DMA descriptor of a tensor's largest request, the limit
    that the machine's number `key` sets, and in `other` what else would help.
    """

    what: str
    tensor: str
    found_bytes: Value
    limit_bytes: int
    key: str
    other: str

    def error(self) -> CapacityError:
        """Error for one candidate, which names the machine's number to raise."""
        found = int(self.found_bytes)
        return CapacityError(
            f"tensor {self.tensor!r}: a DMA request has a {self.what} of {found} bytes, "
            f"{self.key} is {self.limit_bytes}",
            fix=f"--set {self.key}={found} or more, or {self.other}",
        )

    def least(self, op: str, nest: str) -> CapacityError:
        """Error for a nest in which even the tile with the smallest request exceeds the limit."""
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
    """Cost functions of the primitives that the family can emit."""

    unrolled_turns: int = 1
    """Most turns of a loop that are unrolled, on cores with a window of operations."""

    told_by_place: bool = True
    """True if the time of a transfer depends on where in main memory its blocks start."""

    waits: bool = False
    """True if `elapsed_cycles` may exceed the cycles of calls and transfers."""

    def transfer_kind(self, direction: Direction) -> int:
        """The kind of item as which the pipeline plays a transfer (`cost.pipeline_types`)."""
        return GET if direction == "get" else PUT

    def unit(self, step: CallStep | TransferStep) -> int:
        """Number of the unit that executes a call or transfer, on cores with a window."""
        return int(isinstance(step, CallStep))

    def operations(self, machine: Machine, call: PricedCall[Any]) -> Value:
        """Number of operations of a call, on cores with a window of them."""
        return 1

    def ends(self, machine: Machine, call: PricedCall[Any]) -> Ends:
        """Cycles of a call's first and last operation, issue cycles of the statements before and
        after the operations, and the least cycles from the issue of the first operation to that of
        the last, on cores with a window of operations.
        """
        each = call_cycles(machine, call, self.costs) / np.maximum(
            1, self.operations(machine, call)
        )
        return each, each, 0, 0, 0

    def first_reads(self, primitive: Primitive, count: int) -> Collection[int]:
        """Numbers of the operands, of `count` that a call reads, that its first operation reads."""
        return range(count)

    def last_reads(self, primitive: Primitive, count: int) -> Collection[int]:
        """Numbers of the operands, of `count` that a call reads, that its last operation reads."""
        return range(count)

    def reads_in_turn(self, primitive: Primitive) -> Collection[int]:
        """Numbers of the operands that a call's operations read part by part, in order."""
        return ()

    def writes_in_turn(self, primitive: Primitive) -> bool:
        """True if a call's operations write its result part by part, in order."""
        return False

    def in_pieces(self, primitive: Primitive) -> bool:
        """True if each operation of a call reads its own part of the first operand read."""
        return False

    def around(self, shape: TransferShape) -> tuple[Value, Value]:
        """Issue cycles of the statements before and after a transfer's operations."""
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
        """Cycles for which a transfer of this shape is served; its tensor has `tensor_bytes`."""
        return transfer_cycles(machine, direction, shape, shared=shared)

    def as_emitted(self, program: Program, machine: Machine) -> Program:
        """An explicit program without what its code leaves out."""
        return program

    def kept_share(self, prepared: Prepared, machine: Machine, env: Mapping[str, Value]) -> Value:
        """Share of the calls' cycles that a nest's code spends; code may leave some calls out."""
        return 1.0

    def elapsed_cycles(
        self,
        prepared: Prepared,
        machine: Machine,
        env: Mapping[str, Value],
        cycles: Value,
    ) -> Value:
        """Elapsed cycles of a nest, from the `cycles` of its calls and transfers."""
        return cycles

    def changes(self, machine: Machine) -> tuple[Mapping[str, Leaf], ...]:
        """Machine settings worth simulating a kernel with; empty means faster engines."""
        return ()

    def has_room(self, program: Program, machine: Machine, env: Mapping[str, Value]) -> Value:
        """True if the buffers fit their memories and the code the limits of its instructions."""
        room, fits = lowering_of(machine).buffer_bytes, np.True_
        for space, needed in bytes_by_space(program, env, machine).items():
            fits = fits & np.less_equal(needed, room.get(space, 0))
        for one in self.limited(program, machine, env):
            fits = fits & np.less_equal(one.found_bytes, one.limit_bytes)
        return fits

    def code(self, program: Program, machine: Machine) -> CodeLines | None:
        """The program's routines if together they exceed a core's instruction cache, else None."""
        return None

    def refill_note(self, machine: Machine) -> str:
        """A note where refills of the instruction cache are priced unusually or not at all; empty
        otherwise.
        """
        return ""

    def limited(
        self, program: Program, machine: Machine, env: Mapping[str, Value]
    ) -> Iterable[Limited]:
        """Numbers in the program's code that may exceed the limits of its instructions."""
        return ()


PRICES: Capability[Prices] = Capability(
    "prices",
    ("costs", "waits", "transfer_kind", "service_cycles", "elapsed_cycles", "has_room"),
    "prices of its own",
)
_ENGINES = Prices()


def prices_of(machine: Machine) -> Prices:
    """Prices of the machine's family; by default those of engines and scratchpads."""
    return PRICES.of(machine) or _ENGINES


def call_costs(machine: Machine) -> Costs:
    """The costs of calls on the machine."""
    return prices_of(machine).costs
