"""The best division of every layer of a network together.

In: layers, a number of cores, an objective, and a limit on a core's work. Out: a `PartitionPlan`.
The space holds, for every layer, all divisions of the strategies that keep to the limit; the values
that move between two layers depend on both divisions. The choice is optimal in that space
(`solve`); its bound sums the minima of every layer and every exchange.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import PartitionError
from tilewright.common.progress import Steps, uncounted
from tilewright.ops.box import Box
from tilewright.partition.grids import (
    COLUMNS,
    IMAGES,
    ROWS,
    Cut,
    Grid,
    Grids,
    Integers,
    Regions,
    undivided,
)
from tilewright.partition.layers import Layer
from tilewright.partition.moves import Exchanges, held, moves_to, needs, reductions
from tilewright.partition.objective import WITHOUT_INPUTS, CoreModel, Cycles, Volume, Weights
from tilewright.partition.parts import Division, Task, divide, tasks_of, work_of
from tilewright.partition.promising import Exchange, promising
from tilewright.partition.solve import Solution, cheapest, independent_bound, refined
from tilewright.partition.strategies import (
    EQUAL,
    PLANNED,
    Choices,
    choices_of,
    find_strategy,
    given,
)
from tilewright.partition.volumes import (
    GridArrays,
    exchange_cycles_by_grids,
    grid_options,
    least_exchange_cycles,
    loaded,
    moved_values,
    selected,
)

_SEARCHED = (256, 1024, 4096)
"""Numbers of cores, in order, up to which `_way_out` searches for a grid that fits."""
_TOGETHER = 32
"""Grids that the search evaluates at once."""


def fitting(
    layer: Layer, table: GridArrays, model: CoreModel, other_grids: str
) -> NDArray[np.bool_]:
    """Mask of the table's grids that fit the buffers. Raises PartitionError if none does; its
    advice is `other_grids` if a grid outside the table would fit these cores.

    A core's input occupies one buffer and its sums another. Weights stream through the input's
    buffer, which holds those of two output channels: one in use and the next.
    """
    found: NDArray[np.bool_] = table.buffers <= model.buffer_values
    if not found.any():
        least = int(table.buffers.argmin())
        taken = int(table.buffers[least]) * model.value_bytes
        grid = table.grids.grid(least).describe()
        raise PartitionError(
            f"layer {layer.name}: a core's part of a {grid} grid takes {taken} bytes, a buffer has "
            f"{model.buffer_values * model.value_bytes}",
            fix=_way_out(layer, model, table.kept.shape[1], other_grids),
        )
    return found


def _way_out(layer: Layer, model: CoreModel, machine_cores: int, other_grids: str) -> str:
    for cores in _SEARCHED:
        grid = _smallest(layer, model, cores)
        if grid is not None:
            found = f"the smallest grid that fits is {grid.describe()}: {_cores(grid.cells)}"
            if grid.cells > machine_cores:
                return found
            return f"{found}; {other_grids}"
    return f"no grid of up to {_SEARCHED[-1]} cores fits: give the cores larger buffers"


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"


def _smallest(layer: Layer, model: CoreModel, cores: int) -> Grid | None:
    """The grid with the fewest cells, at most `cores`, that fits. One cell of each grid is tested
    first, which rules out most grids, then all cells.
    """
    every = find_strategy("equal_products").grids(layer, cores)
    every = every[np.argsort(every.cells, kind="stable")]
    alone = grid_options(layer, _middles(every), 1)
    likely = every[alone.buffers <= model.buffer_values]
    for first in range(0, len(likely), _TOGETHER):
        grids = likely[slice(first, first + _TOGETHER)]
        fits = grid_options(layer, grids, int(grids.cells.max())).buffers <= model.buffer_values
        if fits.any():
            return grids.grid(int(fits.argmax()))
    return None


def _middles(grids: Grids) -> Grids:
    """The grids reduced to one cell each, the middle one of every cut."""
    cuts = tuple(tuple((c[len(c) // 2],) for c in own) for own in grids.cuts)
    return replace(grids, cuts=cuts)


RECOMPUTED = "recomputed"


def with_recomputed(
    layers: Sequence[Layer], choices: Sequence[Choices], cores: int
) -> list[Choices]:
    """The choices of each layer with overlapping grids added, computed from the last layer back:
    a layer's new grids depend on all grids of its reader.

    Cores of an overlapping grid compute the halos that their next layer reads: where a convolution
    or pooling is a layer's only reader, the two exchange nothing, halos are computed more than
    once, and the first layer reads more. Several layers in a row may be extended, the first with
    the widest halo: the tile pyramids of fused-layer accelerators (Alwani et al. 2016).
    """
    found = list(choices)
    readers = Counter(name for layer in layers for name in layer.reads)
    at = {layer.output: number for number, layer in enumerate(layers)}
    grown: dict[tuple[int, int], Choices] = {}
    for number in reversed(range(len(layers))):
        layer = layers[number]
        name = layer.reads[0] if len(layer.reads) == 1 else ""
        windows = layer.op.convolution or layer.op.pooling
        if name not in at or readers[name] > 1 or windows is None:
            continue
        source = at[name]
        both = id(found[number]), id(found[source])
        if both not in grown:
            more = list(dict.fromkeys(_grown(layer, layers[source], found[number].grids, cores)))
            more_grids = Grids.of(layers[source], more)
            grown[both] = found[source].beside(more_grids, RECOMPUTED) if more else found[source]
        found[source] = grown[both]
    return found


def _grown(layer: Layer, before: Layer, grids: Grids, cores: int) -> Iterator[Grid]:
    """Grids of the layer `before`, of at most `cores` cells, whose cells cover what cores read of
    it. There is one for each of `grids` that divides only rows and columns.
    """
    if len(before.shape) != IMAGES or len(layer.shape) != IMAGES:
        return
    read = cache(partial(_input_cuts, layer))
    whole, counts = undivided(before).result, grids.counts
    for grid in grids[(grids.cells > 1) & (grids.cells == counts[:, ROWS] * counts[:, COLUMNS])]:
        rows, columns = (read(d, grid.result[d]) for d in (ROWS, COLUMNS))
        if _covers(rows, before.shape[ROWS]) and _covers(columns, before.shape[COLUMNS]):
            found = Grid((*whole[:ROWS], rows, columns), (), grid.turned)
            if found.cells <= cores:
                yield found


def _input_cuts(layer: Layer, dimension: int, cuts: Cut) -> Cut:
    """The interval of the input that each interval of the result reads along `dimension`."""
    whole = Box.whole(layer.shape)
    found = []
    for side in cuts:
        ((_, box),) = layer.needed(layer.regions(whole.along(dimension, side))[0], None)
        found.append(box.sides[dimension])
    return tuple(found)


def _covers(cuts: Cut, extent: int) -> bool:
    """True if the intervals start in increasing order and cover `extent` without a gap."""
    starts = [start for start, _ in cuts]
    gaps = any(b[0] > a[1] for a, b in pairwise(cuts))
    increasing = starts == sorted(set(starts))
    return increasing and not gaps and cuts[0][0] == 0 and max(c[1] for c in cuts) == extent


_ROUNDS = 32
"""Most rounds of pricing the chosen exchanges exactly and choosing again."""


@dataclass(frozen=True)
class Planned:
    """Division of one layer, part j on core `cores[j]`. `work` is the busiest core's fraction."""

    layer: Layer
    division: Division
    cores: tuple[int, ...]
    volume: Volume
    work: float

    @cached_property
    def tasks(self) -> tuple[tuple[Task, ...], ...]:
        """The tasks of each part."""
        return tuple(tasks_of(self.layer, part) for part in self.division.parts)

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """Each part's fraction of the layer's operations."""
        return tuple(work_of(self.layer, part) for part in self.division.parts)


