"""The routines that a program calls: what they are priced at, and what those in assembly take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.codegen.artifact import RoutineCycles
from tilewright.common.expr import Value
from tilewright.cost.calls import PricedCall
from tilewright.cost.prices import call_costs
from tilewright.ir.nodes import Call, Program
from tilewright.ir.primitives import MatrixProduct, Reduce, ScalarPrimitive
from tilewright.ir.visit import instantiate, walk
from tilewright.machine import Machine
from tilewright.targets.sw26010.exact_gemm import GEMM_CYCLES, exact_gemm_cost
from tilewright.targets.sw26010.gemm_instances import GemmInstance, gemm_instances
from tilewright.targets.sw26010.gemm_shape import VECTOR_LANES
from tilewright.targets.sw26010.map_calls import map_routines, mapped_calls
from tilewright.targets.sw26010.map_timing import map_cycles, map_terms, map_timing
from tilewright.targets.sw26010.names import mesh_bindings
from tilewright.targets.sw26010.reduce_calls import reduce_routines, reduced_calls
from tilewright.targets.sw26010.reduce_timing import (
    Extents,
    reduce_cycles,
    reduce_terms,
    reduce_timing,
)
from tilewright.targets.sw26010.vector_code import MODES
from tilewright.targets.sw26010.vector_map import MapRoutine
from tilewright.targets.sw26010.vector_reduce import ELEMENTS, ReduceRoutine
from tilewright.targets.sw26010.vector_reduce_text import reduce_text
from tilewright.targets.sw26010.vector_routines import Routine, program_routines
from tilewright.targets.sw26010.vector_timing import (
    assembled,
    nest_cycles,
    nest_terms,
    routine_program,
    rows_cycles,
    rows_terms,
    timings_of,
)

_ROWS, _ITEMS, _GATHERED = 4, 16, 8
"""The call of an elementwise routine that is shown."""


@dataclass(frozen=True)
class Sw26010Routines:
    """What `tilewright explain` says of the code that a kernel's time comes from."""

    def routines(
        self, program: Program, machine: Machine, *, simulated: bool
    ) -> tuple[RoutineCycles, ...]:
        """Matrix routines by shape; of elementwise ones a call of some rows, by vectors; of loops
        that a compiler makes what is assumed for some rows.

        None for machines without an instruction table, which no code's cycles are known for.
        """
        table = machine.core.instruction_table
        if table is None:
            return ()
        whole = instantiate(program, mesh_bindings(machine))
        found = [_product(i, machine, simulated) for i in gemm_instances(whole, machine)]
        found += [_called(r, table, simulated) for r in program_routines(whole)]
        found += [_mapped(r, table, simulated) for r in map_routines(whole)]
        found += [_reduced(r, table, simulated) for r in reduce_routines(whole)]
        return (*found, *(_compiled(call, machine) for call in compiled_calls(whole)))


def _product(instance: GemmInstance, machine: Machine, simulated: bool) -> RoutineCycles:
    shape, variant = instance.shape, instance.variant
    workspace = "workspace" if instance.plan.packs_vector else None
    product = MatrixProduct(variant.vectorised, workspace=workspace)
    dims = {"m": shape.m, "n": shape.n, "k": shape.k}
    call = PricedCall(product, dims, variant.precision.name)
    priced = float(call_costs(machine)[MatrixProduct](machine, call))
    what = f"{shape.m} x {shape.n} x {shape.k} per core"
    exact = round(float(exact_gemm_cost(GEMM_CYCLES)(machine, call))) if simulated else None
    return RoutineCycles(instance.symbol, what, round(priced), exact)


