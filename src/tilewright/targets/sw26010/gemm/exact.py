"""The cost of a matrix product by simulating its routine instruction by instruction.

In: the extents of one call. Out: cycles of the emitted routine on all cores of the mesh, its stack
frame included, as a `CallCost`: `simulate(program, machine, costs={**call_costs(machine),
MatrixProduct: exact_gemm_cost()})`. It replaces the calibrated form of swATOP Eq. 2. The machine's
instruction table gives the timing; its `switch_cycles`, which no simulation shows, are added to the
cost but not to cycles called simulated. Cycles do not depend on the data, and depend on leading
dimensions only if a pointer step needs several instructions (beyond 32 KB); the smallest legal ones
are simulated. Each shape is simulated once per process, or only once with a cache.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate

import msgspec
import numpy as np

from tilewright.asm import assemble, link
from tilewright.common.cache import CacheStore
from tilewright.common.digest import digest, own_sources
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Value
from tilewright.cost.calls import CallCost, PricedCall
from tilewright.ir.primitives import MatrixProduct
from tilewright.isa import InstructionTable, load_table, table_names
from tilewright.machine import Machine
from tilewright.machine.sections import GemmPrimitive
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import SimulatedMesh
from tilewright.simulate.runs import MeshRun
from tilewright.targets.sw26010.gemm.assembly import emit_gemm_assembly, routine_name
from tilewright.targets.sw26010.gemm.instances import GemmInstance, square_mesh
from tilewright.targets.sw26010.gemm.parts import TABLE_NAME
from tilewright.targets.sw26010.gemm.shape import (
    PRECISIONS,
    VECTOR_LANES,
    GemmShape,
    GemmVariant,
    Layout,
)
from tilewright.targets.sw26010.timing.products import chain_memory

_ARTIFACT = "measured"
_VECTOR_BYTES = 32
GEMM_CYCLES = CacheStore("gemm-cycles")
"""The simulated cycles of this user."""


def exact_gemm_cost(cache: CacheStore | None = None) -> CallCost:
    """A cost function for `gemm` calls: the simulated cycles and the machine's `switch_cycles`.

    It raises as `simulated_gemm_cycles` does.
    """

    def cost(machine: Machine, call: PricedCall[MatrixProduct]) -> Value:
        simulated, mesh = simulated_gemm_cycles(machine, call, cache), square_mesh(machine)
        plan = _instance(call, mesh).plan
        blocks = plan.vector_blocks * plan.scalar_blocks
        return simulated + blocks * mesh * machine.section(GemmPrimitive).switch_cycles

    return cost


def simulated_gemm_cycles(
    machine: Machine, call: PricedCall[MatrixProduct], cache: CacheStore | None = None
) -> int:
    """Simulated cycles of the instructions of one call, without fitted terms; `cache` shares them
    with other processes.

    Raises ProgramError for a machine with other cores than the routines are written for, and for
    several shapes at once, ScheduleError and CapacityError for shapes that they refuse.
    """
    table = _table_of(machine)
    if any(np.ndim(call.dims[axis]) for axis in "mnk"):
        raise ProgramError(
            "exact cycles of a gemm are simulated one shape at a time",
            fix="price many shapes with the calibrated form, call_costs(machine)",
        )
    return _known_cycles(_instance(call, square_mesh(machine)), table, cache)


def _table_of(machine: Machine) -> str:
    """The machine's instruction table, if the routines are written for its cores."""
    table = machine.core.instruction_table
    fits = table in table_names() and load_table(table).instruction_set == TABLE_NAME
    if table is None or not fits:
        raise ProgramError(
            f"machine {machine.name!r} has cores of {table!r}, the routines are for {TABLE_NAME!r}",
            fix="use the calibrated form, call_costs(machine)",
        )
    return table


def _instance(call: PricedCall[MatrixProduct], mesh: int) -> GemmInstance:
    """The routine of a call, with the smallest leading dimensions."""
    m, n, k = (int(call.dims[axis]) for axis in "mnk")
    links = int(call.dims.get("links", 1))
    k //= links
    by_m = call.primitive.along == "m"
    packs = call.primitive.workspace is not None
    orders: tuple[Layout, Layout] = ("row", "column") if packs else ("column", "row")
    a: Layout = orders[0] if by_m else "column"
    b: Layout = "row" if by_m else orders[1]
    precision = PRECISIONS[call.dtype]
    variant = GemmVariant("m" if by_m else "n", a, b, precision)
    leading = (m if a == "column" else k, n if b == "row" else k, m if by_m else n)
    lda, ldb, ldc = map(_whole_vectors, leading)
    return GemmInstance(variant, GemmShape(m, n, k, lda, ldb, ldc, mesh=mesh, links=links))


def _whole_vectors(extent: int) -> int:
    return -(-extent // VECTOR_LANES) * VECTOR_LANES


def _known_cycles(instance: GemmInstance, table: str, kept: CacheStore | None) -> int:
    if kept is None:
        return _routine_cycles(instance, table)
    key = digest(instance.symbol, str(instance.shape.mesh), _sources_digest(table))
    return kept.value(key, int, lambda: _routine_cycles(instance, table))


@cache
def _sources_digest(table: str) -> str:
    """A digest of all that determines the cycles: instruction tables, generator, simulator."""
    tables = (msgspec.json.encode(load_table(name)) for name in (TABLE_NAME, table))
    return digest(*tables, own_sources())


@cache
def _routine_cycles(instance: GemmInstance, table_name: str = TABLE_NAME) -> int:
    return product_run(instance, table_name).cycles


def product_run(instance: GemmInstance, table_name: str) -> MeshRun:
    """The run from the call of the emitted routine to the return of the last core.

    The routine is the same for every table of the instruction set `TABLE_NAME`; its time is not.
    """
    table = load_table(table_name)
    symbol = routine_name(_ARTIFACT, instance)
    text = emit_gemm_assembly(_ARTIFACT, [instance])
    program = load_image(link([assemble(text, table)], table), table).program
    mesh = SimulatedMesh(instance.shape.mesh, instance.shape.mesh)
    if instance.shape.links == 1:
        registers = _arguments(instance, table)
        return simulate_mesh(program, mesh, entries=symbol, registers=registers)
    given = instance.plan.operand_bytes, instance.shape.links, instance.shape.mesh**2
    memory, (pairs, result, _) = chain_memory(*given)
    registers = {"$16": pairs, "$17": result, "$30": table.local_memory_bytes}
    return simulate_mesh(program, mesh, entries=symbol, registers=registers, local_memory=memory)


def _arguments(instance: GemmInstance, table: InstructionTable) -> dict[str, int]:
    """Consecutive addresses of A, B, C and the workspace, and the stack pointer."""
    sizes = (-(-size // _VECTOR_BYTES) * _VECTOR_BYTES for size in instance.plan.operand_bytes)
    places = list(accumulate(sizes, initial=0))
    registers = {f"${16 + i}": place for i, place in enumerate(places)}
    return {**registers, "$30": table.local_memory_bytes}
