"""List scheduling and the in-order issue rule."""

from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.isa.dependence import Operation
from tilewright.isa.reorder import in_order_cycles, list_schedule, steady_cycles_per_iteration
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
