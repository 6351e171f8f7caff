"""Modulo scheduling: the provably shortest software pipeline of a loop body with fixed register
names.

In: a loop body in program order and the issue rules. Out: a `ModuloSchedule` with the initiation
interval, the issue time of every operation, and the proof: the lower bound by resources,
recurrences and control, plus the intervals that the solver refuted. It solves swDNN section VI
(inter-loop pipelining and reordering) by exact search. If the effort runs out, the best list
schedule is returned instead, with its gap to the proven bound.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from tilewright.common.cache import CacheStore
from tilewright.common.deferred import Deferred
from tilewright.common.digest import PACKAGE, digest, digest_of_code, names_below
from tilewright.common.errors import CapacityError
from tilewright.isa.dependence import AliasRules, DependenceGraph, Operation, build_dependences
from tilewright.isa.modulo_bounds import (
    IntervalBounds,
    binding_edges,
    control_operations,
    crossings,
    crossings_within,
    interval_bounds,
)
from tilewright.isa.placement import FEW_STAGES, Effort, Placement, Verdict
from tilewright.isa.reorder import list_schedule, steady_cycles_per_iteration
from tilewright.isa.table import IssueRules

if TYPE_CHECKING:
    from tilewright.isa import modulo_solver
else:  # heavy: OR-Tools
    modulo_solver = Deferred("tilewright.isa.modulo_solver")

__all__ = ["Effort", "ModuloSchedule", "modulo_schedule"]


@dataclass(frozen=True)
class ModuloSchedule:
    """Issue times of one iteration, repeated every `interval_cycles`.

    `times[i]` is the issue cycle of operation i; iteration k adds `k * interval_cycles`.
    `pipelined` is False for a list schedule, with `order` as the order of the body. The solver
    proved `refuted_intervals` infeasible, and hit the effort limit at `undecided_intervals`.
    """

    graph: DependenceGraph
    rules: IssueRules
    interval_cycles: int
    times: tuple[int, ...]
    order: tuple[int, ...]
    bounds: IntervalBounds
    refuted_intervals: tuple[int, ...] = ()
    undecided_intervals: tuple[int, ...] = ()
    span_cycles: int = 0
    span_bound_cycles: int = 0
    pipelined: bool = True

    @property
    def lower_bound_cycles(self) -> int:
        """Cycles per iteration that no schedule of this body with these registers can beat."""
        bound = self.bounds.minimum_interval
        while bound in self.refuted_intervals:
            bound += 1
        return bound

    @property
    def proven_minimum(self) -> bool:
        """True if the interval equals the lower bound."""
        return self.lower_bound_cycles == self.interval_cycles

    @property
    def lead_in_cycles(self) -> int:
        """Cycles of n iterations beyond `n * interval_cycles`."""
        return self.span_cycles - self.interval_cycles

    @property
    def lead_in_proven(self) -> bool:
        """True if no schedule with this interval and number of stages has a shorter lead-in."""
        return self.pipelined and self.span_cycles == self.span_bound_cycles

    @property
    def stages(self) -> int:
        """Number of iterations in flight at once."""
        return max(self.times, default=0) // self.interval_cycles + 1

    def statement(self) -> str:
        """The result and its proof in words."""
        head = f"{self.interval_cycles} cycles per iteration"
        proof = f"lower bounds: {self.bounds.reasons()}"
        if self.refuted_intervals:
            listed = ", ".join(map(str, self.refuted_intervals))
            proof += f"; proved infeasible: {listed}"
        if self.proven_minimum:
            return f"{head}, proven minimum ({proof})"
        gap = self.interval_cycles - self.lower_bound_cycles
        listed = ", ".join(map(str, self.undecided_intervals))
        kind = "pipelined" if self.pipelined else "list schedule"
        distance = f"gap {gap} to the bound {self.lower_bound_cycles}"
        return f"{head}, {kind}, {distance} ({proof}; undecided: {listed})"


def modulo_schedule(
    operations: Sequence[Operation],
    rules: IssueRules,
    *,
    aliases: AliasRules | None = None,
    effort: Effort | None = None,
    register_limit: int | None = None,
) -> ModuloSchedule:
    """The shortest software pipeline of a loop body: least interval, then least lead-in.

    Register names are kept, so no register is added; a body with more than `register_limit`
    registers is refused. `effort` bounds the search. Errors: CapacityError.
    """
    _check_registers(operations, register_limit)
    graph = build_dependences(operations, rules=rules, aliases=aliases)
    bounds = interval_bounds(graph, rules)
    fallback = _list_fallback(graph, rules, aliases, bounds)
    found = search_interval(graph, rules, bounds, fallback.interval_cycles, effort or Effort())
    if isinstance(found, ModuloSchedule):
        return found
    return replace(fallback, refuted_intervals=found.refuted, undecided_intervals=found.undecided)


@dataclass(frozen=True)
class NothingFound:
    """Intervals without a schedule: refuted by proof, or undecided within the effort."""

    refuted: tuple[int, ...]
    undecided: tuple[int, ...]


def search_interval(
    graph: DependenceGraph,
    rules: IssueRules,
    bounds: IntervalBounds,
    ceiling: int,
    effort: Effort,
) -> ModuloSchedule | NothingFound:
    """The schedule with the least interval below `ceiling`, and the least lead-in for it."""
    control = tuple(sorted(control_operations(graph)))
    least = bounds.minimum_interval
    whole = _Search(graph, _decisive(graph, least), rules, least, ceiling, control)
    found, interval, best = _searched(_in_few_stages(whole), effort)
    if best is None:
        found, interval, best = _searched(whole, effort)
    if best is None:
        return found
    refuted, undecided = found.refuted, found.undecided
    return pipelined_schedule(graph, rules, interval, best, bounds, refuted, undecided)


@dataclass(frozen=True)
class _Search:
    """A search, compared by everything that determines its result: bodies that differ only in
    registers and displacements, such as packings of operands of different sizes, share it. With
    `few_stages`, only the `least` interval is tried.
    """

    graph: DependenceGraph = field(compare=False, repr=False)
    decisive: Hashable
    rules: IssueRules
    least: int
    ceiling: int
    control: tuple[int, ...]
    few_stages: bool = False


def _in_few_stages(search: _Search) -> _Search:
    """The first part of a search. It finds most pipelines, and far fewer inputs determine it."""
    decisive = _decisive(search.graph, search.least, FEW_STAGES[-1])
    ceiling = min(search.ceiling, search.least + 1)
    return replace(search, decisive=decisive, ceiling=ceiling, few_stages=True)


def _decisive(graph: DependenceGraph, least: int, stages: int | None = None) -> Hashable:
    """The parts of a graph that determine its placements, at an interval of at least `least`; fewer
    edges matter if a placement has at most `stages` stages.
    """
    edges = graph.edges if stages is None else binding_edges(graph, least, stages)
    passed = (
        crossings(graph, use) if stages is None else crossings_within(graph, use, stages)
        for use in graph.address_uses
    )
    return (
        tuple((e.source, e.target, e.distance, e.delay_cycles) for e in edges),
        tuple((o.units, o.latency_cycles, o.occupancy_cycles, o.branch) for o in graph.operations),
        tuple((u.access, u.increment, p) for u, p in zip(graph.address_uses, passed, strict=True)),
        tuple(tuple(sorted(version)) for version in graph.versions),
    )


_KEPT = CacheStore("pipelines")


class _Searched(NamedTuple):
    """The excluded intervals, the least interval that was not, and its shortest placement."""

    excluded: NothingFound
    interval: int
    best: Placement | None


@cache
def _searched(search: _Search, effort: Effort) -> _Searched:
    """The result of a search, from the cache if the solver has found it before."""
    key = digest(solver_sources(), repr((search, effort)))
    return _KEPT.value(key, _Searched, partial(_solved, search, effort))


@cache
def solver_sources() -> str:
    """A digest of the scheduler's sources, since another version may find other schedules."""
    folder = PACKAGE / "isa"
    return digest_of_code(folder, names_below(folder))


