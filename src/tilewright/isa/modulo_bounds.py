"""Lower bounds on the initiation interval of a loop: resources, recurrences, and the control chain.

In: a loop's dependence graph and the issue rules. Out: the bounds that no modulo schedule can beat,
with the reason for each; the largest is the minimum initiation interval (MII) from which the search
of `modulo` starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from tilewright.isa.dependence import AddressUse, Dependence, DependenceGraph
from tilewright.isa.table import IssueRules


@dataclass(frozen=True)
class IntervalBounds:
    """The least cycles per iteration that each cause requires.

    `resource_cycles` maps a set of units ("P0", "P0+P1") to the work that only it can do, divided
    by its units; `issue_cycles` is the body's length over the issue width; `recurrence_cycles` the
    worst dependence cycle; `control_cycles` the chain of operations that ends in the loop branch,
    which must fit into one interval.
    """

    resource_cycles: tuple[tuple[str, int], ...]
    issue_cycles: int
    recurrence_cycles: int
    control_cycles: int

    @property
    def minimum_interval(self) -> int:
        """The largest of the bounds (at least 1)."""
        resources = [cycles for _, cycles in self.resource_cycles]
        others = (1, self.issue_cycles, self.recurrence_cycles, self.control_cycles)
        return max(*resources, *others)

    def reasons(self) -> str:
        """One line: every bound, the binding ones marked with '*'."""
        named = [(f"unit {name}", cycles) for name, cycles in self.resource_cycles]
        named += [("issue width", self.issue_cycles), ("recurrence", self.recurrence_cycles)]
        named.append(("control", self.control_cycles))
        top = self.minimum_interval
        return ", ".join(f"{name} {cycles}{'*' * (cycles == top)}" for name, cycles in named)


def interval_bounds(graph: DependenceGraph, rules: IssueRules) -> IntervalBounds:
    """All lower bounds on the initiation interval of the loop."""
    return IntervalBounds(
        resource_bounds(graph),
        max(-(-len(version) // rules.width) for version in graph.members),
        recurrence_bound(graph),
        control_bound(graph),
    )


def resource_bounds(graph: DependenceGraph) -> tuple[tuple[str, int], ...]:
    """For each set of units that one operation, or two together, may use: the work that only this
    set can do, divided by the number of its units. The busiest version counts.
    """
    choices = sorted({frozenset(operation.units) for operation in graph.operations}, key=sorted)
    sets = {a | b for a, b in combinations(choices, 2)} | set(choices)
    bounds = []
    for units in sorted(sets, key=lambda s: (len(s), sorted(s))):
        cycles = max(_set_bound(graph, version, units) for version in graph.members)
        bounds.append(("+".join(sorted(units)), cycles))
    return tuple(bounds)


def _set_bound(graph: DependenceGraph, version: frozenset[int], units: frozenset[str]) -> int:
    inside = [graph.operations[i] for i in version if units.issuperset(graph.operations[i].units)]
    occupied = [operation.occupancy_cycles for operation in inside]
    # One operation cannot start again on a unit that it still occupies.
    longest = max(occupied, default=0) if len(units) == 1 else 0
    return max(longest, -(-sum(occupied) // len(units)))


def recurrence_bound(graph: DependenceGraph) -> int:
    """Smallest interval at which no dependence cycle has a positive length."""
    low, high = 1, max(1, sum(edge.delay_cycles for edge in graph.edges))
    while low < high:
        middle = (low + high) // 2
        if longest_paths(graph, middle) is None:
            low = middle + 1
        else:
            high = middle
    return low


def longest_paths(graph: DependenceGraph, interval: int) -> list[int] | None:
    """Earliest issue times by dependences alone; None if a recurrence does not fit."""
    times = [0] * len(graph.operations)
    for _ in range(len(times) + 1):
        if not _relax(times, graph.edges, interval):
            return times
    return None


def _relax(times: list[int], edges: Sequence[Dependence], interval: int) -> bool:
    changed = False
    for edge in edges:
        bound = times[edge.source] + edge.delay_cycles - interval * edge.distance
        if bound > times[edge.target]:
            times[edge.target] = bound
            changed = True
    return changed


def control_operations(graph: DependenceGraph) -> frozenset[int]:
    """The branch and the operations that feed only it: counters and comparisons."""
    branches = {i for i, operation in enumerate(graph.operations) if operation.branch}
    readers: dict[int, set[int]] = {}
    for index, operation in enumerate(graph.operations):
        for register in operation.reads:
            readers.setdefault(register, set()).add(index)
    control = set(branches)
    changed = True
    while changed:
        changed = False
        for index, operation in enumerate(graph.operations):
            used_by = set().union(*(readers.get(r, set()) for r in operation.writes)) - {index}
            movable = operation.writes and not (operation.memory or operation.channels)
            if movable and index not in control and used_by and used_by <= control:
                control.add(index)
                changed = True
    return frozenset(control)


def control_bound(graph: DependenceGraph) -> int:
    """Cycles from the first operation that the branch depends on, through the branch."""
    branch = next((i for i, op in enumerate(graph.operations) if op.branch), None)
    if branch is None:
        return 1
    depth = {branch: 0}
    for index in reversed(range(branch)):
        for edge in graph.edges:
            if edge.source == index and edge.distance == 0 and edge.target in depth:
                reach = depth[edge.target] + edge.delay_cycles
                depth[index] = max(depth.get(index, 0), reach)
    return 1 + max(depth.values())


def crossings(graph: DependenceGraph, use: AddressUse) -> tuple[int, int]:
    """Least and largest ceil((access - addition) / interval) with the displacement in range."""
    access = graph.operations[use.access].memory
    assert access is not None
    before = 1 if use.increment < use.access else 0
    sharing = sum(other.access == use.access for other in graph.address_uses)
    room_down = (access.displacement_bytes - access.smallest_displacement) // sharing
    room_up = (access.largest_displacement - access.displacement_bytes) // sharing
    if use.step_bytes == 0:
        return -len(graph.operations), len(graph.operations)
    if use.step_bytes < 0:
        room_down, room_up = room_up, room_down
    step = abs(use.step_bytes)
    # The displacement grows by the step for each addition that comes later than in program order.
    return before - room_up // step, before + room_down // step


def crossings_within(graph: DependenceGraph, use: AddressUse, stages: int) -> tuple[int, int]:
    """The smallest and largest of `crossings` in schedules of at most `stages` stages."""
    lowest, highest = crossings(graph, use)
    return max(lowest, 1 - stages), min(highest, stages)


def binding_edges(graph: DependenceGraph, interval: int, stages: int) -> tuple[Dependence, ...]:
    """The dependences that schedules of `stages` stages, at this or a longer interval, could break;
    all others span more iterations than are in flight.
    """
    return tuple(
        edge for edge in graph.edges if (edge.distance - stages) * interval < edge.delay_cycles - 1
    )
