"""One modulo schedule for several versions of a loop body.

In: operations in program order and, for each version, the operations that it executes (a sending
core loads and broadcasts an operand, a receiving one gets it from a bus; the arithmetic is common).
Out: a dependence graph whose schedules are valid for every version at once: operations that never
execute together may share a unit and do not depend on each other. So versions can follow one
another without a break.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tilewright.common.deferred import Deferred
from tilewright.common.errors import ScheduleError
from tilewright.isa.dependence import (
    AddressUse,
    Dependence,
    DependenceGraph,
    Operation,
    build_dependences,
)
from tilewright.isa.modulo import Effort, ModuloSchedule, pipelined_schedule
from tilewright.isa.modulo_bounds import interval_bounds
from tilewright.isa.placement import Verdict
from tilewright.isa.table import IssueRules

if TYPE_CHECKING:
    from tilewright.isa import modulo_solver
else:  # heavy: OR-Tools
    modulo_solver = Deferred("tilewright.isa.modulo_solver")


def build_version_dependences(
    operations: Sequence[Operation],
    versions: Sequence[Iterable[int]],
    *,
    rules: IssueRules,
    also: Iterable[Dependence] = (),
) -> DependenceGraph:
    """The union of the versions' dependence graphs, with the additional orderings `also`."""
    edges: dict[Dependence, None] = {}
    uses: dict[AddressUse, None] = {}
    members = [tuple(sorted(version)) for version in versions]
    for version in members:
        body = [operations[index] for index in version]
        graph = build_dependences(body, rules=rules)
        for e in graph.edges:
            source, target = version[e.source], version[e.target]
            edges[Dependence(source, target, e.distance, e.delay_cycles, e.kind, e.what)] = None
        for use in graph.address_uses:
            step = use.step_bytes
            uses[AddressUse(version[use.access], version[use.increment], step)] = None
    edges |= dict.fromkeys(also)
    sets = tuple(frozenset(version) for version in members)
    return DependenceGraph(tuple(operations), tuple(edges), tuple(uses), sets)


def schedule_versions(
    graph: DependenceGraph,
    rules: IssueRules,
    *,
    longest_interval: int,
    effort: Effort,
    stage_limit: int | None = None,
) -> ModuloSchedule:
    """A schedule of the least interval that all versions share; its lead-in is not minimised.

    With a `stage_limit`, only schedules with at most that many stages count, also in the proof.
    Errors: ScheduleError if none up to `longest_interval` is found within the effort per interval.
    """
    bounds = interval_bounds(graph, rules)
    refuted: list[int] = []
    undecided: list[int] = []
    for interval in range(bounds.minimum_interval, longest_interval + 1):
        found = modulo_solver.place_operations(graph, rules, interval, effort, stage_limit)
        if found.verdict is Verdict.FOUND:
            return pipelined_schedule(graph, rules, interval, found, bounds, refuted, undecided)
        (refuted if found.verdict is Verdict.INFEASIBLE else undecided).append(interval)
    raise ScheduleError(
        f"no common schedule of {len(graph.versions)} versions at "
        f"{bounds.minimum_interval} to {longest_interval} cycles ({bounds.reasons()})"
    )
