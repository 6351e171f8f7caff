"""Costs of calls and transfers on a Cambricon, those of their instructions.

In the loops of a call, each turn moves the places of operands, counts and branches; a statement on
scalars takes a cycle. Where a loop ends, statements of the outer loops follow and it starts anew.
Meanwhile the unit works on the instructions in flight, and waits if they end before the next
issues.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

import numpy as np

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Value
from tilewright.cost.calls import Costs, Dims, PricedCall, call_cycles
from tilewright.cost.pipeline_types import TURN_STATEMENTS
from tilewright.cost.prices import Ends, Prices
from tilewright.cost.steps import CallStep, TransferStep
from tilewright.cost.timing import TransferShape
from tilewright.ir.nodes import Direction
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import Copy, Fill, MatrixProduct
from tilewright.ir.primitives.maps import Accumulate, Map, Reduce
from tilewright.machine import Machine
from tilewright.targets.cambricon.emit.calls import UNROLLED_TURNS
from tilewright.targets.cambricon.instructions import instruction_cycles
from tilewright.targets.cambricon.primitives import (
    OuterProduct,
    RoundedMap,
    RoundedProduct,
    RoundedReduce,
    RoundedStep,
    SaturatingAdd,
    StepByStep,
    Turned,
)


class WrittenLoop(NamedTuple):
    """A loop's turns, and how many places it moves; a loop of few turns is unrolled."""

    turns: Value
    moved: Value

    @property
    def begin(self) -> Value:
        """Statements before the first turn."""
        return np.where(self.turns > UNROLLED_TURNS, self.moved + 1, 0)

    @property
    def end(self) -> Value:
        """Statements after a turn."""
        return np.where(self.turns > UNROLLED_TURNS, self.moved + TURN_STATEMENTS, 0)


@dataclass(frozen=True)
class Turns:
    """Elements per instruction, and the loops around it, innermost first."""

    run: Value
    loops: Sequence[WrittenLoop]

    @property
    def count(self) -> Value:
        """Turns of the innermost loop in total."""
        found: Value = 1
        for loop in self.loops:
            found = found * loop.turns
        return found

    @property
    def around(self) -> tuple[Value, Value]:
        """Cycles of issue before the first instruction and after the last one."""
        begin, end = ([getattr(loop, n) for loop in self.loops] for n in ("begin", "end"))
        return sum(begin), sum(end)

    def paced(self, cycles: Value, each: Value) -> Value:
        """Least cycles from the issue of the first instruction to that of the last turn, if all
        turns take `cycles` and each takes `each`; reduced by the cycles the statements are ahead
        there.
        """
        ahead = np.maximum(0, self._ahead(each)[1] - np.greater(self.around[0], 0))
        return np.maximum(0, cycles - each - ahead)

    def cycles(self, each: Value, operations: int, in_flight: int) -> Value:
        """Cycles of all turns, each of so many operations that take `each` together or the time of
        its statements. When a loop starts anew, its statements overlap with the operations in
        flight: as many as the turns of the inner loops could issue ahead. An operation issues
        beside the last statement before a loop, but not beside a branch.
        """
        flight = each * in_flight / max(1, operations)
        whole, found, beside = self.count, np.asarray(each), np.asarray(0)
        for loop, gap, ahead in self._ahead(each)[0]:
            whole = whole // np.maximum(1, loop.turns)
            waits = np.maximum(0, gap - beside - np.minimum(flight, each + ahead - beside))
            found = found + (loop.turns - 1) * whole * (each + waits)
            beside = np.maximum(beside, loop.begin > 0)
        return found

    def _ahead(self, each: Value) -> tuple[list[tuple[WrittenLoop, Value, Value]], Value]:
        """Each loop with the statements from the last operation of a turn to the first of the next
        and the cycles the statements are ahead there; and the cycles they are ahead after all
        turns.
        """
        found: list[tuple[WrittenLoop, Value, Value]] = []
        gap = ahead = gained = np.asarray(0)
        for loop in self.loops:
            gap = gap + loop.end
            found.append((loop, gap, ahead))
            gained = loop.turns * gained + (loop.turns - 1) * (each - gap)
            ahead = np.maximum(ahead, gained)
            gap = gap + loop.begin
        return found, ahead


