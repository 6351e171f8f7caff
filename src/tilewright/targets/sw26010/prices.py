"""Costs of primitives on a mesh of SW26010 cores: swATOP Eq. 2 for the matrix product, generated
routines for others, and scalar C loops for those without a routine; and the lines of the
instruction cache that the routines of a program lie on.

Also: cycles of `map` and `reduce` on a core that runs them as C loops, one element at a time.

In: a call and the core's instruction table. Out: cycles. The code that the vendor's compiler makes
of such a loop is an assumption: one element in each iteration, with loads, the operations of the
expression in order, a store, a pointer step for each operand, a counter and a taken branch; ordered
well for the core's two pipes but neither unrolled nor pipelined, so that an element waits for its
own results. A function of the C library is assumed to take as many multiply-adds, one after the
other, as `ir.scalar` counts operations. Latencies and the times of a division and a taken branch
are those of the table. Integers take the same loops with integer instructions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from tilewright.common.deferred import Deferred
from tilewright.common.expr import Value
from tilewright.cost.calls import CallCost, Costs, PricedCall
from tilewright.cost.elementwise import LoopForm, elementwise_costs
from tilewright.cost.fetches import CodeLines
from tilewright.cost.prices import Limited, Prices
from tilewright.ir.nodes import Program
from tilewright.ir.primitives import Map, MatrixProduct, MultiplyAccumulate, Reduce
from tilewright.ir.scalar import Scalar
from tilewright.isa import InstructionTable, load_table
from tilewright.isa.dependence import Operation
from tilewright.isa.reorder import list_schedule, steady_cycles_per_iteration
from tilewright.machine import GemmPrimitive, Machine
from tilewright.targets.sw26010.calls.prices import emitted_costs, emitted_map, emitted_reduce
from tilewright.targets.sw26010.dma import reaches, request_fields
from tilewright.targets.sw26010.elementwise.expression import ExpressionOperations
from tilewright.targets.sw26010.elementwise.sums import Sums
from tilewright.targets.sw26010.timing.products import chain_cycles, product_timing

_INTEGER = {"vaddd": "addl", "vsubd": "subl", "vmuld": "mull"}
"""The instructions of integers that wrap, which have no others than these."""
_ZERO, _COUNTER, _POINTERS, _VALUES = -1, 0, 1, 100
"""Registers; for a schedule it only matters that they differ."""


@dataclass
class _Body:
    """One iteration of a loop, in the obvious order."""

    table: InstructionTable
    operations: list[Operation] = field(default_factory=list)

    def add(self, mnemonic: str, reads: Sequence[int], *writes: int) -> None:
        """One instruction, by the registers that it reads and writes."""
        spec = self.table.by_mnemonic[mnemonic]
        read = tuple(register for register in reads if register != _ZERO)
        operation = Operation(
            mnemonic,
            read,
            writes,
            spec.units,
            spec.latency_cycles,
            spec.occupancy_cycles,
            branch=mnemonic == "bne",
        )
        self.operations.append(operation)

    def cycles(self, pointers: int) -> float:
        """Cycles of an iteration in steady state, with its control and every pointer advanced."""
        for pointer in range(_POINTERS, _POINTERS + pointers):
            self.add("ldi", [pointer], pointer)
        self.add("subl", [_COUNTER], _COUNTER)
        self.add("bne", [_COUNTER])
        rules = self.table.issue
        *free, branch = self.operations
        order = list_schedule(free, rules).order
        return steady_cycles_per_iteration([*(free[i] for i in order), branch], rules)


@cache
def _map_element(table: str, scalar: Scalar, operands: int, integers: bool) -> float:
    """Cycles of one element of a map; `operands` counts the result."""
    body = _Body(load_table(table))
    inputs = list(range(operands - 1))
    for number in inputs:
        body.add("ldl" if integers else "fldd", [_POINTERS + 1 + number], _VALUES + number)
    result = _computed(body, scalar, inputs, integers)
    body.add("stl" if integers else "fstd", [result, _POINTERS])
    return body.cycles(operands)


@cache
def _reduce_element(table: str, scalar: Scalar, function: str) -> float:
    """Cycles of gathering one element."""
    body, gathered = _Body(load_table(table)), _COUNTER - 2
    body.add("fldd", [_POINTERS], _VALUES)
    value = _computed(body, scalar, [0], integers=False)
    if function != "max":
        body.add("vaddd" if function == "sum" else "vmuld", [gathered, value], gathered)
    else:
        mask = _COUNTER - 3
        body.add("vfcmplt", [gathered, value], mask)
        body.add("vseleq", [mask, gathered, value], gathered)
    return body.cycles(1)


@cache
def _reduce_result(table: str) -> float:
    """Cycles of one result, excluding its elements."""
    body = _Body(load_table(table))
    body.add("fldd", [_POINTERS], _VALUES)
    body.add("fstd", [_VALUES, _POINTERS])
    return body.cycles(2)


@cache
def _row(table: str, operands: int) -> float:
    """Cycles around the elements of an inner loop."""
    return _Body(load_table(table)).cycles(operands)


def _computed(body: _Body, scalar: Scalar, inputs: Sequence[int], integers: bool) -> int:
    """The register of the expression's value, whose operations are added to the body."""
    sums = Sums(count=len(inputs))
    result = ExpressionOperations(sums, inputs, library=True).value(scalar)

    def register(value: int) -> int:
        return _VALUES + value if value >= 0 else _ZERO

    for mnemonic, sources, target in sums.steps:
        name = _INTEGER.get(mnemonic, mnemonic) if integers else mnemonic
        body.add(name, [register(source) for source in sources], register(target))
    return register(result)


