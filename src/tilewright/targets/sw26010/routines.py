"""The routines that a program calls: each distinct call, its price, and the cycles of the routine's
text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any, cast

import numpy as np

from tilewright.codegen.artifact import RoutineCycles
from tilewright.common.expr import Value
from tilewright.cost.calls import PricedCall, call_cycles, priced_call
from tilewright.cost.prices import call_costs
from tilewright.cost.totals import CallGroup, executed_calls
from tilewright.ir.nodes import Program
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import Map, MatrixProduct, Reduce
from tilewright.ir.visit import instantiate
from tilewright.machine import Machine
from tilewright.targets.sw26010.calls.nest_rows import NestRows, has_loops
from tilewright.targets.sw26010.calls.prices import (
    PricedLoops,
    has_as_many_loops,
    map_rows,
    mode_cycles,
    mode_shares,
    nests_of,
    priced_loops,
    repacked_cycles,
    routine_cycles,
    routine_of_code,
    routine_of_rows,
)
from tilewright.targets.sw26010.calls.prices import nest_cycles as priced_nest
from tilewright.targets.sw26010.elementwise.code import MODES
from tilewright.targets.sw26010.elementwise.lie import ELEMENTS
from tilewright.targets.sw26010.elementwise.maps import MapRoutine
from tilewright.targets.sw26010.elementwise.reduce import ReduceRoutine
from tilewright.targets.sw26010.elementwise.routines import Routine, routine_of
from tilewright.targets.sw26010.gemm.exact import GEMM_CYCLES, simulated_gemm_cycles
from tilewright.targets.sw26010.gemm.instances import GemmInstance, called_instances
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES
from tilewright.targets.sw26010.names import mesh_bindings
from tilewright.targets.sw26010.timing.maps import map_cycles
from tilewright.targets.sw26010.timing.nests import NESTS, sample_cycles
from tilewright.targets.sw26010.timing.reductions import reduce_cycles


@dataclass(frozen=True)
class Sw26010Routines:
    """The routines behind a kernel's time, as `tilewright explain` reports them."""

    def routines(
        self, program: Program, machine: Machine, *, simulated: bool
    ) -> tuple[RoutineCycles, ...]:
        """The distinct calls of matrix routines, of elementwise ones, and of loops that a compiler
        makes, which are not simulated.

        None for machines without an instruction table, which no code's cycles are known for.
        """
        table = machine.core.instruction_table
        if table is None:
            return ()
        calls = _Calls(instantiate(program, mesh_bindings(machine)), machine, table, simulated)
        return _together(calls.found())


def _together(found: Iterable[RoutineCycles]) -> tuple[RoutineCycles, ...]:
    """Merge equal calls, keep those of one routine together, in the order of its first call."""
    by_name: dict[str, dict[RoutineCycles, int]] = {}
    for one in found:
        own = by_name.setdefault(one.name, {})
        key = replace(one, calls=None)
        own[key] = own.get(key, 0) + (one.calls or 0)
    return tuple(
        replace(key, calls=count) for own in by_name.values() for key, count in own.items()
    )