@dataclass(frozen=True)
class PartitionPlan:
    """A division of every layer. `bound` is a lower bound on the cost of any plan from the same
    divisions; `proven` if none of these costs less than this plan. `considered` counts all grids.
    """

    cores: int
    layers: tuple[Planned, ...]
    cost: float
    bound: float
    proven: bool
    considered: int = 0

    @cached_property
    def exchanges(self) -> tuple[Exchanges, ...]:
        """The exchanges of each layer."""
        have = {one.layer.output: held(one.division, one.cores) for one in self.layers}
        return tuple(
            Exchanges(
                tuple(
                    (name, moves_to(have[name], wanted))
                    for name, wanted in needs(one.layer, one.division, one.cores).items()
                    if name in have
                ),
                reductions(one.layer, one.division, one.cores),
            )
            for one in self.layers
        )

    @property
    def volume(self) -> Volume:
        """Sum of the layers' volumes."""
        return sum((planned.volume for planned in self.layers), Volume())


def fixed_plan(
    layers: Sequence[Layer],
    cores: int,
    strategy: str,
    model: CoreModel | None = None,
    weights: Weights = WITHOUT_INPUTS,
) -> PartitionPlan:
    """Every layer divided along the first grid of one strategy. Raises PartitionError where the
    strategy does not apply to a layer, or a part does not fit the buffers of `model`.
    """
    found = find_strategy(strategy)
    choices: list[tuple[str, Grid]] = []
    for layer in layers:
        grids = found.grids(layer, cores)
        if not len(grids):
            raise PartitionError(
                f"layer {layer.name} ({layer.op.describe()}) is not divided by {strategy!r}",
                fix="take another strategy, or let the planner choose",
            )
        choices.append((strategy, grids.grid(0)))
    return given_plan(layers, cores, choices, model, weights)


