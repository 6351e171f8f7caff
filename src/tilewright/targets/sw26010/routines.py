"""The routines that a program calls: what they are priced at, and what those in assembly take."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.codegen.artifact import RoutineCycles
from tilewright.cost.calls import PricedCall
from tilewright.cost.prices import call_costs
from tilewright.ir.nodes import Program
from tilewright.ir.primitives import MatrixProduct, Reduce, ScalarPrimitive
from tilewright.ir.visit import instantiate
from tilewright.machine import Machine
from tilewright.targets.sw26010.compiled_loops import compiled_calls
from tilewright.targets.sw26010.exact_gemm import GEMM_CYCLES, exact_gemm_cost
from tilewright.targets.sw26010.gemm_instances import GemmInstance, gemm_instances
from tilewright.targets.sw26010.names import mesh_bindings
from tilewright.targets.sw26010.vector_code import MODES
from tilewright.targets.sw26010.vector_routines import Routine, program_routines
from tilewright.targets.sw26010.vector_timing import (
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
    priced = sum(c * float(term) for c, term in zip(fitted.coefficients, terms, strict=True))
    exact = _simulated_cycles(routine, table) if simulated else None
    return RoutineCycles(routine.name, what, round(priced), exact)


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