def written_turns(dims: Dims, operands: Sequence[int]) -> Turns:
    """The loops of a call as written. Neighbouring loops that count straight on in all `operands`
    are merged, and the innermost one, if its elements lie side by side, becomes a run.
    """
    count = int(np.max(dims.get("loops", 1))) - 1
    loops: list[WrittenLoop] = []
    run = np.asarray(1)
    turns, steps = np.asarray(1), [np.asarray(0)] * len(operands)
    for number in range(count):
        own = np.asarray(dims[f"loop_{number}"])
        apart = [np.asarray(dims[f"step_{number}_{operand}"]) - 1 for operand in operands]
        through = reduce(and_, (a == turns * s for a, s in zip(apart, steps, strict=True)))
        alone, none = own == 1, turns == 1
        ends = ~(alone | none | through)
        run, loop = _run_and_loop(np.where(ends, turns, 1), steps, run, loops)
        loops.append(loop)
        steps = [np.where(~alone & (none | ends), a, s) for a, s in zip(apart, steps, strict=True)]
        turns = np.where(alone, turns, np.where(none | ends, own, turns * own))
    run, loop = _run_and_loop(turns, steps, run, loops)
    return Turns(run, (*loops, loop))


def _run_and_loop(
    turns: Value, steps: Sequence[Value], run: Value, inner: Sequence[WrittenLoop]
) -> tuple[Value, WrittenLoop]:
    """The length of a run, and the loop; if the loop is the run, it has one turn."""
    first = reduce(and_, (np.equal(loop.turns, 1) for loop in inner), np.equal(run, 1))
    is_run = reduce(and_, (np.equal(s, 1) for s in steps), first)
    moved = sum(np.not_equal(s, 0) for s in steps)
    return np.where(is_run, turns, run), WrittenLoop(np.where(is_run, 1, turns), moved)


def _product_cycles(machine: Machine, call: PricedCall[MatrixProduct]) -> Value:
    """One instruction for each column of the result, or each row where vectors run along n."""
    along, across = call.dims[call.primitive.along], call.dims[call.primitive.across]
    return across * instruction_cycles(machine, "mmv", out_size=along, in_size=call.dims["k"])


def _outer_cycles(machine: Machine, call: PricedCall[OuterProduct]) -> Value:
    """Cycles of the one instruction."""
    return instruction_cycles(machine, "op", size0=call.dims["m"], size1=call.dims["n"])


def vector_cycles(machine: Machine, call: PricedCall[Any]) -> Value:
    """Cycles of the instructions at the start of a call, and of those for each run of elements."""
    turns, (once, each) = _turns(call), _mnemonics(call)
    begin, turn = (
        sum(instruction_cycles(machine, mnemonic, size=turns.run) for mnemonic in own)
        for own in (once, each)
    )
    return begin + turns.cycles(turn, len(each), _in_flight(machine))


def _mnemonics(call: PricedCall[Any]) -> tuple[Sequence[str], Sequence[str]]:
    """The instructions at the start of a call on vectors, and those of each turn."""
    match call.primitive:
        case StepByStep() as primitive:
            steps = primitive.steps(len(call.operand_dtypes) - 1)
            return [s.mnemonic for s in steps.constants], [s.mnemonic for s in steps.steps]
        case Fill(value=value):
            return (), ("vsv", "vas") if value else ("vsv",)
        case Copy():
            return (), ("vmove",)
        case _:
            return (), ("vav",)


