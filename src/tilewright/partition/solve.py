"""The cheapest choice of one option per node of a graph whose nodes and edges have costs.

In: the costs of each node's options, and for each edge a matrix over the options of both ends. Out:
a choice, with a flag that says if it is proven optimal. Nodes with at most two neighbours are
eliminated in turn by dynamic programming, which joins the neighbours by an edge; chains and
networks whose branches rejoin are solved by this alone. Other nodes are eliminated by tables over
all their neighbours (bucket elimination) where the tables are small, as in a training step, whose
nodes have several neighbours and few options. The rest goes to CP-SAT, where a node with many
options keeps only the most promising ones; such a choice is not proven optimal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.common.deferred import Deferred

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from tilewright.common import compiled_tables
else:  # heavy
    cp_model = Deferred("ortools.sat.python.cp_model")
    compiled_tables = Deferred("tilewright.common.compiled_tables")


Costs = NDArray[np.float64]
_OPTIONS = 48
"""Most options that a node keeps for CP-SAT, where each pair of options is a variable."""
_WORK = 4.0
"""Limit on CP-SAT's deterministic time; a unit takes some seconds and is equal on any computer."""
_STEPS = 1e6


def choose_remainder(
    own: Mapping[int, Costs], to: Mapping[int, Mapping[int, Costs]]
) -> tuple[dict[int, int], bool]:
    """The option of each node, and True if the choice is proven optimal, by CP-SAT. Costs that are
    not whole numbers are rounded to millionths of the largest.
    """
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
    solver.parameters.max_deterministic_time = _WORK
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    found = {
        node: int(kept[node][[solver.boolean_value(v) for v in variables].index(True)])
        for node, variables in taken.items()
    }
    return found, whole and status == cp_model.OPTIMAL


def _best(costs: Costs, neighbours: Mapping[int, Costs]) -> NDArray[np.intp]:
    """The options of a node that cost least together with the best option of each neighbour."""
    alone = costs + sum(matrix.min(axis=1) for matrix in neighbours.values())
    return np.sort(np.argsort(alone, kind="stable")[:_OPTIONS])


def _pairs(
    model: cp_model.CpModel,
    first: list[cp_model.IntVar],
    second: list[cp_model.IntVar],
    costs: NDArray[np.int64],
) -> list[cp_model.LinearExpr]:
    """Terms of an edge's cost. Each pair of options has a variable; every row and every column of
    pairs sums to its option's variable, so exactly the pair of both chosen options is 1.
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
    """Factor for costs: 1 for whole numbers below 1e12, else it scales the largest to `_STEPS`."""
    every = [*own.values(), *(m for neighbours in to.values() for m in neighbours.values())]
    largest = max((float(np.abs(costs).max()) for costs in every), default=0.0)
    exact = all((costs == np.rint(costs)).all() for costs in every)
    return 1.0 if exact and largest < 1e12 else _STEPS / max(largest, 1e-30)


def _whole_numbers(costs: Costs, scale: float) -> NDArray[np.int64]:
    return np.rint(costs * scale).astype(np.int64)


_TABLE = 1 << 20
"""Most entries of one table of costs."""
_Table: TypeAlias = tuple[tuple[int, ...], Costs]
"""Several nodes, and costs of their options with one axis for each node."""


def choose_by_tables(
    own: Mapping[int, Costs], to: Mapping[int, Mapping[int, Costs]]
) -> dict[int, int] | None:
    """The option of each node in the cheapest choice; None where a table would be too large."""
    order = _order_of_tables(own, to)
    if order is None:
        return None
    several = set(order)
    found = dict.fromkeys(own.keys() - several, 0)
    tables: list[_Table] = [((node,), own[node]) for node in order]
    for node in order:
        for other, matrix in to[node].items():
            if other not in several:
                tables.append(((node,), matrix[:, 0]))
            elif node < other:
                tables.append(((node, other), matrix))
    chosen: list[tuple[int, tuple[int, ...], NDArray[np.intp]]] = []
    for node in order:
        mine = [table for table in tables if node in table[0]]
        tables = [table for table in tables if node not in table[0]]
        others = tuple(sorted({n for nodes, _ in mine for n in nodes} - {node}))
        total = sum(_spread(table, (node, *others)) for table in mine)
        chosen.append((node, others, np.argmin(total, axis=0)))
        tables.append((others, np.min(total, axis=0)))
    for node, others, best in reversed(chosen):
        found[node] = int(best[tuple(found[other] for other in others)])
    return found


def _spread(table: _Table, nodes: tuple[int, ...]) -> Costs:
    """The table's costs, broadcast to one axis for each of `nodes`, which include its own."""
    own, costs = table
    lengths = dict(zip(own, costs.shape, strict=True))
    axes = [own.index(node) for node in nodes if node in own]
    return costs.transpose(axes).reshape([lengths.get(node, 1) for node in nodes])