def given_plan(
    layers: Sequence[Layer],
    cores: int,
    choices: Sequence[tuple[str, Grid]],
    model: CoreModel | None = None,
    weights: Weights = WITHOUT_INPUTS,
) -> PartitionPlan:
    """Every layer divided along its own given grid, of at most `cores` cells; `choices` pairs each
    grid with the name of its strategy.
    """
    own = [given(layer, *choice) for layer, choice in zip(layers, choices, strict=True)]
    return ChoiceCosts(layers, own, cores, weights, model).best()


def space(
    layers: Sequence[Layer],
    cores: int,
    weights: Weights = WITHOUT_INPUTS,
    *,
    most_work: float | None = 1.0,
    strategies: Sequence[str] | None = None,
    model: CoreModel | None = None,
    recompute: bool = False,
    steps: Steps = uncounted,
) -> ChoiceCosts:
    """Divisions of all layers over at most `cores` cores; `best` returns the cheapest plan. Where
    grids are many, a bound prunes them.

    `most_work` limits the busiest core's work, as a multiple of its work under the BWDSP paper's
    strategy, or under the most even grid of `strategies` where that is more; None for no limit. A
    layer that no strategy divides is divided by output channels, or not at all. With a machine's
    `model`, parts fit its buffers and cycles may count. With `recompute`, cores may compute the
    halos of the next layer themselves. `steps` counts the layers whose divisions are priced. Raises
    PartitionError where no division keeps to the limit, or none fits.
    """
    free = strategies is None
    if strategies is None:
        slow = weights.cycles or recompute or (model and model.multicasts)
        strategies = EQUAL if slow else PLANNED
    made: dict[object, Choices] = {}
    for layer in layers:
        if layer.shape_key not in made:
            made[layer.shape_key] = choices_of(layer, cores, strategies, most_work)
    every = [made[layer.shape_key] for layer in layers]
    if recompute and not (model and model.multicasts):
        every = with_recomputed(layers, every, cores)
    some = promising(
        layers, every, cores, weights, model,
        lambda few: ChoiceCosts(layers, few, cores, weights, model, free).solved()[0].cost,
    )  # fmt: skip
    others, left_out = some.others, some.left_out
    return ChoiceCosts(layers, some.choices, cores, weights, model, free, steps, others, left_out)


