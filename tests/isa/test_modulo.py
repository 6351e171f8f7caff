"""Optimal modulo scheduling: the interval, its proof, and what happens when the effort runs out."""

import random

import pytest

from tilewright.common.errors import CapacityError
from tilewright.isa import modulo
from tilewright.isa.dependence import AddressUse, DependenceGraph, MemoryAccess, Operation
from tilewright.isa.modulo import Effort, modulo_schedule
from tilewright.isa.modulo_bounds import control_operations, crossings, resource_bounds
from tilewright.isa.modulo_solver import is_schedule
from tilewright.isa.table import IssueRules

RULES = IssueRules(width=2)
P0, P1, EITHER = ("P0",), ("P1",), ("P0", "P1")
COUNTER = 90


def loop(*operations):
    control = (
        Operation("count", (COUNTER,), (COUNTER,), EITHER),
        Operation("branch", (COUNTER,), (), P1, branch=True),
    )
    return [*operations, *control]


def load(to, base=40, displacement=0):
    access = MemoryAccess(base, displacement, 8)
    return Operation("load", (base,), (to,), P1, 4, memory=access)


def multiply_add(a, b, c):
    return Operation("multiply-add", (a, b, c), (c,), P0, 7)


def check(schedule):
    """The schedule obeys every dependence and no unit is used twice in a slot. Each iteration is
    in flight from its begin to its last issue.
    """
    times, interval = schedule.times, schedule.interval_cycles
    assert (schedule.stages - 1) * interval <= max(times) < schedule.stages * interval
    for edge in schedule.graph.edges:
        slack = times[edge.target] + interval * edge.distance - times[edge.source]
        assert slack >= edge.delay_cycles
    for unit in ("P0", "P1"):
        paired = zip(times, schedule.graph.operations, strict=True)
        forced = [time % interval for time, op in paired if op.units == (unit,)]
        assert len(forced) == len(set(forced))


def test_a_unit_bounds_the_interval():
    schedule = modulo_schedule(loop(*(load(r, displacement=8 * r) for r in range(5))), RULES)
    check(schedule)
    assert (schedule.interval_cycles, schedule.proven_minimum) == (6, True)
    assert schedule.statement() == (
        "6 cycles per iteration, proven minimum (lower bounds: unit P1 6*, unit P0+P1 4, "
        "issue width 4, recurrence 4, control 2)"
    )


def test_a_recurrence_bounds_the_interval():
    schedule = modulo_schedule(loop(load(1), multiply_add(1, 2, 3), multiply_add(3, 2, 3)), RULES)
    check(schedule)
    assert (schedule.bounds.recurrence_cycles, schedule.interval_cycles) == (14, 14)
    assert schedule.proven_minimum


def test_the_solver_refutes_an_interval_that_the_simple_bounds_allow():
    # Registers 1 and 2 are both read by the first five of eight multiply-adds in fixed order: at
    # interval 8 both loads would have to issue in the one slot between the fifth read and the next
    # first read.
    chain = [
        Operation("multiply-add", (1, 2, c) if c < 15 else (c,), (c,), P0, 7, channels=("order",))
        for c in range(10, 18)
    ]
    schedule = modulo_schedule(loop(load(1), load(2, displacement=8), *chain), RULES)
    check(schedule)
    assert (schedule.bounds.minimum_interval, schedule.interval_cycles) == (8, 9)
    assert schedule.refuted_intervals == (8,)
    assert schedule.proven_minimum
    assert schedule.statement().endswith("control 2; proved infeasible: 8)")


