"""The constraint model of modulo scheduling (OR-Tools CP-SAT), with interval variables for the
units.

In: a loop's dependence graph and an initiation interval. Out: issue times, a proof that none exist,
or neither if the effort limit is reached. An operation issues at `slot + interval * stage`; its
unit is busy in the slots modulo the interval. Register names are fixed, so a write may not overtake
the last read of the previous iteration's value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from ortools.sat.python import cp_model

from tilewright.isa.dependence import AddressUse, DependenceGraph
from tilewright.isa.modulo_bounds import binding_edges, crossings_within
from tilewright.isa.placement import FEW_STAGES, Effort, Placement, Verdict
from tilewright.isa.table import IssueRules


@dataclass(frozen=True)
class _Variables:
    slots: list[cp_model.IntVar]
    stages: list[cp_model.IntVar]
    times: list[cp_model.LinearExpr]


def place_operations(
    graph: DependenceGraph,
    rules: IssueRules,
    interval: int,
    effort: Effort,
    stage_limit: int | None = None,
    *,
    few_tried: bool = False,
) -> Placement:
    """Any modulo schedule with this initiation interval, or the proof that there is none.

    Schedules with few stages are tried first, unless `few_tried`: they are found much faster, but
    only the last model, with any number of stages (or `stage_limit`), can refute the interval.
    """
    complete = stage_limit or _stage_limit(graph, interval)
    limits = sorted({*(min(few, complete) for few in FEW_STAGES), complete})
    share = replace(effort, deterministic_units=effort.deterministic_units / len(limits))
    return _first_placement(graph, rules, interval, share, limits[-1:] if few_tried else limits)


def place_in_few_stages(
    graph: DependenceGraph, rules: IssueRules, interval: int, effort: Effort
) -> Placement:
    """A modulo schedule with `FEW_STAGES`, if `place_operations` would find one with them. Only the
    operations, the binding edges and the crossings within these stages determine it.
    """
    share = replace(effort, deterministic_units=effort.deterministic_units / (len(FEW_STAGES) + 1))
    return _first_placement(graph, rules, interval, share, FEW_STAGES)


def _first_placement(
    graph: DependenceGraph,
    rules: IssueRules,
    interval: int,
    effort: Effort,
    limits: Sequence[int],
) -> Placement:
    """The schedule for the first of `limits`, numbers of stages, that has one, else the verdict for
    the last. Units with long operations are first tested alone, which may already refute the
    interval.
    """
    placement = Placement(Verdict.UNKNOWN)
    for unit in sorted({unit for operation in graph.operations for unit in operation.units}):
        if _long_operation(graph, unit) and not _fits(_alone(graph, unit), rules, interval, effort):
            return Placement(Verdict.INFEASIBLE)
    for stages in limits:
        model = cp_model.CpModel()
        variables = _build(model, graph, rules, interval, stages)
        solver, verdict = _solve(model, effort)
        placement = Placement(verdict)
        if verdict is Verdict.FOUND:
            return replace(placement, times=tuple(solver.value(t) for t in variables.times))
    return placement


def _alone(graph: DependenceGraph, unit: str) -> DependenceGraph:
    """The graph of a unit's operations, with the edges between them."""
    kept = [i for i, operation in enumerate(graph.operations) if unit in operation.units]
    number = {old: new for new, old in enumerate(kept)}
    edges = (
        replace(edge, source=number[edge.source], target=number[edge.target])
        for edge in graph.edges
        if edge.source in number and edge.target in number
    )
    versions = tuple(frozenset(number[i] for i in v if i in number) for v in graph.versions)
    operations = tuple(replace(graph.operations[i], branch=False) for i in kept)
    return DependenceGraph(operations, tuple(edges), (), versions)


def _fits(graph: DependenceGraph, rules: IssueRules, interval: int, effort: Effort) -> bool:
    """False if a graph without a branch has no schedule. The start of an iteration is arbitrary
    then: of operations tied by recurrences, the first is put in the middle stage, and the first of
    the largest such group in slot 0. Edges between untied operations are dropped.
    """
    least = np.full((len(graph.operations),) * 2, -np.inf)
    for edge in graph.edges:
        delay = edge.delay_cycles - interval * edge.distance
        least[edge.source, edge.target] = max(least[edge.source, edge.target], delay)
    for through in range(len(least)):
        least = np.maximum(least, least[:, through, None] + least[None, through])
    np.fill_diagonal(least, 0)
    tied = np.isfinite(least + least.T)
    first = tied.argmax(axis=1)
    turns = 1 + int(np.abs(least[tied]).max()) // interval
    edges = tuple(edge for edge in graph.edges if tied[edge.source, edge.target])
    model = cp_model.CpModel()
    free = replace(graph, edges=edges)
    variables = _build(model, free, rules, interval, 2 * turns + 1)
    for leader in np.unique(first):
        model.add(variables.stages[leader] == turns)
    model.add(variables.slots[np.bincount(first).argmax()] == 0)
    return _solve(model, effort)[1] is not Verdict.INFEASIBLE