def _solved(search: _Search, effort: Effort) -> _Searched:
    # A quarter per interval leaves room for three undecided ones, and for the lead-in.
    limit = replace(effort, deterministic_units=effort.deterministic_units / 4)
    graph, rules, least = search.graph, search.rules, search.least
    refuted: list[int] = []
    undecided: list[int] = []
    interval, best = search.ceiling, None
    for interval in range(least, search.ceiling):
        if search.few_stages:
            placement = modulo_solver.place_in_few_stages(graph, rules, interval, limit)
        else:
            tried = interval == least
            placement = modulo_solver.place_operations(
                graph, rules, interval, limit, few_tried=tried
            )
        if placement.verdict is Verdict.FOUND:
            control = frozenset(search.control)
            best = modulo_solver.shorten(graph, rules, interval, placement, control, limit)
            break
        (refuted if placement.verdict is Verdict.INFEASIBLE else undecided).append(interval)
        if len(undecided) == 3:
            break
    return _Searched(NothingFound(tuple(refuted), tuple(undecided)), interval, best)


def _check_registers(operations: Sequence[Operation], limit: int | None) -> None:
    registers = {r for operation in operations for r in (*operation.reads, *operation.writes)}
    if limit is not None and len(registers) > limit:
        raise CapacityError(
            f"the loop body uses {len(registers)} registers, the limit is {limit}",
            fix="free registers in the body; scheduling keeps its register names",
        )


def _list_fallback(
    graph: DependenceGraph,
    rules: IssueRules,
    aliases: AliasRules | None,
    bounds: IntervalBounds,
) -> ModuloSchedule:
    """The better of the given order and the list schedule, as a loop without overlap."""
    schedule = list_schedule(graph.operations, rules, aliases=aliases)
    given = tuple(range(len(graph.operations)))

    def period(order: tuple[int, ...]) -> float:
        return steady_cycles_per_iteration([graph.operations[i] for i in order], rules)

    order = min((given, schedule.order), key=period)
    interval = ceil(period(order))
    times = dict(zip(schedule.order, schedule.issue_cycles, strict=True))
    in_order = tuple(times[i] for i in given)
    span = schedule.length_cycles
    return ModuloSchedule(
        graph, rules, interval, in_order, order, bounds, span_cycles=span, pipelined=False
    )


def pipelined_schedule(
    graph: DependenceGraph,
    rules: IssueRules,
    interval: int,
    best: Placement,
    bounds: IntervalBounds,
    refuted: Sequence[int],
    undecided: Sequence[int],
) -> ModuloSchedule:
    """The schedule of a solver's placement, with the intervals that the solver excluded."""
    order = tuple(sorted(range(len(best.times)), key=lambda i: (best.times[i] % interval, i)))
    return ModuloSchedule(
        graph,
        rules,
        interval,
        best.times,
        order,
        bounds,
        tuple(refuted),
        tuple(undecided),
        best.span_cycles,
        best.span_bound_cycles,
    )
