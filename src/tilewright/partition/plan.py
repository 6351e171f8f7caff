"""The best division of every layer of a network together.

In: layers, a number of cores, what is to be least, and how much work a core may have. Out: a
`Plan`. Every layer may be divided in each way that the strategies give and the limit allows; what
moves between two layers depends on both. The choice is optimal in that space (`solve`); the bound
beside it takes every layer and every exchange at its own best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import PartitionError
from tilewright.partition.division import Division, Grid, divide
from tilewright.partition.layers import Layer
from tilewright.partition.solve import Choice, cheapest, independent_bound
from tilewright.partition.strategies import find_strategy
from tilewright.partition.volumes import Integers, Options, moved, options, selected, sizes

REFERENCE = "output_tiles"
"""The strategy whose busiest core the limit on work refers to: that of the BWDSP paper."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Weights:
    """What one value counts of each kind that moves."""

    activations: float = 1.0
    weights: float = 1.0
    sums: float = 1.0


@dataclass(frozen=True)
class Volume:
    """Values that move in a layer, each counted once for each core that gets it.

    `activations` are what cores take from others of what other layers made, `inputs` what they take
    of the network's own, `weights` what they load of those, `sums` the partial sums exchanged.
    """

    activations: int = 0
    inputs: int = 0
    weights: int = 0
    sums: int = 0

    def __add__(self, other: Volume) -> Volume:
        """Both together."""
        return Volume(
            self.activations + other.activations,
            self.inputs + other.inputs,
            self.weights + other.weights,
            self.sums + other.sums,
        )


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
class Plan:
    """A division of every layer. `bound` is below what any plan costs that chooses from the same
    divisions; `proven` where none of them costs less than this one.
    """

    cores: int
    layers: tuple[Planned, ...]
    cost: float
    bound: float
    proven: bool
    considered: int = 0

    @property
    def volume(self) -> Volume:
        """All layers together."""
        return sum((planned.volume for planned in self.layers), Volume())


Named = tuple[str, Grid]
"""A grid, and the strategy that gave it."""


def fixed_plan(layers: Sequence[Layer], cores: int, strategy: str) -> Plan:
    """Every layer as one strategy divides it first. Raises PartitionError where it does not."""
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
    return given_plan(layers, cores, choices)


def given_plan(layers: Sequence[Layer], cores: int, choices: Sequence[Named]) -> Plan:
    """Every layer along the grid given for it, of at most `cores` cells."""
    return Space(layers, [[choice] for choice in choices], cores, Weights(), None).best()


def best_plan(
    layers: Sequence[Layer],
    cores: int,
    weights: Weights = Weights(),
    *,
    most_work: float | None = 1.0,
    strategies: Sequence[str] = ("products", REFERENCE),
) -> Plan:
    """The cheapest division of all layers over at most `cores` cores.

    `most_work` is what the busiest core may have to do, as a multiple of what it has under the
    BWDSP paper's strategy; None for any. Raises PartitionError where no division is that even.
    """
    return space(layers, cores, weights, most_work=most_work, strategies=strategies).best()


def space(
    layers: Sequence[Layer],
    cores: int,
    weights: Weights = Weights(),
    *,
    most_work: float | None = 1.0,
    strategies: Sequence[str] = ("products", REFERENCE),
) -> Space:
    """What `best_plan` chooses from."""
    made: dict[object, list[Named]] = {}
    for layer in layers:
        if layer.shape_key not in made:
            made[layer.shape_key] = grids(layer, cores, strategies, most_work)
    choices = [made[layer.shape_key] for layer in layers]
    return Space(layers, choices, cores, weights, most_work)


def grids(
    layer: Layer, cores: int, strategies: Sequence[str], most_work: float | None
) -> list[Named]:
    """The grids of a layer whose largest cell is at most `most_work` of the reference's."""
    limit = _limit(layer, cores, most_work)
    found: dict[Grid, str] = {}
    for name in strategies:
        for grid in find_strategy(name).grids(layer, cores):
            if _least_work(layer, grid) <= limit:
                found.setdefault(grid, name)
    return [(name, grid) for grid, name in found.items()]


