"""The part of a choice that no elimination of nodes with two neighbours solves, by CP-SAT.

In: nodes, each with three neighbours or more, and the costs of their options and pairs. Out: one
option for each. Costs are rounded to millionths of the largest; nodes with many options keep those
that are cheapest by themselves, and then the choice is not proven to be the best.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from ortools.sat.python import cp_model

Costs = NDArray[np.float64]
_OPTIONS = 48
"""Options that a node may keep: pairs of them are variables of the problem."""
_SECONDS = 20.0
_STEPS = 1e6


def choose_remainder(
    own: Mapping[int, Costs], to: Mapping[int, Mapping[int, Costs]]
) -> tuple[dict[int, int], bool]:
    """The option of each node, and True if it is proven that no other choice costs less."""
    kept = {node: _best(costs, to[node]) for node, costs in own.items()}
    whole = all(len(kept[node]) == len(costs) for node, costs in own.items())
    model = cp_model.CpModel()
    taken = {node: [model.new_bool_var("") for _ in kept[node]] for node in own}
    scale = _scale(own, to)
    terms = []
    for node, variables in taken.items():
        model.add_exactly_one(variables)
        costs = _whole_numbers(own[node][kept[node]], scale)
        terms += [c * v for c, v in zip(costs, variables, strict=True) if c]
        for other, matrix in to[node].items():
            if node < other:
                costs = _whole_numbers(matrix[np.ix_(kept[node], kept[other])], scale)
                terms += _pairs(model, variables, taken[other], costs)
    model.minimize(sum(terms))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = _SECONDS
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    found = {
        node: int(kept[node][[solver.boolean_value(v) for v in variables].index(True)])
        for node, variables in taken.items()
    }
    return found, whole and status == cp_model.OPTIMAL


def _best(costs: Costs, neighbours: Mapping[int, Costs]) -> NDArray[np.intp]:
    """The options that cost least with the best of each neighbour's."""
    alone = costs + sum(matrix.min(axis=1) for matrix in neighbours.values())
    return np.sort(np.argsort(alone, kind="stable")[:_OPTIONS])


def _pairs(
    model: cp_model.CpModel,
    first: list[cp_model.IntVar],
    second: list[cp_model.IntVar],
    costs: NDArray[np.int64],
) -> list[cp_model.LinearExpr]:
    """Terms of the chosen pair's cost: each pair has a variable that is at least 1 if both its
    options are taken, since each row and each column of pairs sums to its option's variable.
    """
    both = [[model.new_bool_var("") for _ in second] for _ in first]
    for row, one in zip(both, first, strict=True):
        model.add(sum(row) == one)
    for column, other in zip(zip(*both, strict=True), second, strict=True):
        model.add(sum(column) == other)
    return [
        cost * variable
        for row, numbers in zip(both, costs.tolist(), strict=True)
        for variable, cost in zip(row, numbers, strict=True)
        if cost
    ]


def _scale(own: Mapping[int, Costs], to: Mapping[int, Mapping[int, Costs]]) -> float:
    """Factor for costs: 1 for whole numbers below 1e12, else it makes the largest `_STEPS`."""
    every = [*own.values(), *(m for neighbours in to.values() for m in neighbours.values())]
    largest = max((float(np.abs(costs).max()) for costs in every), default=0.0)
    exact = all((costs == np.rint(costs)).all() for costs in every)
    return 1.0 if exact and largest < 1e12 else _STEPS / max(largest, 1e-30)


def _whole_numbers(costs: Costs, scale: float) -> NDArray[np.int64]:
    return np.rint(costs * scale).astype(np.int64)