def compiled_map(loops: CallCost) -> CallCost:
    """The cost of a map in C; `loops` are for machines without an instruction table."""

    def cost(machine: Machine, call: PricedCall[Map]) -> Value:
        table, primitive = machine.core.instruction_table, call.primitive
        if table is None:
            return loops(machine, call)
        operands = int(np.max(call.dims["operands"]))
        integers = not primitive.in_floats
        each = _map_element(table, primitive.scalar, operands, integers)
        elements = call.dims["elements"]
        rows = elements // _row_elements(call)
        return np.ceil(elements * each + rows * _row(table, operands))

    return cost


def compiled_reduce(loops: CallCost) -> CallCost:
    """The cost of a reduction in C; `loops` are for machines without an instruction table."""

    def cost(machine: Machine, call: PricedCall[Reduce]) -> Value:
        table, primitive = machine.core.instruction_table, call.primitive
        if table is None:
            return loops(machine, call)
        each = _reduce_element(table, primitive.scalar, primitive.function)
        return np.ceil(call.dims["elements"] * (call.dims["k"] * each + _reduce_result(table)))

    return cost


def _row_elements(call: PricedCall[Map]) -> Value:
    """Elements of the innermost loop."""
    common = np.maximum(call.dims["common_run"], 1)
    return np.where(np.greater(common, 1), common, np.maximum(call.dims["inner"], 1))


if TYPE_CHECKING:
    from tilewright.targets.sw26010 import code_lines
else:  # heavy: the assembler
    code_lines = Deferred("tilewright.targets.sw26010.code_lines")


ROUTINE_BYTES = 16 * 1024
"""Most bytes that generated routines take, whatever the machine (`gemm.steps`)."""


def product_cycles(machine: Machine, call: PricedCall[MatrixProduct]) -> Value:
    """swATOP Eq. 2 in the form that follows the code: call + rows + blocks x mesh steps x (k x rate
    + per block), and packing if the call has a workspace to pack its vector operand into. In a
    chain of several links, too, roles change once for each block and step.
    """
    gemm, product, dims = machine.section(GemmPrimitive), call.primitive, call.dims
    rows = -(-dims[product.along] // (gemm.lanes * gemm.register_block_vectors))
    columns = -(-dims[product.across] // gemm.register_block_scalars)
    plain = _single_cycles(machine, call, rows, columns)
    links = dims.get("links", 1)
    if not np.any(np.greater(links, 1)):
        return plain
    several = np.maximum(links, 2)
    extents = (rows, columns, dims["k"] // several, several)
    switches = rows * columns * machine.mesh.columns * gemm.switch_cycles
    chained = chain_cycles(machine, call.dtype, extents) + switches
    return np.where(np.greater(links, 1), chained, plain)


def _single_cycles(
    machine: Machine, call: PricedCall[MatrixProduct], rows: Value, columns: Value
) -> Value:
    """Cycles of a single product, no chain, over `rows` and `columns` of register blocks."""
    gemm, product, terms = machine.section(GemmPrimitive), call.primitive, call.dims["k"]
    timing, blocks = product_timing(machine, call.dtype), rows * columns
    each = terms * timing.cycles_per_k + timing.block_cycles + gemm.switch_cycles
    cycles = timing.call_cycles + rows * timing.row_cycles + blocks * machine.mesh.columns * each
    if product.workspace is not None:
        sweeps = -(-terms // gemm.lanes)
        cycles = cycles + sweeps * (timing.sweep_cycles + rows * timing.row_sweep_cycles)
    return cycles


def multiply_accumulate_cycles(machine: Machine, call: PricedCall[MultiplyAccumulate]) -> Value:
    """A compiled loop for each factor: load both, multiply and add, store."""
    vectors = -(-call.dims["elements"] // machine.core.lanes(call.dtype))
    return LoopForm().cycles(machine, vectors, memory=3, arithmetic=1)


_SHARED: Costs = elementwise_costs(LoopForm())
_LOOPS: Costs = {
    **_SHARED,
    Map: emitted_map(compiled_map(_SHARED[Map])),
    Reduce: emitted_reduce(compiled_reduce(_SHARED[Reduce])),
    MultiplyAccumulate: multiply_accumulate_cycles,
}
COSTS: Costs = {MatrixProduct: product_cycles, **emitted_costs(_LOOPS)}


class MeshPrices(Prices):
    """Prices of a mesh that computes a matrix product together."""

    costs = COSTS

    def refill_note(self, machine: Machine) -> str:
        """A note if a core's instruction table has no cache, or one smaller than a routine."""
        name = machine.core.instruction_table
        cache = load_table(name).instruction_cache if name else None
        if cache is None:
            lacks = f"its table {name} has no instruction cache" if name else "it names no table"
            return f"refills of the instruction cache are not priced on {machine.name}: {lacks}"
        if cache.capacity_bytes >= ROUTINE_BYTES:
            return ""
        return (
            f"the instruction cache of {machine.name} has {cache.capacity_bytes} bytes, a routine "
            f"up to {ROUTINE_BYTES}: a call fetches each line that it lacks once, in "
            f"{cache.miss_cycles} cycles"
        )

    def code(self, program: Program, machine: Machine) -> CodeLines | None:
        return code_lines.code_lines(program, machine)

    def limited(
        self, program: Program, machine: Machine, env: Mapping[str, Value]
    ) -> Iterable[Limited]:
        """The fields of DMA descriptors, and how far products reach from their pointers."""
        yield from request_fields(program, machine, env)
        yield from reaches(program, env)


PRICES = MeshPrices()