def _limit(layer: Layer, cores: int, most_work: float | None) -> float:
    """The part of a layer's work that one core may have."""
    return math.inf if most_work is None else most_work * reference_work(layer, cores) + _ROUNDING


def reference_work(layer: Layer, cores: int) -> float:
    """The part of a layer's work that the busiest core has under the BWDSP paper's strategy."""
    return float(options(layer, list(find_strategy(REFERENCE).grids(layer, cores)), cores).work[0])


def _least_work(layer: Layer, grid: Grid) -> float:
    """The largest cell as a part of all, whatever more it has to compute."""
    extents = (*layer.shape, *(layer.op.terms if grid.terms else ()))
    cuts = (*grid.result, *grid.terms)
    longest = (max(b - a for a, b in cut) / n for cut, n in zip(cuts, extents, strict=True))
    return math.prod(longest)


@dataclass
class Space:
    """The costs of all choices: a vector for each layer, a matrix for each exchange."""

    layers: Sequence[Layer]
    choices: Sequence[list[Named]]
    cores: int
    weights: Weights
    most_work: float | None
    tables: list[Options] = field(default_factory=list)
    exchanges: dict[tuple[int, int, int], Integers] = field(default_factory=dict)

    def __post_init__(self) -> None:
        made: dict[object, Options] = {}
        pairs: dict[object, Integers] = {}
        at = {layer.output: number for number, layer in enumerate(self.layers)}
        for number, (layer, choice) in enumerate(zip(self.layers, self.choices, strict=True)):
            key = (layer.shape_key, id(choice))
            if key not in made:
                made[key] = self._options(layer, choice)
            table = made[key]
            self.tables.append(table)
            for operand, (name, need) in enumerate(_named(layer, table)):
                if name not in at:
                    continue
                source = at[name]
                both = (id(self.tables[source]), id(table), operand)
                if both not in pairs:
                    pairs[both] = moved(self.tables[source].kept, need)
                self.exchanges[source, number, operand] = pairs[both]

    def _options(self, layer: Layer, choice: Sequence[Named]) -> Options:
        """The choices that keep to the limit; some compute more than their own cell."""
        limit = _limit(layer, self.cores, self.most_work)
        table = options(layer, [grid for _, grid in choice], self.cores) if choice else None
        kept = np.flatnonzero(table.work <= limit) if table else ()
        if table is None or not len(kept):
            raise PartitionError(
                f"layer {layer.name}: no division over {self.cores} cores gives each at most "
                f"{limit:.4g} of the work",
                fix="allow more work of one core, or more strategies",
            )
        return selected(table, np.asarray(kept, np.intp))

    def best(self) -> Plan:
        """The plan that costs least."""
        nodes = [self.alone(table) for table in self.tables]
        edges: dict[tuple[int, int], NDArray[np.float64]] = {}
        for (source, number, _), matrix in self.exchanges.items():
            costs = matrix.astype(np.float64) * self.weights.activations
            present = edges.get((source, number))
            edges[source, number] = costs if present is None else present + costs
        choice = cheapest(nodes, edges)
        return self.chosen(choice, independent_bound(nodes, edges))

    def alone(self, table: Options) -> NDArray[np.float64]:
        """What each grid of a layer costs by itself."""
        found: NDArray[np.float64] = (
            self.weights.weights * table.weights + self.weights.sums * table.sums
        )
        return found

    def chosen(self, choice: Choice, bound: float) -> Plan:
        """The plan of one grid for each layer."""
        return Plan(
            self.cores,
            tuple(self._planned(i, choice.options) for i in range(len(self.layers))),
            choice.cost,
            bound,
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
        made = {layer.output for layer in self.layers}
        loaded = sum(
            int(sizes(need[own]).sum()) for name, need in _named(layer, table) if name not in made
        )
        volume = Volume(between, loaded, int(table.weights[own]), int(table.sums[own]))
        cores = tuple(range(len(division.shares)))
        return Planned(layer, division, cores, volume, float(table.work[own]))


def _named(layer: Layer, table: Options) -> list[tuple[str, Integers]]:
    """The regions that are needed, by the names that this layer reads: the table may be that of
    another layer with the same operators.
    """
    names = [name for name in layer.steps[0].operands if name in layer.reads]
    return [(name, need) for name, (_, need) in zip(names, table.needs, strict=True)]
