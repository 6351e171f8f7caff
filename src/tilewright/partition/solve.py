"""The cheapest choice of one option per node, where pairs of neighbours cost something, too.

In: the costs of each node's options, and for each edge a matrix over the options of both ends. Out:
a choice that is optimal, or says that it may not be. Nodes with at most two neighbours are
eliminated one after the other (dynamic programming; a chain is nothing else), which leaves an edge
between the neighbours: networks whose branches join again vanish like that. What is left is a
problem for CP-SAT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.common.deferred import Deferred
from tilewright.partition.compiled import least_sums

if TYPE_CHECKING:
    from tilewright.partition import remainder
else:  # heavy: CP-SAT
    remainder = Deferred("tilewright.partition.remainder")

Costs = NDArray[np.float64]
Pair = tuple[tuple[int, int], int, int]
"""An edge, and an option of each of its ends."""
_NEIGHBOURS = 32
"""Options that are found out beside a chosen one."""


@dataclass(frozen=True)
class Choice:
    """An option for each node, their total cost, and a lower bound on that of any choice; `proven`
    if no other choice costs less.
    """

    options: tuple[int, ...]
    cost: float
    bound: float
    proven: bool


def cheapest(nodes: Sequence[Costs], edges: Mapping[tuple[int, int], Costs]) -> Choice:
    """The choice with the least sum of costs.

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
    return Choice(options, cost, cost if proven else least, proven)


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
) -> Choice:
    """The cheapest choice where what pairs cost is found out one by one: `edges` are what none
    costs less than. Pairs that are chosen take their `exact` cost, until all that are chosen have:
    then no other choice costs less. With a `tolerance` it may stop earlier, at a choice that costs
    at most so much more, as a part of its cost, than the bound of all choices; after so many
    `rounds` it stops at the best choice that it met. Edges of which `alike` says the same cost the
    same.
    """
    edges = {edge: matrix.copy() for edge, matrix in edges.items()}
    groups: dict[object, list[tuple[int, int]]] = {}
    for edge in edges:
        groups.setdefault(alike.get(edge, edge), []).append(edge)
    known: set[Pair] = set()
    best: Choice | None = None
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
            best = Choice(choice.options, cost, choice.bound, False)
        if best.cost - choice.bound <= tolerance * best.cost or done == rounds:
            proven = choice.proven and best.cost <= choice.bound
            return replace(best, bound=choice.bound, proven=proven)


def _with_neighbours(
    picked: Iterable[Pair], nodes: Sequence[Costs], edges: Mapping[tuple[int, int], Costs]
) -> Iterator[Pair]:
    """Pairs, and for each the cheapest others of one of its options: what is chosen next is likely
    to be among them.
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
    """Cost of a choice of one option for each node."""
    own = sum(float(nodes[i][option]) for i, option in enumerate(options))
    return own + sum(float(matrix[options[i], options[j]]) for (i, j), matrix in edges.items())


class _Elimination:
    """Nodes that are still there, with the matrices to their neighbours, own options first."""

    def __init__(self, nodes: Sequence[Costs], edges: Mapping[tuple[int, int], Costs]) -> None:
        self._own = dict(enumerate(nodes))
        self._to: dict[int, dict[int, Costs]] = {node: {} for node in self._own}
        self._gone: list[tuple[int, Costs, dict[int, Costs]]] = []
        self._settled: dict[int, int] = {}
        for (i, j), matrix in edges.items():
            self._join(i, j, matrix)

    def run(self) -> bool:
        """Eliminate all nodes; False if the choice of the remaining ones is not proven to be the
        cheapest.
        """
        while self._own:
            node = min(self._own, key=lambda n: (len(self._to[n]), self._own[n].size))
            if len(self._to[node]) > 2:
                self._settled, proven = remainder.choose_remainder(self._own, self._to)
                return proven
            self._eliminate(node)
        return True

    def chosen(self) -> tuple[int, ...]:
        """The option of each node: those that went last are chosen first."""
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
                through = np.ascontiguousarray((own[:, None] + first).T)
                self._join(one, other, least_sums(through, np.ascontiguousarray(second)))
            case _:
                pass

    def _join(self, i: int, j: int, matrix: Costs) -> None:
        present = self._to[i].get(j)
        total = matrix if present is None else present + matrix
        self._to[i][j], self._to[j][i] = total, total.T
