"""The cheapest choice, against all choices."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.partition import solve
from tilewright.partition.solve import cheapest, independent_bound, refined

SHAPES = {
    "chain": [(0, 1), (1, 2), (2, 3), (3, 4)],
    "residual": [(0, 1), (1, 2), (0, 2), (2, 3), (2, 4), (3, 4)],
    "two parts": [(0, 1), (2, 3)],
    "four that all meet": [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (3, 4)],
}


def problem(edges, seed):
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 4, 5)
    nodes = [random.integers(0, 50, size).astype(float) for size in sizes]
    costs = {(i, j): random.integers(0, 50, (sizes[i], sizes[j])).astype(float) for i, j in edges}
    return nodes, costs


def total(nodes, edges, chosen):
    own = sum(costs[option] for costs, option in zip(nodes, chosen, strict=True))
    return own + sum(matrix[chosen[i], chosen[j]] for (i, j), matrix in edges.items())


@pytest.mark.parametrize("shape", SHAPES)
@given(seed=st.integers(0, 10_000))
def test_no_other_choice_is_cheaper(shape, seed):
    nodes, edges = problem(SHAPES[shape], seed)
    found = cheapest(nodes, edges)
    every = itertools.product(*(range(len(costs)) for costs in nodes))
    assert found.cost == min(total(nodes, edges, chosen) for chosen in every)
    assert found.cost == total(nodes, edges, found.options)
    assert found.proven
    assert independent_bound(nodes, edges) <= found.bound == found.cost


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), tolerance=st.sampled_from([0.0, 0.2]))
def test_costs_of_pairs_may_be_found_out_when_they_are_chosen(shape, seed, tolerance):
    nodes, edges = problem(SHAPES[shape], seed)
    least = {edge: np.floor(matrix / 2) for edge, matrix in edges.items()}
    found = refined(nodes, least, lambda edge, i, j: float(edges[edge][i, j]), tolerance)
    best = cheapest(nodes, edges)
    assert found.cost == total(nodes, edges, found.options)
    assert found.bound <= best.cost <= found.cost <= found.bound / (1 - tolerance) + 1e-9
    assert found.proven == (found.cost == found.bound) or tolerance


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_tables_and_the_solver_find_equally_cheap_choices(seed):
    random = np.random.default_rng(seed)
    count = 8
    pairs = [pair for pair in itertools.combinations(range(count), 2) if random.random() < 0.6]
    sizes = random.integers(1, 4, count)
    own = {n: random.integers(0, 50, size).astype(float) for n, size in enumerate(sizes)}
    edges = {(i, j): random.integers(0, 50, (sizes[i], sizes[j])).astype(float) for i, j in pairs}
    to = {n: {} for n in own}
    for (i, j), matrix in edges.items():
        to[i][j], to[j][i] = matrix, matrix.T
    by_tables, (solved, proven) = solve.choose_by_tables(own, to), solve.choose_remainder(own, to)
    assert proven
    nodes = [own[n] for n in range(count)]
    one, other = ([found[n] for n in range(count)] for found in (by_tables, solved))
    assert total(nodes, edges, one) == total(nodes, edges, other)


@pytest.mark.parametrize("costs", [(1e9, 1e9 + 1), (0.2, 0.3), (1e12, 1.1e12), (-0.3, -0.2)])
def test_costs_are_told_apart_to_the_last_unit_or_to_millionths_of_the_largest(costs):
    for order in (costs, costs[::-1]):
        chosen = {0: order.index(min(costs)), 1: 0}
        own = {0: np.array(order), 1: np.zeros(1)}
        assert solve.choose_remainder(own, {0: {}, 1: {}}) == (chosen, True)
        own, edge = {0: np.zeros(2), 1: np.zeros(1)}, np.array(order)[:, None]
        assert solve.choose_remainder(own, {0: {1: edge}, 1: {0: edge.T}}) == (chosen, True)


def test_of_many_options_those_are_kept_that_cost_least_with_their_neighbours():
    own, edge = {0: np.arange(60.0), 1: np.zeros(2)}, np.full((60, 2), 100.0)
    edge[59] = 70.0, 7.0
    to = {0: {1: edge}, 1: {0: edge.T}}
    assert solve.choose_remainder(own, to) == ({0: 59, 1: 1}, False)


def test_the_bound_of_what_is_not_proven_is_every_cost_at_its_least(monkeypatch):
    """Four nodes that all meet are left to a solver, which may stop before it has a proof."""
    nodes = [np.array([3.0, 1.0 + i]) for i in range(4)]
    edges = {
        pair: np.array([[5.0, 4.0], [2.0, 7.0]]) for pair in itertools.combinations(range(4), 2)
    }
    least = 1 + 2 + 3 + 3 + 6 * 2
    assert independent_bound(nodes, edges) == least
    monkeypatch.setattr(solve, "_TABLE", 1)
    monkeypatch.setattr(solve, "choose_remainder", lambda own, to: (dict.fromkeys(own, 0), False))
    found = cheapest(nodes, edges)
    assert found.options == (0, 0, 0, 0)
    assert (found.cost, found.bound, found.proven) == (4 * 3 + 6 * 5, least, False)


def test_after_so_many_rounds_the_best_choice_so_far_is_taken():
    nodes = [np.zeros(3), np.zeros(3)]
    exact = np.array([[9.0, 8.0, 7.0], [6.0, 5.0, 4.0], [3.0, 2.0, 1.0]])
    edges = {(0, 1): np.zeros((3, 3))}
    found = refined(nodes, edges, lambda _, i, j: float(exact[i, j]), rounds=2)
    assert (found.options, found.cost, found.bound, found.proven) == ((1, 1), 5.0, 0.0, False)


def test_edges_that_are_alike_are_found_out_together():
    nodes, least = [np.zeros(2)] * 3, np.zeros((2, 2))
    edges, asked = {(0, 1): least, (1, 2): least}, []

    def exact(edge, first, second):
        asked.append((first, second))
        return 1.0 + first + second

    found = refined(nodes, edges, exact, alike=dict.fromkeys(edges, "both"))
    assert (found.options, found.cost, found.proven) == ((0, 0, 0), 2.0, True)
    assert sorted(asked) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_many_options_of_many_neighbours_are_not_proven(monkeypatch):
    monkeypatch.setattr(solve, "_TABLE", 60 * 3**3 - 1)
    nodes = [np.arange(60.0), *[np.arange(3.0)] * 3]
    edges = {
        (i, j): np.ones((len(nodes[i]), len(nodes[j])))
        for i, j in itertools.combinations(range(4), 2)
    }
    found = cheapest(nodes, edges)
    assert (found.options, found.cost, found.bound, found.proven) == ((0,) * 4, 6.0, 6.0, False)


def test_beside_a_chosen_pair_the_cheapest_others_of_its_options_are_found_out():
    nodes, asked = [np.arange(40.0), np.arange(40.0)], []

    def exact(_, first, second):
        asked.append((first, second))
        return 1.0

    refined(nodes, {(0, 1): np.zeros((40, 40))}, exact, rounds=1)
    assert sorted(asked) == [(0, j) for j in range(32)] + [(i, 0) for i in range(1, 32)]
