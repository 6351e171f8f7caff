"""Costs of calls and transfers on a Cambricon: those of the instructions that they become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Value
from tilewright.cost.calls import CallCost, Costs, PricedCall
from tilewright.cost.prices import Prices
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
    SaturatingAdd,
    StepByStep,
    Turned,
)


def _product_cycles(machine: Machine, call: PricedCall[MatrixProduct]) -> Value:
    """One instruction for each column of the result, or each row where vectors run along n."""
    along, across = call.dims[call.primitive.along], call.dims[call.primitive.across]
    return across * instruction_cycles(machine, "mmv", out_size=along, in_size=call.dims["k"])


def _outer_cycles(machine: Machine, call: PricedCall[OuterProduct]) -> Value:
    """One instruction."""
    return instruction_cycles(machine, "op", size0=call.dims["m"], size1=call.dims["n"])


def _by_runs(mnemonic: str, run: str) -> CallCost:
    """One instruction for each contiguous run of elements."""

    def cycles(machine: Machine, call: PricedCall[Any]) -> Value:
        size = call.dims[run]
        each = instruction_cycles(machine, mnemonic, size=size)
        return _in_turns(_runs(call, run), each, len(call.operand_dtypes))

    return cycles


def _runs(call: PricedCall[Any], run: str) -> Value:
    return call.dims["elements"] // np.maximum(1, call.dims[run])


def not_rounded(machine: Machine, call: PricedCall[Any]) -> Value:
    """Refuses calls that `RoundElements` replaces; raises ProgramError."""
    raise ProgramError(
        f"primitive {call.primitive.name!r} on {machine.name!r} computes fixed point"
    )


def vector_step_cycles(machine: Machine, call: PricedCall[StepByStep]) -> Value:
    """The instructions of constants once, those of the other steps for each run."""
    operands = len(call.operand_dtypes)
    steps, size = call.primitive.steps(operands - 1), call.dims["common_run"]
    once, each = (
        sum(instruction_cycles(machine, step.mnemonic, size=size) for step in own)
        for own in (steps.constants, steps.steps)
    )
    runs = _runs(call, "common_run")
    if "k" not in call.dims:
        return once + _in_turns(runs, each, operands)
    around = np.where(runs > UNROLLED_TURNS, 2 * _TURN + operands + 1, 0)
    return once + call.dims["k"] * (_in_turns(runs, each, operands + 1) + around)


def _in_turns(count: Value, each: Value, moved: int) -> Value:
    """Cycles of a loop of `count` turns of `each` cycles on their unit: statements that move the
    `moved` addresses and count the turns may take longer.
    """
    return count * np.where(count > UNROLLED_TURNS, np.maximum(each, _TURN + moved), each)


def turned_cycles(machine: Machine, call: PricedCall[Turned]) -> Value:
    """One product by a unit vector for each index of the outer axis."""
    m, n = call.dims["m"], call.dims["n"]
    once = instruction_cycles(machine, "vsv", size=2 * m)
    once = once + instruction_cycles(machine, "vas", size=1)
    return once + call.dims["elements"] // np.maximum(1, n) * instruction_cycles(
        machine, "mmv", out_size=n, in_size=m
    )


_TURN = 2
"""Cycles of a turn beside those that move addresses: the counter's and the branch's."""
_RUNS: Mapping[type[Primitive], str] = {
    Fill: "run",
    Copy: "common_run",
    SaturatingAdd: "common_run",
}
_MNEMONICS: Mapping[type[Primitive], str] = {Fill: "vsv", Copy: "vmove", SaturatingAdd: "vav"}
COSTS: Costs = {
    MatrixProduct: _product_cycles,
    RoundedProduct: _product_cycles,
    OuterProduct: _outer_cycles,
    **dict.fromkeys((Map, Reduce, Accumulate), not_rounded),
    RoundedMap: vector_step_cycles,
    RoundedReduce: vector_step_cycles,
    Turned: turned_cycles,
    **{kind: _by_runs(_MNEMONICS[kind], run) for kind, run in _RUNS.items()},
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
    """Every transfer and call is instructions that take the cycles of the instruction table."""

    costs = COSTS

    def unit(self, step: CallStep | TransferStep) -> int:
        """The unit of its instructions."""
        if not isinstance(step, CallStep):
            return TRANSFER
        return MATRIX if isinstance(step.stmt.primitive, MatrixProduct | Turned) else VECTOR

    def operations(self, machine: Machine, call: PricedCall[Any]) -> Value:
        """Its instructions."""
        if isinstance(call.primitive, OuterProduct):
            return 1
        if isinstance(call.primitive, MatrixProduct):
            return call.dims[call.primitive.across]
        if isinstance(call.primitive, Turned):
            return 2 + call.dims["elements"] // np.maximum(1, call.dims["n"])
        if isinstance(call.primitive, StepByStep):
            steps = call.primitive.steps(len(call.operand_dtypes) - 1)
            runs = _runs(call, "common_run") * call.dims.get("k", 1)
            return len(steps.constants) + runs * len(steps.steps)
        return _runs(call, _RUNS[type(call.primitive)])

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


PRICES = CambriconPrices()
