"""The routines that a program calls: each distinct call, its price, and the cycles of the routine's
text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from tilewright.codegen.artifact import RoutineCycles
from tilewright.common.expr import Value
from tilewright.cost.calls import PricedCall, call_cycles, priced_call
from tilewright.cost.prices import call_costs
from tilewright.cost.timing import repacked_axes
from tilewright.cost.totals import CallGroup, executed_calls
from tilewright.ir.nodes import Program
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import Map, MatrixProduct, Reduce, Repack
from tilewright.ir.visit import instantiate
from tilewright.machine import Machine
from tilewright.simulate.runs import CoreRun
from tilewright.targets.sw26010.calls.nest_rows import NestRows, has_loops
from tilewright.targets.sw26010.calls.prices import (
    cycles_of_cores,
    has_as_many_loops,
    map_rows,
    mode_shares,
    nests_of,
    priced_loops,
    priced_rows,
    repacked_cycles,
    routine_of_code,
    routine_of_rows,
)
from tilewright.targets.sw26010.elementwise.code import MODES
from tilewright.targets.sw26010.elementwise.lie import ELEMENTS
from tilewright.targets.sw26010.elementwise.maps import MapRoutine
from tilewright.targets.sw26010.elementwise.routines import Routine, routine_of
from tilewright.targets.sw26010.gemm.exact import GEMM_CYCLES, simulated_gemm_cycles
from tilewright.targets.sw26010.gemm.instances import GemmInstance, called_instances
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES
from tilewright.targets.sw26010.names import mesh_bindings
from tilewright.targets.sw26010.timing.maps import MAPS
from tilewright.targets.sw26010.timing.nests import NESTS, AnyRoutine, CoreTimings, Counts
from tilewright.targets.sw26010.timing.reductions import REDUCTIONS


@dataclass(frozen=True)
class Sw26010Routines:
    """The routines behind a kernel's time, as `tilewright explain` reports them."""

    def routines(
        self, program: Program, machine: Machine, *, simulated: bool
    ) -> tuple[RoutineCycles, ...]:
        """The distinct calls of matrix routines, of elementwise ones, and of compiled loops, which
        are not simulated. None for machines without an instruction table, since the cycles of their
        code are unknown.
        """
        table = machine.core.instruction_table
        if table is None:
            return ()
        calls = _Calls(instantiate(program, mesh_bindings(machine)), machine, table, simulated)
        return _together(calls.found())


def _together(found: Iterable[RoutineCycles]) -> tuple[RoutineCycles, ...]:
    """Merge equal calls and group those of one routine, in the order of its first call."""
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
        uses = uses_of(call, self.table)
        if not uses:
            yield replace(self._compiled(call), calls=group.count)
        elif isinstance(call.primitive, Repack):
            yield replace(self._repacked(call), calls=group.count)
        else:
            yield from self._used(uses, group.count)

    def _used(self, uses: Iterable[RoutineUse], count: int) -> Iterator[RoutineCycles]:
        """One entry per use; a primitive's calls are divided among its uses by their shares."""
        share, before = 0.0, 0
        for use in uses:
            share += float(use.calls)
            calls = round(share * count) - before
            before += calls
            if calls:
                fitted = use.timings.fitted(self.table, use.routine, use.mode)
                terms = use.timings.terms(use.routine, use.mode, use.sample)
                priced = round(float(np.ceil(fitted.cycles(terms))))
                exact = use.run(self.table).cycles if self.simulated else None
                yield RoutineCycles(use.routine.name, use.text, priced, exact, calls)

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

    def _repacked(self, call: PricedCall[Primitive]) -> RoutineCycles:
        routine, exact = routine_of(call.primitive, call.dtype), None
        assert routine is not None
        if self.simulated:

            def cycles(grows: bool, rows: Value, larger: Value, smaller: Value) -> Value:
                return _rows_simulated(self.table, routine, grows, (rows, larger, smaller))

            exact = round(float(repacked_cycles(call.dims, cycles)))
        what = f"a tile of {call.dims['source_elements']} elements to {call.dims['elements']}"
        return RoutineCycles(routine.name, what, self._price(call), exact)

    def _compiled(self, call: PricedCall[Primitive]) -> RoutineCycles:
        """A compiled C loop, whose time is an assumption."""
        primitive = call.primitive
        taken = f" of {call.dims['k']}" if isinstance(primitive, Reduce) else ""
        what = f"compiled C, assumed: {call.dims['elements']} elements{taken}"
        scalar = getattr(primitive, "scalar", None)
        name = primitive.name if scalar is None else f"{primitive.name} {scalar}"
        return RoutineCycles(name, what, self._price(call))