@dataclass
class ChoiceCosts:
    """Costs of all choices: a vector for each layer, a matrix for each exchange.

    `free` if the planner chooses from its own strategies. `others` is a lower bound on the cost of
    any plan with one of the `left_out` grids that were pruned from `choices`. `exchanges` holds the
    values moved for each pair of grids, `needs` the regions that readers need. The cycles of an
    exchange start at a lower bound (`least_cycles`); exact ones are computed for chosen pairs only.
    """

    layers: Sequence[Layer]
    choices: Sequence[Choices]
    cores: int
    weights: Weights
    model: CoreModel | None = None
    free: bool = False
    steps: Steps = uncounted
    others: float = math.inf
    left_out: int = 0
    tables: list[GridArrays] = field(default_factory=list)
    numbers: list[NDArray[np.intp]] = field(default_factory=list)
    exchanges: dict[Exchange, Integers] = field(default_factory=dict)
    needs: dict[Exchange, Regions] = field(default_factory=dict)
    least_cycles: dict[Exchange, Cycles] = field(default_factory=dict)
    tolerance: float = 0.01
    """Accepted gap between a plan's cost and its bound, over the cost; used if cycles count."""

    def __post_init__(self) -> None:
        made: dict[object, tuple[NDArray[np.intp], GridArrays]] = {}
        pairs: dict[object, tuple[Integers, Cycles | None]] = {}
        at = {layer.output: number for number, layer in enumerate(self.layers)}
        for number, (layer, choice) in enumerate(zip(self.layers, self.choices, strict=True)):
            key = (layer.shape_key, id(choice))
            if key not in made:
                made[key] = self._options(layer, choice)
            numbers, table = made[key]
            self.numbers.append(numbers)
            self.tables.append(table)
            for operand, (name, need) in enumerate(read_regions(layer, table)):
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

    def _options(self, layer: Layer, choice: Choices) -> tuple[NDArray[np.intp], GridArrays]:
        """Indices and arrays of the grids that fit the buffers and keep to the limit on work, which
        is tested again because some cores compute more than their own cell.
        """
        timed, grids = bool(self.weights.cycles), choice.grids
        table = (
            grid_options(layer, grids, self.cores, self.model, timed=timed) if len(grids) else None
        )
        kept = np.flatnonzero(table.work <= choice.limit) if table else ()
        if table is None or not len(kept):
            raise PartitionError(
                f"layer {layer.name}: no division over {self.cores} cores gives each at most "
                f"{choice.limit:.4g} of the work",
                fix="allow more work of one core, or more strategies",
            )
        kept = np.asarray(kept, np.intp)
        if self.model is not None:
            found = fitting(layer, selected(table, kept), self.model, self._other_grids)
            kept = kept[found]
        return kept, table if len(kept) == len(table.grids) else selected(table, kept)

    @property
    def _other_grids(self) -> str:
        """Advice, in an error message, on how to admit grids that are not among the choices."""
        if self.free:
            return "allow one core more work (--most-work)"
        return "take another strategy, or let the planner choose"

    def _exchange(self, kept: Regions, need: Regions) -> tuple[Integers, Cycles | None]:
        """Values moved and, if cycles count, a lower bound on the cycles, per pair of grids."""
        if self.model is None:
            return moved_values(kept, need), None
        least = least_exchange_cycles(kept, need, self.model) if self.weights.cycles else None
        return moved_values(kept, need, self.model.multicasts), least

    def best(self) -> PartitionPlan:
        """The plan that costs least."""
        return self.chosen(*self.solved())

    def solved(self) -> tuple[Solution, float]:
        """The grid of each layer in the cheapest plan, and a lower bound over all plans."""
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
            return cheapest(nodes, edges), bound
        alike = self._alike()
        return refined(nodes, edges, self._exact, self.tolerance, _ROUNDS, alike), bound

    def _alike(self) -> dict[tuple[int, int], object]:
        """A key for each edge, equal for edges that join the same grids of equal layers."""
        found: dict[tuple[int, int], tuple[tuple[int, int, int], ...]] = {}
        for source, number, operand in self.exchanges:
            same = id(self.tables[source]), id(self.tables[number]), operand
            edge = source, number
            found[edge] = (*found.get(edge, ()), same)
        return dict(found)

    def alone(self, number: int) -> Cycles:
        """Cost of each grid of a layer without its exchanges of activations."""
        table, weights = self.tables[number], self.weights
        inputs, flops = self._inputs(number), self.layers[number].op.flops
        found = weights.alone(flops, table, inputs, self.model)
        return found if self.model is None else found + weights.cycles * table.sums_cycles

    def _inputs(self, number: int) -> Integers:
        """Values of the network's own inputs that each grid of a layer loads."""
        table, made = self.tables[number], {layer.output for layer in self.layers}
        multicast = self.model is not None and self.model.multicasts
        read = read_regions(self.layers[number], table)
        inputs = (loaded(need, multicast) for name, need in read if name not in made)
        return sum(inputs, np.zeros(len(table.grids), np.int64))

    def _exact(self, edge: tuple[int, int], first: int, second: int) -> float:
        """Cost of an edge's exchanges from grid `first` to grid `second`."""
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
        return float(
            exchange_cycles_by_grids(table.owned[one], table.kept[one], need, self.model)[0, 0]
        )

    def chosen(self, choice: Solution, bound: float) -> PartitionPlan:
        """The plan with the chosen grid of each layer. It is proven only if no grid that was left
        out can be part of a cheaper plan.
        """
        bound = bound if choice.proven else max(bound, choice.bound)
        proven = choice.proven and choice.cost <= self.others
        return PartitionPlan(
            self.cores,
            tuple(self._planned(i, choice.options) for i in range(len(self.layers))),
            choice.cost,
            bound if proven else min(choice.cost if choice.proven else bound, self.others),
            proven,
            sum(len(table.grids) for table in self.tables) + self.left_out,
        )

    def _planned(self, number: int, chosen: Sequence[int]) -> Planned:
        layer, table, own = self.layers[number], self.tables[number], chosen[number]
        strategy = self.choices[number].strategy(int(self.numbers[number][own]))
        division = divide(layer, table.grids.grid(own), strategy)
        between = sum(
            int(matrix[chosen[source], own])
            for (source, to, _), matrix in self.exchanges.items()
            if to == number
        )
        inputs = int(self._inputs(number)[own])
        owned = self.model is not None and self.model.own
        loaded = 0 if owned else int(table.weights[own])
        volume = Volume(between, inputs, loaded, int(table.sums[own]))
        cores = tuple(range(len(division.parts)))
        return Planned(layer, division, cores, volume, float(table.work[own]))


def read_regions(layer: Layer, table: GridArrays) -> list[tuple[str, Integers]]:
    """The needed regions of each tensor, by the names that this `layer` reads. The names in `table`
    may belong to another layer with equal operators.
    """
    names = [name for name in layer.steps[0].operands if name in layer.reads]
    return [(name, need) for name, (_, need) in zip(names, table.needs, strict=True)]
