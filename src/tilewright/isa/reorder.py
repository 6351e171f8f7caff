"""List scheduling of straight-line code for in-order machines with several units, and the issue
rule it predicts with.

In: operations in program order and the issue rules. Out: a new order, with the cycle in which the
in-order front end issues each operation (swDNN VI-A: the front of the queue issues when registers,
units and order allow). Predicted cycles come from the same front end, so a simulation of the order
reproduces them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.isa.dependence import (
    AliasRules,
    Dependence,
    DependenceGraph,
    Operation,
    build_dependences,
)
from tilewright.isa.table import IssueRules


@dataclass(frozen=True)
class ListSchedule:
    """`order` lists the original positions of operations; `issue_cycles`, from 0, follow it."""

    order: tuple[int, ...]
    issue_cycles: tuple[int, ...]

    @property
    def length_cycles(self) -> int:
        """Cycles until the last operation has issued."""
        return self.issue_cycles[-1] + 1 if self.issue_cycles else 0


@dataclass
class _FrontEnd:
    """State of the in-order issue of a stream of operations. `units` maps a unit to the operation
    of the current cycle's group that uses it.
    """

    rules: IssueRules
    cycle: int = 0
    group: list[Operation] = field(default_factory=list)
    units: dict[str, int] = field(default_factory=dict)
    ready: dict[int, int] = field(default_factory=dict)
    last_read: dict[int, int] = field(default_factory=dict)
    unit_free: dict[str, int] = field(default_factory=dict)

    def issue(self, operation: Operation) -> int:
        """Issue the next operation of the stream; returns its cycle."""
        earliest = self._registers_ready(operation)
        if earliest > self.cycle:
            self._close_group(earliest)
        while not self.fits(operation):
            self._close_group(self.cycle + 1)
        self.group.append(operation)
        self._place(len(self.group) - 1, self.units, set())
        self._record(operation)
        issued = self.cycle
        if operation.branch and self.rules.branch_ends_group:
            self._close_group(self.cycle + 1 + self.rules.taken_branch_penalty_cycles)
        return issued

    def _registers_ready(self, operation: Operation) -> int:
        earliest, ready = 0, self.ready
        for register in operation.reads:
            earliest = max(earliest, ready.get(register, 0))
        ordered = self.rules.write_after_write == "ordered"
        slack = operation.latency_cycles - 1 if ordered else 0
        for register in operation.writes:
            earliest = max(earliest, ready.get(register, 0) - slack)
            if self.rules.write_after_read == "next_cycle":
                earliest = max(earliest, self.last_read.get(register, -1) + 1)
        return earliest

    def fits(self, operation: Operation) -> bool:
        """True if the operation can join the current cycle's group."""
        if len(self.group) >= self.rules.width:
            return False
        for unit in operation.units:
            if unit not in self.units and self.unit_free.get(unit, 0) <= self.cycle:
                return True
        if not self.units:
            return False
        self.group.append(operation)
        found = self._place(len(self.group) - 1, {**self.units}, set())
        self.group.pop()
        return found

    def _place(self, index: int, holder: dict[str, int], tried: set[str]) -> bool:
        """Assign a free unit to an operation, moving others if needed (Kuhn's matching)."""
        for unit in self.group[index].units:
            if unit in tried or self.unit_free.get(unit, 0) > self.cycle:
                continue
            tried.add(unit)
            if unit not in holder or self._place(holder[unit], holder, tried):
                holder[unit] = index
                return True
        return False

    def _record(self, operation: Operation) -> None:
        for register in operation.reads:
            self.last_read[register] = self.cycle
        for register in operation.writes:
            self.ready[register] = self.cycle + operation.latency_cycles

    def _close_group(self, cycle: int) -> None:
        for unit, index in self.units.items():
            self.unit_free[unit] = self.cycle + self.group[index].occupancy_cycles
        self.group, self.units = [], {}
        self.cycle = cycle


def in_order_cycles(operations: Sequence[Operation], rules: IssueRules) -> tuple[int, ...]:
    """The cycle in which an in-order front end issues each operation (branches taken)."""
    front_end = _FrontEnd(rules)
    return tuple(front_end.issue(operation) for operation in operations)


def steady_cycles_per_iteration(operations: Sequence[Operation], rules: IssueRules) -> float:
    """Cycles per iteration of a loop body in the given order, once pipelines are full."""
    filled, measured = 8, 8
    count = len(operations)
    cycles = in_order_cycles([*operations] * (filled + measured), rules)
    return (cycles[-1] - cycles[count * filled - 1]) / measured


def list_schedule(
    operations: Sequence[Operation], rules: IssueRules, *, aliases: AliasRules | None = None
) -> ListSchedule:
    """Straight-line code ordered by critical path, or as given if not slower; a branch is last."""
    graph = build_dependences(
        operations, rules=rules, aliases=aliases, loop=False, relax_addresses=False
    )
    given = tuple(range(len(operations)))
    as_given = ListSchedule(given, in_order_cycles(graph.operations, rules))
    return min(as_given, schedule_order(graph, rules), key=lambda found: found.length_cycles)


def critical_paths(graph: DependenceGraph) -> list[int]:
    """For each operation the longest delay from its issue to the end, along distance-0 edges."""
    following = _by_source(graph)
    height = [operation.latency_cycles for operation in graph.operations]
    for index in reversed(range(len(height))):
        for edge in following[index]:
            height[index] = max(height[index], edge.delay_cycles + height[edge.target])
    return height


def _by_source(graph: DependenceGraph) -> list[list[Dependence]]:
    following: list[list[Dependence]] = [[] for _ in graph.operations]
    for edge in graph.edges:
        if edge.distance == 0:
            following[edge.source].append(edge)
    return following


def schedule_order(
    graph: DependenceGraph, rules: IssueRules, priority: Sequence[int] | None = None
) -> ListSchedule:
    """Issue ready operations by priority in each cycle; by default, longest critical path first."""
    urgency = priority or critical_paths(graph)
    following = _by_source(graph)
    waiting = [0] * len(graph.operations)
    for edges in following:
        for edge in edges:
            waiting[edge.target] += 1
    earliest = [0] * len(graph.operations)
    ready = [i for i, count in enumerate(waiting) if count == 0]
    front_end = _FrontEnd(rules)
    order, cycles = list[int](), list[int]()
    while ready:
        chosen = _next_choice(graph, front_end, ready, earliest, urgency)
        ready.remove(chosen)
        order.append(chosen)
        cycle = front_end.issue(graph.operations[chosen])
        cycles.append(cycle)
        for edge in following[chosen]:
            earliest[edge.target] = max(earliest[edge.target], cycle + edge.delay_cycles)
            waiting[edge.target] -= 1
            if waiting[edge.target] == 0:
                ready.append(edge.target)
    return ListSchedule(tuple(order), tuple(cycles))


def _next_choice(
    graph: DependenceGraph,
    front_end: _FrontEnd,
    ready: Sequence[int],
    earliest: Sequence[int],
    urgency: Sequence[int],
) -> int:
    """The most urgent operation that can issue in this cycle, else the earliest possible one."""

    kinds = {graph.operations[index].units: graph.operations[index] for index in ready}
    fits = {units: front_end.fits(operation) for units, operation in kinds.items()}

    def rank(index: int) -> tuple[bool, int, int, int]:
        operation = graph.operations[index]
        cycle = max(earliest[index], front_end.cycle)
        if cycle == front_end.cycle and not fits[operation.units]:
            cycle += 1
        # A branch ends the body, whatever its urgency.
        return operation.branch, cycle, -urgency[index], index

    return min(ready, key=rank)
