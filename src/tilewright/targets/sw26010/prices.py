"""Costs of primitives on a mesh of SW26010 cores: swATOP Eq. 2 for the matrix product, generated
routines for others, and scalar C loops for those without a routine; and the lines of the
instruction cache that the routines of a program lie on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import cast

import numpy as np

from tilewright.common.digest import digest, own_sources
from tilewright.common.errors import CapacityError, ProgramError, ScheduleError
from tilewright.common.expr import Value
from tilewright.cost.calls import Costs, PricedCall, priced_call
from tilewright.cost.elementwise import LoopForm, elementwise_costs
from tilewright.cost.fetches import CodeLines
from tilewright.cost.prices import Limited, Prices
from tilewright.cost.steps import BranchStep, CallStep, LoopStep, steps_of
from tilewright.cost.totals import executed_calls
from tilewright.ir.nodes import Program
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import Map, MatrixProduct, MultiplyAccumulate, Reduce
from tilewright.ir.visit import instantiate
from tilewright.isa import load_table
from tilewright.machine import GemmPrimitive, Machine
from tilewright.passes.lowering import lowering_of
from tilewright.targets.sw26010.calls.compiled_loops import compiled_map, compiled_reduce
from tilewright.targets.sw26010.calls.expressions import ROUTINES
from tilewright.targets.sw26010.calls.nest_rows import has_loops
from tilewright.targets.sw26010.calls.prices import (
    emitted_costs,
    emitted_map,
    emitted_reduce,
    has_as_many_loops,
    map_rows,
    priced_loops,
    routine_of_code,
    routine_of_rows,
)
from tilewright.targets.sw26010.dma import request_fields
from tilewright.targets.sw26010.elementwise.maps import MapRoutine
from tilewright.targets.sw26010.elementwise.reduce import ReduceRoutine
from tilewright.targets.sw26010.elementwise.routines import Routine, routine_of
from tilewright.targets.sw26010.gemm.assembly import frame
from tilewright.targets.sw26010.gemm.instances import GemmInstance, called_instances
from tilewright.targets.sw26010.gemm.length import kernel_length
from tilewright.targets.sw26010.gemm.reach import reaches
from tilewright.targets.sw26010.names import mesh_bindings
from tilewright.targets.sw26010.timing.products import chain_cycles, product_timing


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


def code_lines(program: Program, machine: Machine) -> CodeLines | None:
    """The lines of a program's routines; None where the core has no instruction cache or no
    instruction table, a product has no routine, or all routines fit together.

    Routines of products stand first, in the order of their calls, then all others. A call is taken
    to execute all of its routine; loops that a compiler makes have no lines.
    """
    try:
        return _lines(program, machine)
    except (CapacityError, ProgramError, ScheduleError):  # simulated, but not to be emitted
        return None


def _lines(program: Program, machine: Machine) -> CodeLines | None:
    name = machine.core.instruction_table
    table = load_table(name) if name else None
    if table is None or table.instruction_cache is None:
        return None
    bound, own = instantiate(program, mesh_bindings(machine)), table.instruction_cache
    instances = {id(call): every for call, every in called_instances(bound, machine)}
    words: dict[str, int] = {}
    routines: dict[tuple[int, tuple[int, ...]], str] = {}
    for group in executed_calls(bound, machine):
        if min(group.dims.values(), default=1) > 0:
            call = priced_call(group.stmt, group.dims, bound)
            found = _routine(call, instances.get(id(group.stmt), ()))
            if found is not None:
                words[found[0]] = found[1]
                routines[id(group.stmt), tuple(group.dims.values())] = found[0]
    order = sorted(words, key=lambda routine: routine.startswith("tw_"))
    counts = [-(-words[one] * table.word_bits // 8 // own.line_bytes) for one in order]
    if sum(counts) <= own.sets * own.ways:
        return None
    numbers = {id(step.stmt): n for n, step in enumerate(_calls(bound, machine))}
    calls = {(numbers[at], dims): order.index(one) for (at, dims), one in routines.items()}
    starts = accumulate(counts[:-1], initial=0)
    return CodeLines(own, tuple(zip(starts, counts, strict=True)), calls)


def _routine(
    call: PricedCall[Primitive], instances: Sequence[GemmInstance]
) -> tuple[str, int] | None:
    """The name and the instructions of a call's routine, None for a loop that a compiler makes."""
    found: MapRoutine | ReduceRoutine | Routine | None = None
    dims = call.dims
    if isinstance(call.primitive, MatrixProduct):
        links = int(dims.get("links", 1))
        extents = dims["m"], dims["n"], dims["k"] // links, links
        shapes = [(i.shape.m, i.shape.n, i.shape.k, i.shape.links) for i in instances]
        own = instances[shapes.index(extents)]
        return own.symbol, _instructions(own)
    if isinstance(call.primitive, Map) and has_loops(dims) and call.primitive.dtype is None:
        rows = map_rows(cast("PricedCall[Map]", call))
        if has_as_many_loops(rows):
            found = routine_of_rows(cast("PricedCall[Map]", call), int(rows.still))
    elif isinstance(call.primitive, Reduce) and has_loops(dims):
        loops = priced_loops(dims)
        found = routine_of_code(call, int(loops.code)) if loops.priced else None
    elif not isinstance(call.primitive, Map | Reduce):
        found = routine_of(call.primitive, call.dtype)
    return None if found is None else (found.name, _instructions(found))


def _calls(program: Program, machine: Machine) -> Iterator[CallStep]:
    """The calls of a program in the order of its text."""
    waiting = list(reversed(steps_of(program, chains=lowering_of(machine).chains)))
    while waiting:
        match waiting.pop():
            case LoopStep(_, body):
                waiting += reversed(body)
            case BranchStep(_, then, orelse):
                waiting += reversed((*then, *orelse))
            case CallStep() as step:
                yield step
            case _:
                pass


@cache
def _instructions(routine: GemmInstance | MapRoutine | ReduceRoutine | Routine) -> int:
    """Instructions of a routine, kept beside the texts of routines."""
    key = digest("instructions", own_sources(), repr(routine))
    return ROUTINES.value(key, int, partial(_counted, routine))


def _counted(routine: GemmInstance | MapRoutine | ReduceRoutine | Routine) -> int:
    """Instructions of a product, and of a text: one on each line that is indented and no
    directive.
    """
    if isinstance(routine, GemmInstance):
        around = [*frame("", chain=routine.shape.links > 1)]
        return len(around) + kernel_length(routine.plan)
    lines = (line.split("//")[0].strip() for line in routine.text().splitlines() if line[:1] == " ")
    return sum(bool(line) and line[0] != "." for line in lines)


class MeshPrices(Prices):
    """Prices of a mesh that computes a matrix product together."""

    costs = COSTS

    def code(self, program: Program, machine: Machine) -> CodeLines | None:
        """The lines of the program's routines."""
        return code_lines(program, machine)

    def limited(
        self, program: Program, machine: Machine, env: Mapping[str, Value]
    ) -> Iterable[Limited]:
        """The fields of DMA descriptors, and how far the products reach from their pointers."""
        yield from request_fields(program, machine, env)
        yield from reaches(program, env)


PRICES = MeshPrices()