def _called(routine: Routine, table: str, simulated: bool) -> RoutineCycles:
    fitted = timings_of(table).routines[routine.name].vectors
    if routine.work is None:
        terms = rows_terms(True, _ROWS, _ITEMS, _ITEMS // 2)
        what = f"{_ROWS} rows of {_ITEMS // 2} vectors to {_ITEMS}"
    else:
        terms = nest_terms(routine.work.unrolled, _ROWS, _ITEMS)
        what = f"{_ROWS} rows of {_ITEMS} vectors"
    priced = _dot(fitted.coefficients, terms)
    exact = _simulated_cycles(routine, table) if simulated else None
    return RoutineCycles(routine.name, what, round(priced), exact)


def _mapped(routine: MapRoutine, table: str, simulated: bool) -> RoutineCycles:
    coefficients = map_timing(table, routine).vectors.coefficients
    terms = map_terms(routine, MODES[0], _ROWS, _ITEMS * VECTOR_LANES)
    priced = _dot(coefficients, terms)
    exact = None
    if simulated:
        code = assembled(routine.text(), table)
        exact = map_cycles(routine, code, MODES[0], (1, _ROWS, _ITEMS))
    what = f"{routine.expression}: {_ROWS} rows of {_ITEMS} vectors"
    return RoutineCycles(routine.name, what, round(priced), exact)


def _reduced(routine: ReduceRoutine, table: str, simulated: bool) -> RoutineCycles:
    lie, mode = routine.lie, routine.lie.modes[0]
    size = 1 if lie.along or mode == ELEMENTS else VECTOR_LANES
    length = _GATHERED if lie.along else lie.taps
    loops = (2, 2) if lie.loops else (1, 1)
    shown = Extents(_ROWS, _ITEMS * size, *loops, length)
    fit = reduce_timing(table, routine).modes[mode]
    priced, exact = _dot(fit.coefficients, reduce_terms(routine, mode, shown)), None
    if simulated:
        code = assembled(reduce_text(routine), table)
        exact = reduce_cycles(routine, code, mode, (1, _ROWS), shown)
    elements = prod(loops) * length
    kind = "vectors" if size > 1 else "results"
    what = f"{routine.function} {routine.expression}: {_ROWS} rows of {_ITEMS} {kind} of {elements}"
    return RoutineCycles(routine.name, what, round(priced), exact)


def compiled_calls(program: Program) -> tuple[PricedCall[ScalarPrimitive], ...]:
    """The distinct loops in C of a program, in their order, by their number of operands."""
    given = (*mapped_calls(program), *reduced_calls(program))
    routines = {id(call): routine for call, routine in given}
    found: list[PricedCall[ScalarPrimitive]] = []
    for call in walk(program.body):
        if not (isinstance(call, Call) and isinstance(call.primitive, ScalarPrimitive)):
            continue
        dtype = call.primitive.computed_in or program.element_type(call.operands[0])
        priced = PricedCall(call.primitive, {"operands": len(call.operands)}, dtype)
        if routines.get(id(call)) is None and priced not in found:
            found.append(priced)
    return tuple(found)


def _dot(coefficients: Sequence[float], terms: Sequence[Value]) -> float:
    return sum(c * float(term) for c, term in zip(coefficients, terms, strict=True))


def _compiled(call: PricedCall[ScalarPrimitive], machine: Machine) -> RoutineCycles:
    """A map of the rows that are shown, or as many results of eight elements each."""
    primitive = call.primitive
    dims = {"elements": _ROWS * _ITEMS, "common_run": _ITEMS, "inner": _ITEMS, "k": _GATHERED}
    shown = replace(call, dims={**dims, "operands": call.dims["operands"]})
    priced = float(call_costs(machine)[type(primitive)](machine, shown))
    taken = f" of {_GATHERED}" if isinstance(primitive, Reduce) else ""
    what = f"compiled C, assumed: {_ROWS} rows of {_ITEMS} elements{taken}"
    return RoutineCycles(f"{primitive.name} {primitive.scalar}", what, round(priced))


def _simulated_cycles(routine: Routine, table: str) -> int:
    mode, code = MODES[0], routine_program(routine, table)
    if routine.work is None:
        return rows_cycles(routine, code, mode, (_ROWS, _ITEMS, _ITEMS // 2))
    return nest_cycles(routine, code, mode, (1, _ROWS, _ITEMS))


ROUTINES = Sw26010Routines()