@dataclass
class _Calls:
    """The calls of one program, with their cycles."""

    program: Program
    machine: Machine
    table: str
    simulated: bool

    def found(self) -> Iterator[RoutineCycles]:
        """One entry per call of a routine."""
        for group in executed_calls(self.program, self.machine):
            if min(group.dims.values(), default=1) > 0:
                call = priced_call(group.stmt, group.dims, self.program)
                yield from self._of(group, call)

    def _of(self, group: CallGroup, call: PricedCall[Primitive]) -> Iterator[RoutineCycles]:
        if isinstance(call.primitive, MatrixProduct):
            yield replace(self._product(group, call), calls=group.count)
            return
        if isinstance(call.primitive, Map):
            yield replace(self._map(cast(PricedCall[Map], call)), calls=group.count)
            return
        if isinstance(call.primitive, Reduce):
            yield from self._reduce(cast(PricedCall[Reduce], call), group.count)
            return
        routine = routine_of(call.primitive, call.dtype)
        if routine is None:
            yield replace(self._compiled(call), calls=group.count)
        elif routine.work is None:
            yield replace(self._repacked(routine, call), calls=group.count)
        else:
            for count, rows in nests_of(call):
                if calls := round(group.count * float(count)):
                    yield replace(self._nest(routine, rows), calls=calls)

    def _map(self, call: PricedCall[Map]) -> RoutineCycles:
        if call.primitive.dtype is not None or not has_loops(call.dims):
            return self._compiled(call)
        rows = map_rows(call)
        routine = routine_of_rows(call, int(rows.still)) if has_as_many_loops(rows) else None
        return self._compiled(call) if routine is None else self._mapped(routine, rows)

    @cached_property
    def _instances(self) -> Mapping[int, tuple[GemmInstance, ...]]:
        calls = called_instances(self.program, self.machine)
        return {id(call): instances for call, instances in calls}

    def _product(self, group: CallGroup, call: PricedCall[Any]) -> RoutineCycles:
        links = int(group.dims.get("links", 1))
        m, n, k = (int(group.dims[axis]) for axis in "mnk")
        shapes = self._instances[id(group.stmt)]
        extents, own = (m, n, k // links, links), (i.shape for i in shapes)
        found = [(shape.m, shape.n, shape.k, shape.links) for shape in own]
        instance = shapes[found.index(extents)]
        exact = None
        if self.simulated:
            exact = simulated_gemm_cycles(self.machine, call, GEMM_CYCLES)
        linked = f"{links} links of " if links > 1 else ""
        what = f"{linked}{m} x {n} x {k // links} per core"
        return RoutineCycles(instance.symbol, what, self._price(call), exact)

    def _price(self, call: PricedCall[Primitive]) -> int:
        return round(float(call_cycles(self.machine, call, call_costs(self.machine))))

    def _nest(self, routine: Routine, rows: NestRows) -> RoutineCycles:
        assert routine.work is not None
        timing = NESTS.timing(self.table, routine)
        priced = round(float(priced_nest(timing, routine.work.unrolled, rows)))
        exact = None
        if self.simulated:
            exact = sample_cycles(self.table, routine, mode_of(rows), counts_of(rows))
        return RoutineCycles(routine.name, call_text(rows), priced, exact)

    def _mapped(self, routine: MapRoutine, rows: NestRows) -> RoutineCycles:
        priced, exact = round(float(routine_cycles(self.table, routine, rows))), None
        if self.simulated:
            exact = map_cycles(self.table, routine, mode_of(rows), counts_of(rows))
        what = f"{call_text(rows)}: {routine.expression}"
        return RoutineCycles(routine.name, what, priced, exact)

    def _reduce(self, call: PricedCall[Reduce], count: int) -> Iterator[RoutineCycles]:
        """One entry per mode of the routine; calls are divided by the share whose operands start on
        a vector boundary.
        """
        nest = priced_loops(call.dims) if has_loops(call.dims) else None
        routine = None
        if nest is not None and nest.priced:
            routine = routine_of_code(call, int(nest.code))
        if nest is None or routine is None:
            yield replace(self._compiled(call), calls=count)
            return
        share, before = 0.0, 0
        for mode, of_all in mode_shares(routine, nest).items():
            share += float(of_all)
            calls = round(share * count) - before
            before += calls
            if calls:
                yield replace(self._reduced(routine, mode, nest), calls=calls)

    def _reduced(self, routine: ReduceRoutine, mode: str, nest: PricedLoops) -> RoutineCycles:
        extents = nest.extents
        priced = round(float(np.ceil(mode_cycles(self.table, routine, mode, extents))))
        by_vectors = mode != ELEMENTS and not routine.lie.along
        rows, exact = replace(nest.rows, by_vectors=by_vectors), None
        if self.simulated:
            exact = reduce_cycles(self.table, routine, mode, counts_of(rows)[:-1], extents)
        taken = prod(map(int, (extents.outer, extents.inner, extents.length)))
        what = f"{call_text(rows)} of {taken}: {routine.function} {routine.expression}"
        return RoutineCycles(routine.name, what, priced, exact)

    def _repacked(self, routine: Routine, call: PricedCall[Primitive]) -> RoutineCycles:
        exact = None
        if self.simulated:

            def cycles(grows: bool, rows: Value, larger: Value, smaller: Value) -> Value:
                return _rows_simulated(self.table, routine, grows, (rows, larger, smaller))

            exact = round(float(repacked_cycles(call.dims, cycles)))
        what = f"a tile of {call.dims['source_elements']} elements to {call.dims['elements']}"
        return RoutineCycles(routine.name, what, self._price(call), exact)

    def _compiled(self, call: PricedCall[Primitive]) -> RoutineCycles:
        """A loop of C, whose time is an assumption."""
        primitive = call.primitive
        taken = f" of {call.dims['k']}" if isinstance(primitive, Reduce) else ""
        what = f"compiled C, assumed: {call.dims['elements']} elements{taken}"
        scalar = getattr(primitive, "scalar", None)
        name = primitive.name if scalar is None else f"{primitive.name} {scalar}"
        return RoutineCycles(name, what, self._price(call))


def mode_of(rows: NestRows) -> str:
    """The mode in which the rows of a nest are done."""
    return MODES[0] if rows.by_vectors else MODES[1]


def counts_of(rows: NestRows) -> tuple[int, ...]:
    """The iterations of a nest's loops that are more than one, outermost first, and the items of a
    row.
    """
    inside = [int(rows.rows), *(int(count) + 1 for count in rows.around), 1]
    loops = [around // inner for around, inner in pairwise(inside)]
    while loops and loops[-1] == 1:
        loops.pop()
    return (*reversed(loops), int(rows.items))


def call_text(rows: NestRows) -> str:
    """The text of a nest's call: its loops, outermost first, and its row.

    >>> call_text(NestRows(8, 12, (2, 0, 0, 0), True))
    '3 x 4 rows of 2 vectors'
    """
    *loops, items = counts_of(rows)
    many = " x ".join(map(str, loops)) or "1"
    item = "vector" if rows.by_vectors else "element"
    return f"{many} row{'s' * (many != '1')} of {items} {item}{'s' * (items != 1)}"


def _rows_simulated(
    table: str, routine: Routine, grows: bool, change: tuple[Value, Value, Value]
) -> Value:
    """Cycles of rows that change between two lengths in elements; rows, the larger and the smaller
    length may differ from core to core.
    """
    each = [sample_cycles(table, routine, *own) for own in changes_of(grows, change)]
    return np.reshape(np.array(each, np.int64), np.broadcast_shapes(*map(np.shape, change)))


def changes_of(
    grows: bool, change: tuple[Value, Value, Value]
) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Mode and counts of each core's call that changes rows between two lengths in elements."""
    for count, more, less in zip(*map(np.ravel, np.broadcast_arrays(*change)), strict=True):
        whole = more % VECTOR_LANES == less % VECTOR_LANES == 0
        size, mode = (VECTOR_LANES, MODES[0]) if whole else (1, MODES[1])
        lengths = (more // size, less // size) if grows else (less // size, more // size)
        yield mode, (int(count), int(lengths[0]), int(lengths[1]))


ROUTINES = Sw26010Routines()