def _turns(call: PricedCall[Any]) -> Turns:
    """The loops around its instructions; a reduction also reads its result in each of them."""
    operands = range(len(call.operand_dtypes))
    if "loops" not in call.dims:
        run = np.maximum(1, call.dims["common_run"])
        return Turns(run, (WrittenLoop(call.dims["elements"] // run, len(operands)),))
    if "k" not in call.dims:
        return written_turns(call.dims, operands)
    found = written_turns(call.dims, (0, *operands))
    return Turns(found.run, (*found.loops, WrittenLoop(call.dims["k"], 1)))


def _in_flight(machine: Machine) -> int:
    assert machine.issue is not None
    return machine.issue.in_flight


def not_rounded(machine: Machine, call: PricedCall[Any]) -> Value:
    """Refuse calls that `RoundElements` replaces. Raises ProgramError."""
    raise ProgramError(
        f"primitive {call.primitive.name!r} on {machine.name!r} computes fixed point"
    )


def turned_cycles(machine: Machine, call: PricedCall[Turned]) -> Value:
    """One product by a unit vector for each index of the outer axis."""
    m, n = call.dims["m"], call.dims["n"]
    once = instruction_cycles(machine, "vsv", size=2 * m)
    once = once + instruction_cycles(machine, "vas", size=1)
    return once + call.dims["elements"] // np.maximum(1, n) * instruction_cycles(
        machine, "mmv", out_size=n, in_size=m
    )


COSTS: Costs = {
    MatrixProduct: _product_cycles,
    RoundedProduct: _product_cycles,
    OuterProduct: _outer_cycles,
    **dict.fromkeys((Map, Reduce, Accumulate), not_rounded),
    **dict.fromkeys(
        (Fill, Copy, SaturatingAdd, RoundedMap, RoundedStep, RoundedReduce), vector_cycles
    ),
    Turned: turned_cycles,
}
_TRANSFERS = {
    ("get", "vector"): "vload",
    ("get", "matrix"): "mload",
    ("put", "vector"): "vstore",
    ("put", "matrix"): "mstore",
}


TRANSFER, MATRIX, VECTOR = range(3)
"""The units that execute operations."""


class CambriconPrices(Prices):
    """Every transfer and call costs the cycles of its instructions, by the instruction table."""

    costs = COSTS
    told_by_place = False
    unrolled_turns = UNROLLED_TURNS

    def unit(self, step: CallStep | TransferStep) -> int:
        """The unit that executes its instructions."""
        if not isinstance(step, CallStep):
            return TRANSFER
        return MATRIX if isinstance(step.stmt.primitive, MatrixProduct | Turned) else VECTOR

    def operations(self, machine: Machine, call: PricedCall[Any]) -> Value:
        """The number of its instructions."""
        if isinstance(call.primitive, OuterProduct):
            return 1
        if isinstance(call.primitive, MatrixProduct):
            return call.dims[call.primitive.across]
        if isinstance(call.primitive, Turned):
            return 2 + call.dims["elements"] // np.maximum(1, call.dims["n"])
        once, each = _mnemonics(call)
        return len(once) + _turns(call).count * len(each)

    def ends(self, machine: Machine, call: PricedCall[Any]) -> Ends:
        """Cycles of the first and the last instruction, of the loops around all, and the earliest
        at which the last turn issues.
        """
        if isinstance(call.primitive, OuterProduct):
            return super().ends(machine, call)
        if isinstance(call.primitive, MatrixProduct | Turned):
            first, last, *_ = super().ends(machine, call)
            letter = "m" if isinstance(call.primitive, Turned) else call.primitive.across
            return first, last, *Turns(1, (WrittenLoop(call.dims[letter], 2),)).around, 0
        turns, (once, each) = _turns(call), _mnemonics(call)
        every = [instruction_cycles(machine, m, size=turns.run) for m in (*once, *each)]
        own, cycles = sum(every[len(once) :]), call_cycles(machine, call, self.costs)
        return every[0], every[-1], *turns.around, turns.paced(cycles, own)

    def first_reads(self, primitive: Primitive, count: int) -> Collection[int]:
        """The operands of a map's first instruction; all operands of other calls."""
        return _sources(primitive, count, 0)

    def last_reads(self, primitive: Primitive, count: int) -> Collection[int]:
        """The operands of a map's last instruction; all operands of other calls."""
        return _sources(primitive, count, -1)

    def reads_in_turn(self, primitive: Primitive) -> Collection[int]:
        """The vectors of a product; the addend of an addition."""
        if isinstance(primitive, SaturatingAdd):
            return (0,)
        return (2 - primitive.loaded,) if isinstance(primitive, MatrixProduct) else ()

    def writes_in_turn(self, primitive: Primitive) -> bool:
        """True for a product: each instruction writes its own column."""
        return isinstance(primitive, MatrixProduct)

    def in_pieces(self, primitive: Primitive) -> bool:
        """True for an addition, which takes the results of a product one by one."""
        return isinstance(primitive, SaturatingAdd)

    def around(self, shape: TransferShape) -> tuple[Value, Value]:
        """Cycles of the loop over its blocks."""
        return Turns(1, (WrittenLoop(shape.blocks, 2),)).around

    def service_cycles(
        self,
        machine: Machine,
        direction: Direction,
        shape: TransferShape,
        tensor_bytes: Value,
        *,
        shared: bool,
    ) -> Value:
        """One instruction for each contiguous block, each with the latency of main memory."""
        mnemonic = _TRANSFERS[direction, shape.space]
        size = np.asarray(shape.block_bytes) // 2
        return shape.blocks * instruction_cycles(machine, mnemonic, size=size)


def _sources(primitive: Primitive, count: int, number: int) -> Collection[int]:
    """The operands of one instruction of a map; all operands of other calls."""
    if not isinstance(primitive, RoundedMap):
        return range(count)
    return [source - 1 for source in primitive.steps(count).steps[number].sources]


PRICES = CambriconPrices()
