"""The constraint model against every placement of a few operations, tried."""

from __future__ import annotations

from collections import Counter
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.isa.dependence import Dependence, DependenceGraph, DependenceKind, Operation
from tilewright.isa.modulo_solver import (
    is_schedule,
    place_in_few_stages,
    place_operations,
    shorten,
)
from tilewright.isa.placement import Effort, Placement, Verdict
from tilewright.isa.table import IssueRules

COUNT = 3
units = st.sampled_from([("P0",), ("P1",), ("P2",), ("P0", "P1")])
places = st.integers(0, COUNT - 1)


def graph_of(operations, edges):
    return DependenceGraph(
        tuple(Operation(f"o{i}", (), (), *each) for i, each in enumerate(operations)),
        tuple(Dependence(*edge, DependenceKind.MEMORY) for edge in edges),
    )


graphs = st.builds(
    graph_of,
    st.lists(st.tuples(units, st.just(1), st.integers(1, 2)), min_size=COUNT, max_size=COUNT),
    st.lists(st.tuples(places, places, st.integers(0, 3), st.integers(1, 4)), max_size=3),
)


def is_valid(graph, width, interval, times):
    """Each dependence holds, each unit does one thing at a time and `width` issue in a cycle."""
    for edge in graph.edges:
        if times[edge.target] + interval * edge.distance < times[edge.source] + edge.delay_cycles:
            return False
    slots = Counter(time % interval for time in times)
    named = {unit for operation in graph.operations for unit in operation.units}
    if len(named) > width and max(slots.values()) > width:
        return False
    for chosen in product(*(operation.units for operation in graph.operations)):
        busy = Counter(
            (unit, (time + cycle) % interval)
            for unit, time, operation in zip(chosen, times, graph.operations, strict=True)
            for cycle in range(operation.occupancy_cycles)
        )
        if max(busy.values()) == 1:
            return True
    return False


def valid_placements(graph, width, interval, stages):
    every = product(range(interval * stages), repeat=len(graph.operations))
    return {times for times in every if is_valid(graph, width, interval, times)}


def span(times):
    return max(times) - min(times) + 1


@examples(150)
@given(graphs, st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.data())
def test_a_placement_is_found_if_there_is_one_and_made_as_short_as_any(
    graph, width, interval, stages, data
):
    rules, nothing = IssueRules(width), frozenset[int]()
    valid = valid_placements(graph, width, interval, stages)
    times = tuple(data.draw(st.integers(0, interval * stages - 1)) for _ in range(COUNT))
    assert is_schedule(graph, rules, interval, times) == (times in valid)
    found = place_operations(graph, rules, interval, Effort(), stages)
    assert found.verdict is (Verdict.FOUND if valid else Verdict.INFEASIBLE)
    if valid:
        assert found.times in valid
        start = data.draw(st.sampled_from(sorted(valid)))
        best = shorten(graph, rules, interval, Placement(Verdict.FOUND, start), nothing, Effort())
        within = valid_placements(graph, width, interval, max(start) // interval + 1)
        assert best.times in within
        least = min(map(span, within))
        assert (span(best.times), best.span_cycles, best.span_bound_cycles) == (least,) * 3


@examples(50)
@given(graphs, st.integers(1, 3), st.integers(1, 3))
def test_few_stages_tried_before_change_nothing(graph, width, interval):
    rules = IssueRules(width)
    whole = place_operations(graph, rules, interval, Effort())
    few = place_in_few_stages(graph, rules, interval, Effort())
    if few.verdict is not Verdict.FOUND:
        few = place_operations(graph, rules, interval, Effort(), few_tried=True)
    assert few == whole