def _order_of_tables(
    own: Mapping[int, Costs], to: Mapping[int, Mapping[int, Costs]]
) -> list[int] | None:
    """Elimination order of nodes with several options, smallest table first; None if too large."""
    beside = {node: {o for o in to[node] if own[o].size > 1} for node in own if own[node].size > 1}
    order = list[int]()

    def entries(node: int) -> tuple[int, int]:
        return prod(own[other].size for other in (node, *beside[node])), node

    while beside:
        size, node = min(map(entries, beside))
        if size > _TABLE:
            return None
        others = beside.pop(node)
        for other in others:
            beside[other] |= others
            beside[other] -= {node, other}
        order.append(node)
    return order


Pair = tuple[tuple[int, int], int, int]
"""An edge, and the option at each of its ends."""
_NEIGHBOURS = 32
"""Pairs near a chosen one that are priced exactly with it, for each of its two options."""


@dataclass(frozen=True)
class Solution:
    """An option for each node, their total cost, and a lower bound on the cost of any choice;
    `proven` if no other choice costs less.
    """

    options: tuple[int, ...]
    cost: float
    bound: float
    proven: bool


def cheapest(nodes: Sequence[Costs], edges: Mapping[tuple[int, int], Costs]) -> Solution:
    """The choice with the least sum of node and edge costs.

    >>> a, b = np.array([0.0, 1.0]), np.array([5.0, 2.0])
    >>> cheapest([a, b], {(0, 1): np.array([[0.0, 4.0], [9.0, 1.0]])}).options
    (1, 1)
    """
    state = _Elimination(nodes, edges)
    proven = state.run()
    options = state.chosen()
    cost = _cost(nodes, edges, options)
    least = sum(float(own.min()) for own in nodes)
    least += sum(float(matrix.min()) for matrix in edges.values())
    return Solution(options, cost, cost if proven else least, proven)


def independent_bound(nodes: Sequence[Costs], edges: Mapping[tuple[int, int], Costs]) -> float:
    """Lower bound on the cost of any choice: each node and each edge at its own minimum."""
    return float(sum(own.min() for own in nodes) + sum(m.min() for m in edges.values()))


def refined(
    nodes: Sequence[Costs],
    edges: Mapping[tuple[int, int], Costs],
    exact: Callable[[tuple[int, int], int, int], float],
    tolerance: float = 0.0,
    rounds: int | None = None,
    alike: Mapping[tuple[int, int], object] = MappingProxyType({}),
) -> Solution:
    """The cheapest choice where exact edge costs are expensive. `edges` holds lower bounds; pairs
    are priced by `exact(edge, first, second)` once they are chosen, until all chosen pairs are
    exact: then no other choice costs less. The search stops earlier if the best choice exceeds the
    lower bound by at most `tolerance`, a fraction of its cost, or after `rounds` rounds. Edges with
    equal values in `alike` have equal costs, so that one price serves all of them.
    """
    edges = {edge: matrix.copy() for edge, matrix in edges.items()}
    groups: dict[object, list[tuple[int, int]]] = {}
    for edge in edges:
        groups.setdefault(alike.get(edge, edge), []).append(edge)
    known: set[Pair] = set()
    best: Solution | None = None
    done = 0
    while True:
        done += 1
        choice = cheapest(nodes, edges)
        picked = {((i, j), choice.options[i], choice.options[j]) for i, j in edges}
        if picked <= known:
            return choice
        for edge, first, second in _with_neighbours(picked - known, nodes, edges):
            if (edge, first, second) not in known:
                found = exact(edge, first, second)
                for other in groups[alike.get(edge, edge)]:
                    edges[other][first, second] = found
                    known.add((other, first, second))
        cost = _cost(nodes, edges, choice.options)
        if best is None or cost < best.cost:
            best = Solution(choice.options, cost, choice.bound, False)
        if best.cost - choice.bound <= tolerance * best.cost or done == rounds:
            proven = choice.proven and best.cost <= choice.bound
            return replace(best, bound=choice.bound, proven=proven)


