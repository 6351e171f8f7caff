"""The best division of every layer of a network together.

In: layers, a number of cores, what is to be least, and how much work a core may have. Out: a
`PartitionPlan`. Every layer may be divided in each way that the strategies give and the limit
allows; what moves between two layers depends on both. The choice is optimal in that space
(`solve`); the bound beside it takes every layer and every exchange at its own best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tilewright.common.errors import PartitionError
from tilewright.common.progress import Steps, uncounted
from tilewright.partition.capacity import fitting
from tilewright.partition.choices import PLANNED, Choices, choices_of
from tilewright.partition.core_model import CoreModel, Cycles
from tilewright.partition.division import Division, Regions, divide
from tilewright.partition.layers import Layer
from tilewright.partition.moves import Exchanges, held, moves, needs, reductions
from tilewright.partition.objective import WITHOUT_INPUTS, Volume, Weights
from tilewright.partition.recomputed import Named, with_recomputed
from tilewright.partition.solve import Choice, cheapest, independent_bound, refined
from tilewright.partition.strategies import find_strategy
from tilewright.partition.volumes import (
    Integers,
    Options,
    exchange_cycles,
    least_exchange_cycles,
    loaded,
    moved,
    options,
    selected,
)

_TOLERANCE = 0.01
"""How much more than its bound a plan may cost in which cycles count, as a part of its cost."""
_ROUNDS = 32
"""How often exchanges are found out for another choice."""


@dataclass(frozen=True)
class Planned:
    """How one layer is divided; share j is that of core `cores[j]`. `work` is what the busiest core
    computes as a part of the layer's operations.
    """

    layer: Layer
    division: Division
    cores: tuple[int, ...]
    volume: Volume
    work: float


@dataclass(frozen=True)
class PartitionPlan:
    """A division of every layer. `bound` is below what any plan costs that chooses from the same
    divisions; `proven` where none of them costs less than this one.
    """

    cores: int
    layers: tuple[Planned, ...]
    cost: float
    bound: float
    proven: bool
    considered: int = 0

    @cached_property
    def exchanges(self) -> tuple[Exchanges, ...]:
        """What is sent in each layer."""
        have = {one.layer.output: held(one.division, one.cores) for one in self.layers}
        return tuple(
            Exchanges(
                tuple(
                    (name, moves(have[name], wanted))
                    for name, wanted in needs(one.layer, one.division, one.cores).items()
                    if name in have
                ),
                reductions(one.layer, one.division, one.cores),
            )
            for one in self.layers
        )

    @property
    def volume(self) -> Volume:
        """All layers together."""
        return sum((planned.volume for planned in self.layers), Volume())


Exchange = tuple[int, int, int]
"""Numbers of the layer that makes a tensor, of the one that reads it, and of its operand."""


def fixed_plan(
    layers: Sequence[Layer],
    cores: int,
    strategy: str,
    model: CoreModel | None = None,
    weights: Weights = WITHOUT_INPUTS,
) -> PartitionPlan:
    """Every layer as one strategy divides it first. Raises PartitionError where it does not, or
    where a share does not fit the buffers of `model`.
    """
    found = find_strategy(strategy)
    choices: list[Named] = []
    for layer in layers:
        grid = next(found.grids(layer, cores), None)
        if grid is None:
            raise PartitionError(
                f"layer {layer.name} ({layer.op.describe()}) is not divided by {strategy!r}",
                fix="take another strategy, or let the planner choose",
            )
        choices.append((strategy, grid))
    return given_plan(layers, cores, choices, model, weights)


def given_plan(
    layers: Sequence[Layer],
    cores: int,
    choices: Sequence[Named],
    model: CoreModel | None = None,
    weights: Weights = WITHOUT_INPUTS,
) -> PartitionPlan:
    """Every layer along the grid given for it, of at most `cores` cells."""
    given = [[choice] for choice in choices]
    return Space(layers, given, [math.inf] * len(layers), cores, weights, model).best()


def best_plan(
    layers: Sequence[Layer],
    cores: int,
    weights: Weights = WITHOUT_INPUTS,
    *,
    most_work: float | None = 1.0,
    strategies: Sequence[str] = PLANNED,
    model: CoreModel | None = None,
    recompute: bool = False,
    steps: Steps = uncounted,
) -> PartitionPlan:
    """The cheapest division of all layers over at most `cores` cores.

    `most_work` is what the busiest core may have to do, as a multiple of what it has under the
    BWDSP paper's strategy, or by the most even grid of `strategies` where that is more; None for
    any. A layer that no strategy divides is divided by output channels, or not at all. With the
    `model` of a machine shares fit its buffers, and cycles may count. With `recompute` cores may
    compute the halos of the next layer themselves. `steps` counts the layers whose divisions are
    priced. Raises PartitionError where no division is that even, or none fits.
    """
    found = space(layers, cores, weights, most_work=most_work, strategies=strategies, model=model,
                  recompute=recompute, steps=steps)  # fmt: skip
    return found.best()


def space(
    layers: Sequence[Layer],
    cores: int,
    weights: Weights = WITHOUT_INPUTS,
    *,
    most_work: float | None = 1.0,
    strategies: Sequence[str] = PLANNED,
    model: CoreModel | None = None,
    recompute: bool = False,
    steps: Steps = uncounted,
) -> Space:
    """What `best_plan` chooses from."""
    made: dict[object, Choices] = {}
    for layer in layers:
        if layer.shape_key not in made:
            made[layer.shape_key] = choices_of(layer, cores, strategies, most_work)
    every = [made[layer.shape_key] for layer in layers]
    grids = [one.grids for one in every]
    if recompute and not (model and model.multicasts):
        grids = with_recomputed(layers, grids, cores)
    limits = [one.limit for one in every]
    free = tuple(strategies) == PLANNED
    return Space(layers, grids, limits, cores, weights, model, free, steps)


@dataclass
class Space:
    """The costs of all choices: a vector for each layer, a matrix for each exchange.

    `limits` are the parts of each layer's work that one core may have; `free` where the planner
    chooses from all that it knows. `needs` are the regions that an exchange is about. What
    exchanges take starts at what none takes less than (`least_cycles`), and is found out for those
    that are chosen.
    """

    layers: Sequence[Layer]
    choices: Sequence[list[Named]]
    limits: Sequence[float]
    cores: int
    weights: Weights
    model: CoreModel | None = None
    free: bool = False
    steps: Steps = uncounted
    tables: list[Options] = field(default_factory=list)
    exchanges: dict[Exchange, Integers] = field(default_factory=dict)
    needs: dict[Exchange, Regions] = field(default_factory=dict)
    least_cycles: dict[Exchange, Cycles] = field(default_factory=dict)

    def __post_init__(self) -> None:
        made: dict[object, Options] = {}
        pairs: dict[object, tuple[Integers, Cycles | None]] = {}
        at = {layer.output: number for number, layer in enumerate(self.layers)}
        for number, (layer, choice) in enumerate(zip(self.layers, self.choices, strict=True)):
            key = (layer.shape_key, id(choice))
            if key not in made:
                made[key] = self._options(layer, choice, self.limits[number])
            table = made[key]
            self.tables.append(table)
            for operand, (name, need) in enumerate(_named(layer, table)):
                if name not in at:
                    continue
                source = at[name]
                both = (id(self.tables[source]), id(table), operand)
                if both not in pairs:
                    pairs[both] = self._exchange(self.tables[source].kept, need)
                exchange = source, number, operand
                self.needs[exchange] = need
                self.exchanges[exchange], cycles = pairs[both]
                if cycles is not None:
                    self.least_cycles[exchange] = cycles
            self.steps(number + 1, len(self.layers))

    def _options(self, layer: Layer, choice: Sequence[Named], limit: float) -> Options:
        """The choices that keep to the limit, for some compute more than their own cell, and that
        fit the buffers.
        """
        given = [grid for _, grid in choice]
        table = options(layer, given, self.cores, self.model) if choice else None
        kept = np.flatnonzero(table.work <= limit) if table else ()
        if table is None or not len(kept):
            raise PartitionError(
                f"layer {layer.name}: no division over {self.cores} cores gives each at most "
                f"{limit:.4g} of the work",
                fix="allow more work of one core, or more strategies",
            )
        table = selected(table, np.asarray(kept, np.intp))
        if self.model is None:
            return table
        return selected(table, np.flatnonzero(fitting(layer, table, self.model, self._other_grids)))

    @property
    def _other_grids(self) -> str:
        """How to get grids that are not among the choices."""
        if self.free:
            return "allow one core more work (--most-work)"
        return "take another strategy, or let the planner choose"

    def _exchange(self, kept: Regions, need: Regions) -> tuple[Integers, Cycles | None]:
        """Values and, where cycles count, what is below the cycles of each pair of grids."""
        if self.model is None:
            return moved(kept, need), None
        least = least_exchange_cycles(kept, need, self.model) if self.weights.cycles else None
        return moved(kept, need, self.model.multicasts), least

    def best(self) -> PartitionPlan:
        """The plan that costs least."""
        nodes = [self.alone(number) for number in range(len(self.layers))]
        edges: dict[tuple[int, int], Cycles] = {}
        for exchange, matrix in self.exchanges.items():
            costs = matrix.astype(np.float64) * self.weights.activations
            if exchange in self.least_cycles:
                costs += self.weights.cycles * self.least_cycles[exchange]
            edge = exchange[:2]
            edges[edge] = edges[edge] + costs if edge in edges else costs
        bound = independent_bound(nodes, edges)
        if not self.least_cycles:
            return self.chosen(cheapest(nodes, edges), bound)
        alike = self._alike()
        return self.chosen(refined(nodes, edges, self._exact, _TOLERANCE, _ROUNDS, alike), bound)

    def _alike(self) -> dict[tuple[int, int], object]:
        """What edges have in common whose exchanges are between the same grids of equal layers."""
        found: dict[tuple[int, int], tuple[tuple[int, int, int], ...]] = {}
        for source, number, operand in self.exchanges:
            same = id(self.tables[source]), id(self.tables[number]), operand
            edge = source, number
            found[edge] = (*found.get(edge, ()), same)
        return dict(found)

    def alone(self, number: int) -> Cycles:
        """What each grid of a layer costs by itself."""
        table, weights = self.tables[number], self.weights
        inputs = self._inputs(number)
        values = weights.weights * table.weights + weights.sums * table.sums
        found: Cycles = values + weights.inputs * inputs
        if self.model is None or not weights.cycles:
            return found
        model, flops = self.model, self.layers[number].op.flops
        computing = table.work * flops / model.flops_per_cycle
        loading = model.load_cycles(table.weights + inputs)
        return found + weights.cycles * (computing + loading + table.sums_cycles)

    def _inputs(self, number: int) -> Integers:
        """What each grid of a layer takes of the network's own inputs."""
        table, made = self.tables[number], {layer.output for layer in self.layers}
        multicast = self.model is not None and self.model.multicasts
        named = _named(self.layers[number], table)
        inputs = (loaded(need, multicast) for name, need in named if name not in made)
        return sum(inputs, np.zeros(len(table.grids), np.int64))

    def _exact(self, edge: tuple[int, int], first: int, second: int) -> float:
        """What the exchanges of an edge cost between two grids."""
        found = 0.0
        for exchange, matrix in self.exchanges.items():
            if exchange[:2] == edge:
                found += self.weights.activations * float(matrix[first, second])
                found += self.weights.cycles * self._cycles(exchange, first, second)
        return found

    def _cycles(self, exchange: Exchange, first: int, second: int) -> float:
        assert self.model is not None, "cycles count on a machine only"
        table, one = self.tables[exchange[0]], slice(first, first + 1)
        need = self.needs[exchange][second : second + 1]
        return float(exchange_cycles(table.owned[one], table.kept[one], need, self.model)[0, 0])

    def chosen(self, choice: Choice, bound: float) -> PartitionPlan:
        """The plan of one grid for each layer."""
        return PartitionPlan(
            self.cores,
            tuple(self._planned(i, choice.options) for i in range(len(self.layers))),
            choice.cost,
            bound if choice.proven else max(bound, choice.bound),
            choice.proven,
            sum(len(table.grids) for table in self.tables),
        )

    def _planned(self, number: int, chosen: Sequence[int]) -> Planned:
        layer, table, own = self.layers[number], self.tables[number], chosen[number]
        names = {grid: name for name, grid in self.choices[number]}
        division = divide(layer, table.grids[own], names[table.grids[own]])
        between = sum(
            int(matrix[chosen[source], own])
            for (source, to, _), matrix in self.exchanges.items()
            if to == number
        )
        inputs = int(self._inputs(number)[own])
        volume = Volume(between, inputs, int(table.weights[own]), int(table.sums[own]))
        cores = tuple(range(len(division.shares)))
        return Planned(layer, division, cores, volume, float(table.work[own]))


def _named(layer: Layer, table: Options) -> list[tuple[str, Integers]]:
    """The regions that are needed, by the names that this layer reads: the table may be that of
    another layer with the same operators.
    """
    names = [name for name in layer.steps[0].operands if name in layer.reads]
    return [(name, need) for name, (_, need) in zip(names, table.needs, strict=True)]