def is_schedule(
    graph: DependenceGraph, rules: IssueRules, interval: int, times: Sequence[int]
) -> bool:
    """True if the operations may issue at `times`, under the constraints of a search."""
    if len(times) != len(graph.operations):
        return False
    model = cp_model.CpModel()
    variables = _build(model, graph, rules, interval, max(times) // interval + 1)
    for slot, stage, time in zip(variables.slots, variables.stages, times, strict=True):
        model.add(slot == time % interval)
        model.add(stage == time // interval)
    return _solve(model, Effort())[1] is Verdict.FOUND


def shorten(
    graph: DependenceGraph,
    rules: IssueRules,
    interval: int,
    start: Placement,
    control: frozenset[int],
    effort: Effort,
) -> Placement:
    """The schedule of shortest span at this interval, starting from a known schedule."""
    least = one_iteration_bound(graph, rules, control, effort)
    model = cp_model.CpModel()
    stages = max(start.times) // interval + 1
    variables = _build(model, graph, rules, interval, stages)
    span = _span(model, variables.times, control, least, interval * (stages + 1))
    for slot, stage, time in zip(variables.slots, variables.stages, start.times, strict=True):
        model.add_hint(slot, time % interval)
        model.add_hint(stage, time // interval)
    model.minimize(span)
    solver, verdict = _solve(model, effort)
    if verdict is not Verdict.FOUND:
        free = [time for i, time in enumerate(start.times) if i not in control]
        return replace(start, span_cycles=max(free) - min(free) + 1, span_bound_cycles=least)
    times = tuple(solver.value(time) for time in variables.times)
    bound = max(least, ceil(solver.best_objective_bound - 1e-6))
    return Placement(verdict, times, int(solver.objective_value), bound)


def one_iteration_bound(
    graph: DependenceGraph, rules: IssueRules, control: frozenset[int], effort: Effort
) -> int:
    """Least span of one iteration alone, which bounds the span of an iteration in any pipeline."""
    model = cp_model.CpModel()
    horizon = sum(op.occupancy_cycles + op.latency_cycles for op in graph.operations)
    times = [model.new_int_var(0, horizon, f"time{i}") for i in range(len(graph.operations))]
    for edge in graph.edges:
        if edge.distance == 0:
            model.add(times[edge.target] >= times[edge.source] + edge.delay_cycles)
    _occupy_units(model, graph, times, 0)
    _limit_issue_width(model, graph, rules, times)
    model.minimize(_span(model, times, control, 1, horizon))
    solver, verdict = _solve(model, effort)
    return 1 if verdict is not Verdict.FOUND else ceil(solver.best_objective_bound - 1e-6)


def _span(
    model: cp_model.CpModel,
    times: Sequence[cp_model.LinearExprT],
    control: frozenset[int],
    least: int,
    horizon: int,
) -> cp_model.IntVar:
    """Cycles from the first to the last issue of an iteration, control operations aside."""
    free = [time for i, time in enumerate(times) if i not in control] or list(times)
    first, last = (model.new_int_var(0, horizon, name) for name in ("first", "last"))
    span = model.new_int_var(least, horizon + 1, "span")
    for time in free:
        model.add(first <= time)
        model.add(last >= time)
    model.add(span == last - first + 1)
    return span


def _solve(model: cp_model.CpModel, effort: Effort) -> tuple[cp_model.CpSolver, Verdict]:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = effort.workers
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = effort.deterministic_units
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return solver, Verdict.FOUND
    return solver, Verdict.INFEASIBLE if status == cp_model.INFEASIBLE else Verdict.UNKNOWN


def _stage_limit(graph: DependenceGraph, interval: int) -> int:
    """Number of stages that suffices for any schedule: each operation adds its longest delay."""
    longest = [1] * len(graph.operations)
    for edge in graph.edges:
        longest[edge.source] = max(longest[edge.source], edge.delay_cycles)
    return 1 + sum(-(-delay // interval) for delay in longest)


def _build(
    model: cp_model.CpModel,
    graph: DependenceGraph,
    rules: IssueRules,
    interval: int,
    stages: int,
) -> _Variables:
    count = len(graph.operations)
    slots = [model.new_int_var(0, interval - 1, f"slot{i}") for i in range(count)]
    stage = [model.new_int_var(0, stages - 1, f"stage{i}") for i in range(count)]
    times = [interval * k + s for k, s in zip(stage, slots, strict=True)]
    for edge in binding_edges(graph, interval, stages):
        later = times[edge.target] + interval * edge.distance
        model.add(later >= times[edge.source] + edge.delay_cycles)
    for use in graph.address_uses:
        _constrain_address_use(model, graph, rules, interval, stages, use, times)
    for index, operation in enumerate(graph.operations):
        if operation.branch:
            # In the last slot of the first stage, or before its delay slot, the branch decides on
            # the iteration that has just started.
            model.add(slots[index] == interval - 1 - rules.delay_slots)
            model.add(stage[index] == 0)
    _occupy_units(model, graph, slots, interval)
    _limit_issue_width(model, graph, rules, slots)
    return _Variables(slots, stage, times)


def _occupy_units(
    model: cp_model.CpModel,
    graph: DependenceGraph,
    starts: Sequence[cp_model.IntVar],
    interval: int,
) -> None:
    """Each operation holds one of its units; with an interval, also `interval` cycles later."""
    by_unit: dict[str, list[tuple[int, cp_model.IntervalVar]]] = {}
    for index, operation in enumerate(graph.operations):
        uses = [model.new_bool_var(f"use{index}_{unit}") for unit in operation.units]
        model.add_exactly_one(uses)
        for unit, use in zip(operation.units, uses, strict=True):
            wraps = interval > 0 and _long_operation(graph, unit)
            for shift in (0, interval) if wraps else (0,):
                busy = model.new_optional_fixed_size_interval_var(
                    starts[index] + shift,
                    operation.occupancy_cycles,
                    use,
                    f"busy{index}_{unit}_{shift}",
                )
                by_unit.setdefault(unit, []).append((index, busy))
    for version in graph.members:
        for intervals in by_unit.values():
            model.add_no_overlap([busy for index, busy in intervals if index in version])


def _long_operation(graph: DependenceGraph, unit: str) -> bool:
    return any(unit in op.units and op.occupancy_cycles > 1 for op in graph.operations)


def _limit_issue_width(
    model: cp_model.CpModel,
    graph: DependenceGraph,
    rules: IssueRules,
    slots: Sequence[cp_model.IntVar],
) -> None:
    units = {unit for operation in graph.operations for unit in operation.units}
    if len(units) <= rules.width:
        return
    issues = [model.new_fixed_size_interval_var(slot, 1, f"issue{slot}") for slot in slots]
    for version in graph.members:
        together = [issues[index] for index in version]
        model.add_cumulative(together, [1] * len(together), rules.width)


def _constrain_address_use(
    model: cp_model.CpModel,
    graph: DependenceGraph,
    rules: IssueRules,
    interval: int,
    stages: int,
    use: AddressUse,
    times: Sequence[cp_model.LinearExpr],
) -> None:
    """Keeps the corrected displacement encodable and the access out of the addition's latency."""
    lowest, highest = crossings_within(graph, use, stages)
    gap = times[use.access] - times[use.increment]
    model.add(gap <= interval * highest)
    model.add(gap > interval * (lowest - 1))
    latency = graph.operations[use.increment].latency_cycles
    first = 1 if rules.write_after_read == "next_cycle" else 0
    if max(first, latency - 1) == 0 or interval == 1:
        return
    # Modulo the interval, the access is in the cycle of the addition (and reads the old value) or
    # after its latency.
    allowed = [(0, 0)] if first == 0 else []
    if latency < interval:
        allowed.append((max(1, latency), interval - 1))
    domain = cp_model.Domain.from_intervals(allowed)
    name = f"{use.access}_{use.increment}"
    phase = model.new_int_var_from_domain(domain, f"phase{name}")
    turns = model.new_int_var(-stages, stages, f"turns{name}")
    model.add(gap == interval * turns + phase)