@dataclass(frozen=True)
class RoutineUse:
    """Calls of one routine in one mode with the loops of `sample`: `calls` of them, or a share, for
    one call of a primitive.
    """

    timings: CoreTimings[Any, Any]
    routine: AnyRoutine
    mode: str
    sample: Any
    text: str
    calls: Value = 1

    def run(self, table: str) -> CoreRun:
        """The run of a call."""
        return self.timings.run(table, self.routine, self.mode, self.sample)


def uses_of(call: PricedCall[Any], table: str) -> list[RoutineUse]:
    """The routines of an elementwise primitive's call on the slowest core, by this instruction
    table; none for a compiled loop.
    """
    match call.primitive:
        case Map():
            found = _map_uses(call)
        case Reduce():
            found = _reduce_uses(call)
        case Repack():
            found = _repack_uses(call, table)
        case _:
            found = _nest_uses(call)
    return [use for use in found if np.any(use.calls)]


def _map_uses(call: PricedCall[Map]) -> Iterator[RoutineUse]:
    if call.primitive.dtype is not None or not has_loops(call.dims):
        return
    rows = map_rows(call)
    routine = routine_of_rows(call, int(rows.still)) if has_as_many_loops(rows) else None
    if routine is not None:
        yield _in_rows(routine, rows)


def _reduce_uses(call: PricedCall[Reduce]) -> Iterator[RoutineUse]:
    """One use per mode; calls are divided by the share whose operands start with a vector."""
    nest = priced_loops(call.dims) if has_loops(call.dims) else None
    routine = routine_of_code(call, int(nest.code)) if nest is not None and nest.priced else None
    if nest is None or routine is None:
        return
    extents = nest.extents
    taken = prod(map(int, (extents.outer, extents.inner, extents.length)))
    for mode, share in mode_shares(routine, nest).items():
        rows = replace(nest.rows, by_vectors=mode != ELEMENTS and not routine.lie.along)
        text = f"{call_text(rows)} of {taken}: {routine.function} {routine.expression}"
        yield RoutineUse(REDUCTIONS, routine, mode, (counts_of(rows)[:-1], extents), text, share)


def _nest_uses(call: PricedCall[Primitive]) -> Iterator[RoutineUse]:
    for count, routine, rows in nests_of(call):
        yield _in_rows(routine, rows, count)


def _in_rows(routine: MapRoutine | Routine, rows: NestRows, calls: Value = 1) -> RoutineUse:
    mode, counts, text = mode_of(rows), counts_of(rows), call_text(rows)
    if isinstance(routine, MapRoutine):
        return RoutineUse(MAPS, routine, mode, counts, f"{text}: {routine.expression}", calls)
    return RoutineUse(NESTS, routine, mode, counts, text, calls)


def _repack_uses(call: PricedCall[Repack], table: str) -> Iterator[RoutineUse]:
    routine = routine_of(call.primitive, call.dtype)
    if routine is None:
        return
    timing, calls, dims = NESTS.timing(table, routine), list[list[tuple[str, Counts]]](), call.dims
    for axis in repacked_axes(dims):  # of tiles that overlap only the smallest is sure to be cut
        if dims[axis.least] > 1:
            dims = {**dims, axis.most: dims[axis.least]}

    def cycles(grows: bool, *change: Value) -> Value:
        calls.append([*_changes_of(grows, change)])
        return priced_rows(timing, grows, *change)

    slowest = int(np.argmax(cycles_of_cores(dims, cycles)))
    for mode, change in dict.fromkeys(of_cores[slowest] for of_cores in calls):
        yield RoutineUse(NESTS, routine, mode, change, "")


def mode_of(rows: NestRows) -> str:
    """The mode of a nest's rows."""
    return MODES[0] if rows.by_vectors else MODES[1]


def counts_of(rows: NestRows) -> tuple[int, ...]:
    """Iterations of a nest's loops with several, outermost first, and the items of a row."""
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
    each = [NESTS.cycles(table, routine, *own) for own in _changes_of(grows, change)]
    return np.reshape(np.array(each, np.int64), np.broadcast_shapes(*map(np.shape, change)))


def _changes_of(
    grows: bool, change: tuple[Value, ...]
) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Mode and counts of each core's call that changes rows between two lengths in elements."""
    for count, more, less in zip(*map(np.ravel, np.broadcast_arrays(*change)), strict=True):
        whole = more % VECTOR_LANES == less % VECTOR_LANES == 0
        size, mode = (VECTOR_LANES, MODES[0]) if whole else (1, MODES[1])
        lengths = (more // size, less // size) if grows else (less // size, more // size)
        yield mode, (int(count), int(lengths[0]), int(lengths[1]))


ROUTINES = Sw26010Routines()
