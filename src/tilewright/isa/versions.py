"""One modulo schedule for several versions of a loop body.

In: operations in program order and, for each version, which of them it executes (a core that sends
an operand loads and broadcasts it, one that receives takes it from a bus; the arithmetic is
common). Out: a dependence graph whose schedule is valid for every version at once: operations that
never execute together may share a unit, and do not depend on each other. This is what lets one
version follow another without a break.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.common.errors import ScheduleError
from tilewright.isa.dependence import (
    AddressUse,
    AliasRules,
    Dependence,
    DependenceGraph,
    Operation,
    build_dependences,
)
from tilewright.isa.modulo import Effort, ModuloSchedule, search_interval
from tilewright.isa.modulo_bounds import interval_bounds
from tilewright.isa.table import IssueRules


def build_version_dependences(
    operations: Sequence[Operation],
    versions: Sequence[Iterable[int]],
    *,
    rules: IssueRules,
    aliases: AliasRules | None = None,
    also: Iterable[Dependence] = (),
) -> DependenceGraph:
    """The union of the versions' dependence graphs, with the additional orderings `also`."""
    edges: dict[Dependence, None] = {}
    uses: dict[AddressUse, None] = {}
    members = [tuple(sorted(version)) for version in versions]
    for version in members:
        body = [operations[index] for index in version]
        graph = build_dependences(body, rules=rules, aliases=aliases)
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
    graph: DependenceGraph, rules: IssueRules, *, longest_interval: int, effort: Effort
) -> ModuloSchedule:
    """The least interval at which all versions share one schedule.

    Errors: ScheduleError when none up to `longest_interval` was found within the effort.
    """
    bounds = interval_bounds(graph, rules)
    found = search_interval(graph, rules, bounds, longest_interval + 1, effort)
    if not isinstance(found, ModuloSchedule):
        raise ScheduleError(
            f"no common schedule of {len(graph.versions)} versions at "
            f"{bounds.minimum_interval} to {longest_interval} cycles ({bounds.reasons()})"
        )
    return found
