"""List scheduling and the in-order issue rule."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.isa.dependence import Operation, build_dependences
from tilewright.isa.reorder import (
    critical_paths,
    in_order_cycles,
    list_schedule,
    schedule_order,
    steady_cycles_per_iteration,
)
from tilewright.isa.table import IssueRules

RULES = IssueRules(width=2)
P0, P1, EITHER = ("P0",), ("P1",), ("P0", "P1")


def test_two_units_issue_together_and_one_waits_for_its_operand():
    stream = [
        Operation("load", writes=(1,), units=P1, latency_cycles=4),
        Operation("free", writes=(3,), units=P0),
        Operation("use", reads=(1,), writes=(2,), units=P0),
    ]
    assert in_order_cycles(stream, RULES) == (0, 0, 4)


def test_a_flexible_operation_leaves_the_unit_that_its_neighbour_needs():
    stream = [Operation("integer", units=EITHER), Operation("vector", units=P0)]
    assert in_order_cycles(stream, RULES) == (0, 0)


def test_an_unpipelined_unit_is_busy():
    stream = [Operation("divide", units=P0, occupancy_cycles=5), Operation("add", units=P0)]
    assert in_order_cycles(stream, RULES) == (0, 5)


def test_nothing_issues_behind_a_branch():
    stream = [Operation("branch", units=P1, branch=True), Operation("add", units=P0)]
    assert in_order_cycles(stream, RULES) == (0, 1)


def test_long_latencies_are_started_first():
    body = [
        Operation("cheap", writes=(5,), units=P1),
        Operation("load", writes=(1,), units=P1, latency_cycles=4),
        Operation("use", reads=(1,), writes=(2,), units=P0),
    ]
    schedule = list_schedule(body, RULES)
    assert schedule.order == (1, 0, 2)
    assert schedule.issue_cycles == (0, 1, 4)


@st.composite
def straight_code(draw):
    registers = st.integers(0, 7)
    operation = st.builds(
        Operation,
        name=st.just("op"),
        reads=st.lists(registers, max_size=3, unique=True).map(tuple),
        writes=st.lists(registers, max_size=1).map(tuple),
        units=st.sampled_from([P0, P1, EITHER]),
        latency_cycles=st.integers(1, 7),
        occupancy_cycles=st.sampled_from([1, 1, 1, 3]),
    )
    return draw(st.lists(operation, min_size=1, max_size=14))


@given(straight_code(), st.sampled_from(["same_cycle", "next_cycle"]))
@examples(150)
def test_the_prediction_is_the_time_of_the_order_and_never_worse(body, overwrite):
    rules = IssueRules(width=2, write_after_read=overwrite)
    schedule = list_schedule(body, rules)
    assert sorted(schedule.order) == list(range(len(body)))
    assert in_order_cycles([body[i] for i in schedule.order], rules) == schedule.issue_cycles
    assert schedule.length_cycles <= in_order_cycles(body, rules)[-1] + 1
    _same_values(body, schedule.order)


def _same_values(body, order):
    def run(sequence):
        values = dict.fromkeys(range(8), 0)
        for index in sequence:
            inputs = tuple(values[r] for r in body[index].reads)
            for register in body[index].writes:
                values[register] = hash((index, inputs))
        return values

    assert run(order) == run(range(len(body)))


def test_steady_state_of_a_recurrence():
    body = [
        Operation("accumulate", reads=(1,), writes=(1,), units=P0, latency_cycles=7),
        Operation("branch", units=P1, branch=True),
    ]
    assert steady_cycles_per_iteration(body, RULES) == 7


def test_half_a_cycle_of_an_iteration_counts():
    """Three operations that any of two units does take three cycles in two iterations."""
    body = [Operation("add", units=EITHER) for _ in range(3)]
    assert steady_cycles_per_iteration(body, RULES) == 1.5


@st.composite
def issue_rules(draw):
    return IssueRules(
        width=draw(st.integers(1, 3)),
        write_after_read=draw(st.sampled_from(["same_cycle", "next_cycle"])),
        write_after_write=draw(st.sampled_from(["finished", "ordered"])),
        branch_ends_group=draw(st.booleans()),
        taken_branch_penalty_cycles=draw(st.integers(0, 2)),
    )


@st.composite
def operations(draw, branches=True, longest=3):
    """Operations that several units can run occupy one for a cycle, so that it matters no later
    which one that was.
    """
    registers = st.integers(0, 4)
    units = draw(st.sampled_from([P0, P1, EITHER, ("P0", "P2"), ("P2", "P1"), ("P2",)]))
    return Operation(
        "op",
        reads=tuple(draw(st.lists(registers, max_size=2))),
        writes=tuple(draw(st.lists(registers, max_size=1))),
        units=units,
        latency_cycles=draw(st.integers(1, 4)),
        occupancy_cycles=draw(st.integers(1, longest)) if len(units) == 1 else 1,
        branch=branches and draw(st.integers(0, 5)) == 0,
    )


def fit_together(group, free):
    names = ("P0", "P1", "P2")
    return any(
        all(
            unit in op.units and free.get(unit, 0) <= 0
            for op, unit in zip(group, own, strict=False)
        )
        for own in permutations(names, len(group))
    )


def issued_by_hand(body, rules):
    """The first cycle, not before that of the operation before, in which registers are ready and
    units can be found for all that issue in it.
    """
    cycles, least = [], 0
    for i, op in enumerate(body):
        cycle = least
        for j, other in enumerate(body[:i]):
            behind = body[j + 1 : i]
            last = {r for r in other.writes if all(r not in each.writes for each in behind)}
            done = cycles[j] + other.latency_cycles
            if last & {*op.reads}:
                cycle = max(cycle, done)
            if last & {*op.writes}:
                ordered = rules.write_after_write == "ordered"
                cycle = max(cycle, done - (op.latency_cycles - 1 if ordered else 0))
            if rules.write_after_read == "next_cycle" and {*other.reads} & {*op.writes}:
                cycle = max(cycle, cycles[j] + 1)
        while True:
            group = [body[j] for j in range(i) if cycles[j] == cycle]
            taken = {
                body[j].units[0]: cycles[j] + body[j].occupancy_cycles - cycle
                for j in range(i)
                if cycles[j] < cycle and len(body[j].units) == 1
            }
            if len(group) < rules.width and fit_together([*group, op], taken):
                break
            cycle += 1
        cycles.append(cycle)
        ends = op.branch and rules.branch_ends_group
        least = cycle + 1 + rules.taken_branch_penalty_cycles if ends else cycle
    return tuple(cycles)


@given(st.lists(operations(), max_size=8), issue_rules())
@examples(200)
def test_operations_issue_in_the_first_cycle_that_all_rules_allow(body, rules):
    assert in_order_cycles(body, rules) == issued_by_hand(body, rules)


def height(graph, index):
    """The longest delay from the issue of an operation to the end, over all ways there."""
    ways = [e.delay_cycles + height(graph, e.target) for e in graph.edges if e.source == index]
    return max([graph.operations[index].latency_cycles, *ways])


@given(st.lists(operations(branches=False, longest=1), max_size=8), st.integers(1, 3))
@examples(120)
def test_what_issues_next_is_what_can_issue_first_and_then_the_most_urgent(body, width):
    rules = IssueRules(width=width)
    graph = build_dependences(body, rules=rules, loop=False, relax_addresses=False)
    urgency = [height(graph, index) for index in range(len(body))]
    assert critical_paths(graph) == urgency
    schedule = schedule_order(graph, rules)
    for at, chosen in enumerate(schedule.order):
        before = schedule.order[:at]
        ready = [
            i
            for i in range(len(body))
            if i not in before and all(e.source in before for e in graph.edges if e.target == i)
        ]
        stream = [body[i] for i in before]
        cycles = {i: in_order_cycles([*stream, body[i]], rules)[-1] for i in ready}
        assert chosen == min(ready, key=lambda i: (cycles[i], -urgency[i], i))


def test_a_branch_stays_last_whatever_waits_for_it():
    body = [
        Operation("load", writes=(1,), units=P1, latency_cycles=4),
        Operation("use", reads=(1,), writes=(2,), units=P0),
        Operation("branch", units=P1, branch=True),
    ]
    assert list_schedule(body, RULES).order == (0, 1, 2)
    assert list_schedule([], RULES).length_cycles == 0
    assert list_schedule(body[:2], RULES).length_cycles == 5