def _with_neighbours(
    picked: Iterable[Pair], nodes: Sequence[Costs], edges: Mapping[tuple[int, int], Costs]
) -> Iterator[Pair]:
    """The picked pairs, each with the cheapest pairs that share one of its options and are likely
    to be chosen next.
    """
    for (i, j), first, second in picked:
        yield (i, j), first, second
        matrix = edges[i, j]
        for other in np.argsort(matrix[first] + nodes[j])[:_NEIGHBOURS].tolist():
            yield (i, j), first, other
        for other in np.argsort(matrix[:, second] + nodes[i])[:_NEIGHBOURS].tolist():
            yield (i, j), other, second


def _cost(
    nodes: Sequence[Costs], edges: Mapping[tuple[int, int], Costs], options: Sequence[int]
) -> float:
    """Total cost of one option for each node."""
    own = sum(float(nodes[i][option]) for i, option in enumerate(options))
    return own + sum(float(matrix[options[i], options[j]]) for (i, j), matrix in edges.items())


class _Elimination:
    """Remaining nodes and the matrices to their neighbours, a node's own options along axis 0."""

    def __init__(self, nodes: Sequence[Costs], edges: Mapping[tuple[int, int], Costs]) -> None:
        self._own = dict(enumerate(nodes))
        self._to: dict[int, dict[int, Costs]] = {node: {} for node in self._own}
        self._gone: list[tuple[int, Costs, dict[int, Costs]]] = []
        self._settled: dict[int, int] = {}
        for (i, j), matrix in edges.items():
            self._join(i, j, matrix)

    def run(self) -> bool:
        """Eliminate all nodes; returns True if the choice is proven optimal."""
        waiting = [self._turn(node) for node in self._own]
        heapify(waiting)
        while self._own:
            degree, _, node = heappop(waiting)
            if node not in self._own or degree != len(self._to[node]):
                continue  # stale entry: the node was queued again when it lost a neighbour
            if degree > 2:
                settled, proven = choose_by_tables(self._own, self._to), True
                if settled is None:
                    settled, proven = choose_remainder(self._own, self._to)
                self._settled = settled
                return proven
            neighbours = [*self._to[node]]
            self._eliminate(node)
            for other in neighbours:
                heappush(waiting, self._turn(other))
        return True

    def _turn(self, node: int) -> tuple[int, int, int]:
        """Priority in the elimination: fewest neighbours first, then fewest options."""
        return len(self._to[node]), self._own[node].size, node

    def chosen(self) -> tuple[int, ...]:
        """The option of each node, chosen in reverse order of elimination."""
        found = dict(self._settled)
        for node, own, neighbours in reversed(self._gone):
            costs = own + sum(matrix[:, found[other]] for other, matrix in neighbours.items())
            found[node] = int(np.argmin(costs))
        return tuple(found[node] for node in sorted(found))

    def _eliminate(self, node: int) -> None:
        own, neighbours = self._own.pop(node), self._to.pop(node)
        for other in neighbours:
            del self._to[other][node]
        self._gone.append((node, own, neighbours))
        match list(neighbours.items()):
            case [(other, matrix)]:
                self._own[other] = self._own[other] + (own[:, None] + matrix).min(axis=0)
            case [(one, first), (other, second)]:
                self._join(one, other, compiled_tables.least_sums((own[:, None] + first).T, second))
            case _:
                pass

    def _join(self, i: int, j: int, matrix: Costs) -> None:
        present = self._to[i].get(j)
        total = matrix if present is None else present + matrix
        self._to[i][j], self._to[j][i] = total, total.T
