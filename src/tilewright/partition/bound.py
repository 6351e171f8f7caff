"""Bounds: what a plan costs at least that takes a given grid.

In: the outlines of all grids of all layers. Out: for each layer a cost for each grid, below that of
every plan with it. Costs go forward from layer to layer, each in equal parts to the exchanges that
read it; what is more than least goes back in the same way. On a chain both are dynamic programming
over the bounds of all pairs; where branches join again the bound is a lower one, and still one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.partition.compiled import least_received, least_sent
from tilewright.partition.grids import Integers, first_of_each

Costs = NDArray[np.float64]
Exchange = tuple[int, int, int]
"""Numbers of the layer that makes a tensor, of the one that reads it, and of its operand."""


@dataclass(frozen=True)
class Classes:
    """Grids that are alike to an exchange: a row of numbers for each class, and that of each
    grid.
    """

    rows: Integers
    of: NDArray[np.intp]

    @classmethod
    def among(cls, rows: Integers) -> Classes:
        """The different rows."""
        first, of = first_of_each(rows)
        return cls(rows[first], of)

    def least(self, costs: Costs) -> Costs:
        """The least of the grids of each class."""
        found = np.full(len(self.rows), np.inf)
        np.minimum.at(found, self.of, costs)
        return found


def least_costs(
    alone: Sequence[Costs],
    kept: Sequence[Classes],
    needs: Mapping[Exchange, Classes],
    prices: Costs,
) -> list[Costs]:
    """For each grid of each layer, a lower bound on the cost of any plan with it. `alone` is the
    grid's cost by itself; `kept` and `needs` are the rows of `least_received`. Exchanges come in
    the order of their readers, and layers behind those that they read.
    """
    reads, read_by = defaultdict[int, list[Exchange]](list), defaultdict[int, list[Exchange]](list)
    for exchange in needs:
        read_by[exchange[0]].append(exchange)
        reads[exchange[1]].append(exchange)
    through: list[Costs] = []
    received: dict[Exchange, Costs] = {}
    for number, own in enumerate(alone):
        costs = own.copy()
        for exchange in reads[number]:
            source = exchange[0]
            given = kept[source].least(through[source] / len(read_by[source]))
            need = needs[exchange]
            received[exchange] = least_received(given, kept[source].rows, need.rows, prices)
            costs += received[exchange][need.of]
        through.append(costs)
    ends = [number for number in range(len(alone)) if not read_by[number]]
    bound = float(sum(through[number].min() for number in ends))
    more: list[Costs] = [np.zeros(0)] * len(alone)
    for number in reversed(range(len(alone))):
        if number in ends:
            more[number] = through[number] - through[number].min()
            continue
        total = np.zeros(len(alone[number]))
        for exchange in read_by[number]:
            reader, need = exchange[1], needs[exchange]
            behind = need.least(more[reader] / len(reads[reader])) - received[exchange]
            sent = least_sent(behind, kept[number].rows, need.rows, prices)
            total += through[number] / len(read_by[number]) + sent[kept[number].of]
        more[number] = total
    return [bound + own for own in more]