def test_the_lead_in_is_proven_by_the_time_of_one_iteration_alone():
    loads = (load(1), load(2, displacement=8))
    body = loop(*loads, *(multiply_add(1 + c // 14, 3, c) for c in range(10, 18)))
    schedule = modulo_schedule(body, RULES)
    check(schedule)
    assert schedule.interval_cycles == 8
    assert (schedule.lead_in_cycles, schedule.lead_in_proven) == (4, True)


def test_too_many_registers_are_refused():
    with pytest.raises(CapacityError) as error:
        modulo_schedule(loop(load(1), multiply_add(1, 2, 3)), RULES, register_limit=4)
    assert str(error.value) == (
        "the loop body uses 5 registers, the limit is 4; "
        "free registers in the body; scheduling keeps its register names"
    )


def sixty_instructions(seed):
    """A body of 60 instructions: 14 loads, 36 vector operations in chains, 8 stores, count and
    branch.
    """
    pick = random.Random(seed)
    body = [load(r, displacement=8 * r) for r in range(14)]
    for position in range(36):
        target = 14 + position % 20
        body.append(multiply_add(pick.randrange(14), pick.randrange(34), target))
    for r in range(8):
        access = MemoryAccess(41, 8 * r, 8, is_store=True)
        body.append(Operation("store", (14 + r, 41), (), P1, 1, memory=access))
    return loop(*body)


@pytest.mark.parametrize("seed", [0, 1])
def test_sixty_instructions_are_solved_and_proven(seed):
    body = sixty_instructions(seed)
    assert len(body) == 60
    schedule = modulo_schedule(body, RULES)
    check(schedule)
    assert schedule.pipelined
    assert (schedule.interval_cycles, schedule.proven_minimum) == (36, True)


def test_without_effort_the_list_schedule_stands_in_and_says_how_far_it_may_be_off():
    body = sixty_instructions(0)
    schedule = modulo_schedule(body, RULES, effort=Effort(deterministic_units=0.0))
    assert not schedule.pipelined
    assert not schedule.proven_minimum
    assert schedule.undecided_intervals
    gap = schedule.interval_cycles - schedule.lower_bound_cycles
    assert (
        f"list schedule, gap {gap} to the bound {schedule.lower_bound_cycles}"
        in schedule.statement()
    )


def test_a_search_that_is_kept_loads_no_solver(monkeypatch):
    body = loop(load(0), multiply_add(0, 0, 1), multiply_add(1, 1, 2))
    first = modulo_schedule(body, RULES)
    assert first.pipelined
    modulo._searched.cache_clear()
    monkeypatch.setattr(modulo, "modulo_solver", None)
    assert modulo_schedule(body, RULES) == first


@pytest.mark.parametrize("far", [4096, 1 << 14])
def test_how_far_accesses_are_apart_decides_nothing_in_few_stages(far, monkeypatch):
    """Out of reach of the stages in flight: a store to what the load reads many iterations
    later, and how many additions a displacement holds.
    """

    def body(apart):
        kept = MemoryAccess(40, apart, 8, is_store=True)
        store = Operation("store", (1, 40), (), P1, 1, memory=kept)
        step = Operation("step", (40,), (40,), EITHER, increment_bytes=8)
        return loop(load(0), multiply_add(0, 0, 1), store, step)

    first = modulo_schedule(body(2048), RULES)
    assert first.pipelined
    monkeypatch.setattr(modulo, "modulo_solver", None)
    second = modulo_schedule(body(far), RULES)
    assert second.graph.edges != first.graph.edges
    assert second.times == first.times
    check(second)


def test_the_same_input_gives_the_same_schedule():
    body = sixty_instructions(1)
    limit = Effort(deterministic_units=0.4)
    times = [modulo_schedule(body, RULES, effort=limit).times for _ in range(2)]
    assert times[0] == times[1]


@pytest.mark.parametrize("rule", ["same_cycle", "next_cycle"])
@pytest.mark.parametrize("latency", [1, 2, 3])
def test_an_access_crosses_as_many_additions_as_its_displacement_holds(rule, latency):
    """It is nowhere within the latency of one, and each that it crosses is 8 bytes."""
    access = MemoryAccess(40, 0, 8, smallest_displacement=-8, largest_displacement=8)
    body = (
        Operation("load", (40,), (1,), P1, memory=access),
        Operation("add", (40,), (40,), P0, latency, increment_bytes=8),
    )
    graph = DependenceGraph(body, (), (AddressUse(0, 1, 8),))
    rules, interval, addition = IssueRules(2, write_after_read=rule), 4, 8
    turns = range(-9, 9)
    for load_time in range(20):
        additions = [(turn, addition + interval * turn) for turn in turns]
        crossed = sum(turn >= 0 and time < load_time for turn, time in additions)
        missed = sum(turn < 0 and time >= load_time for turn, time in additions)
        within = any(time < load_time < time + latency for _, time in additions)
        within |= rule == "next_cycle" and load_time in dict(map(reversed, additions))
        allowed = abs(8 * (crossed - missed)) <= 8 and not within
        assert is_schedule(graph, rules, interval, (load_time, addition)) == allowed, load_time


def test_units_are_counted_alone_and_with_others():
    units = [P0, P0, EITHER, ("P1", "P2"), ("P1", "P2")]
    body = [Operation("a", units=each, occupancy_cycles=3) for each in units]
    assert resource_bounds(DependenceGraph(tuple(body), ())) == (
        ("P0", 6),
        ("P0+P1", 5),
        ("P1+P2", 3),
        ("P0+P1+P2", 5),
    )


@pytest.mark.parametrize(
    "kept", [{"channels": ("row",)}, {"memory": MemoryAccess(40, 0, 8)}, {"writes": ()}], ids=str
)
def test_what_has_another_effect_does_not_only_feed_the_branch(kept):
    compare = Operation("compare", (2,), (3,), P0)
    branch = Operation("branch", (3,), (), P1, branch=True)
    count = Operation("count", (2,), (2,), P0)
    assert control_operations(DependenceGraph((count, compare, branch), ())) == {0, 1, 2}
    other = Operation("count", (2,), **{"writes": (2,), **kept}, units=P0)
    assert control_operations(DependenceGraph((other, compare, branch), ())) == {1, 2}


@pytest.mark.parametrize("sharing", [1, 2, 3])
@pytest.mark.parametrize("step", [8, 24, -40])
@pytest.mark.parametrize("displacement", [-512, -100, 0, 300, 511])
def test_accesses_cross_as_many_additions_as_their_displacement_has_room_for(
    sharing, step, displacement
):
    """Each addition that is passed once more than in the order of the text changes it by a step;
    those that one access passes share its range.
    """
    access = MemoryAccess(40, displacement, 8, smallest_displacement=-512, largest_displacement=511)
    add = Operation("add", (40,), (40,), EITHER)
    operations = (Operation("load", (40,), (1,), P1, 4, memory=access), *[add] * sharing)
    uses = tuple(AddressUse(0, 1 + i, step) for i in range(sharing))
    graph = DependenceGraph(operations, (), uses)
    for use in uses:
        found = crossings(graph, use)
        fitting = [
            passed
            for passed in range(-200, 201)
            if -512 - displacement <= sharing * -passed * step <= 511 - displacement
        ]
        assert found == (fitting[0], fitting[-1])
