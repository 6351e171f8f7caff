"""Costs of primitives on a mesh of SW26010 cores: swATOP Eq. 2 for the matrix product, generated
routines for others, and scalar C loops for those without a routine; and the lines of the
instruction cache that the routines of a program lie on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tilewright.common.deferred import Deferred
from tilewright.common.expr import Value
from tilewright.cost.calls import Costs, PricedCall
from tilewright.cost.elementwise import LoopForm, elementwise_costs
from tilewright.cost.fetches import CodeLines
from tilewright.cost.prices import Limited, Prices
from tilewright.ir.nodes import Program
from tilewright.ir.primitives import Map, MatrixProduct, MultiplyAccumulate, Reduce
from tilewright.isa import load_table
from tilewright.machine import GemmPrimitive, Machine
from tilewright.targets.sw26010.calls.compiled_loops import compiled_map, compiled_reduce
from tilewright.targets.sw26010.calls.prices import (
    emitted_costs,
    emitted_map,
    emitted_reduce,
)
from tilewright.targets.sw26010.dma import request_fields
from tilewright.targets.sw26010.gemm.reach import reaches
from tilewright.targets.sw26010.timing.products import chain_cycles, product_timing

if TYPE_CHECKING:
    from tilewright.targets.sw26010 import code_lines
else:  # heavy: the assembler
    code_lines = Deferred("tilewright.targets.sw26010.code_lines")


ROUTINE_BYTES = 16 * 1024
"""The most that generated routines take, whatever the machine (`gemm.steps`)."""


def product_cycles(machine: Machine, call: PricedCall[MatrixProduct]) -> Value:
    """swATOP Eq. 2 in the form that follows the code: call + rows + blocks x mesh steps x (k x rate
    + per block), and packing where the call has a workspace to pack its vector operand into. Of a
    chain of several links roles change once for each block and step, too.
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
    """Cycles of a product over `rows` and `columns` of register blocks, no chain."""
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
        """Of a core without a cache in an instruction table, and of one smaller than a routine."""
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
        """The fields of DMA descriptors, and how far the products reach from their pointers."""
        yield from request_fields(program, machine, env)
        yield from reaches(program, env)


PRICES = MeshPrices()
