"""Placement of parts on cores: parts are assigned to the cores that already have their data.

In: a plan with part j of every layer on core j. Out: the divisions unchanged, with the parts of
each layer assigned to cores, layer after layer, so that as many operands as possible are local.
This is greedy: losses of later layers are ignored. For a chain, where each exchange depends on its
two layers alone, grids and cores are chosen together.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from ortools.graph.python.linear_sum_assignment import SimpleLinearSumAssignment

from tilewright.common.errors import PartitionError
from tilewright.partition.compiled import nearest_values
from tilewright.partition.grids import Regions
from tilewright.partition.moves import Held, held, needs
from tilewright.partition.plan import ChoiceCosts, PartitionPlan, Planned
from tilewright.partition.solve import independent_bound, refined
from tilewright.partition.volumes import sizes


def placed(plan: PartitionPlan) -> PartitionPlan:
    """The plan with its parts assigned to cores, or the plan itself if that moves no less."""
    owners: dict[str, Held] = {}
    found = []
    for planned in plan.layers:
        common = _common(planned, owners, plan.cores)
        cores = _assigned(common)[: len(planned.division.parts)]
        here = tuple(cores)
        activations = _read_values(planned, owners) - int(common[np.arange(len(here)), here].sum())
        volume = replace(planned.volume, activations=activations)
        found.append(replace(planned, cores=here, volume=volume))
        owners[planned.layer.output] = held(planned.division, here)
    saved = plan.volume.activations - sum(one.volume.activations for one in found)
    return replace(plan, layers=tuple(found)) if saved > 0 else plan


def placed_plan(space: ChoiceCosts) -> PartitionPlan:
    """A plan with its parts placed. For a chain it is the cheapest; for other networks, the
    cheapest unplaced plan is placed afterwards, and nothing is proven of the result.
    """
    if all((source, number) == (number - 1, number) for source, number, _ in space.exchanges):
        return best_placed_plan(space)
    before = space.best()
    after = placed(before)
    saved = before.volume.activations - after.volume.activations
    nodes = [space.alone(number) for number in range(len(space.layers))]
    cost = before.cost - space.weights.activations * saved
    return replace(after, cost=cost, bound=independent_bound(nodes, {}), proven=False)


def best_placed_plan(space: ChoiceCosts) -> PartitionPlan:
    """The cheapest plan of a chain of layers over all grids and placements.

    In a chain, every exchange depends on the placement of its two layers alone. Its cost starts at
    a lower bound over all placements, and becomes exact once its pair of grids is chosen. Once all
    chosen pairs are exact, no other choice of grids costs less. Raises PartitionError where the
    layers are no chain.
    """
    nodes = [space.alone(number) for number in range(len(space.layers))]
    edges = {}
    for source, number, _ in space.exchanges:
        if (source, number) != (number - 1, number):
            raise PartitionError(
                f"layer {space.layers[number].name} reads more than the layer before it",
                fix="place a plan that is there: placed(plan)",
            )
        (_, need), kept = space.tables[number].needs[0], space.tables[source].kept
        least = sizes(need).sum(axis=1) - nearest_values(kept, need)
        edges[source, number] = space.weights.activations * least.astype(np.float64)

    def exact(edge: tuple[int, int], first: int, second: int) -> float:
        kept = space.tables[edge[0]].kept[first]
        need = space.tables[edge[1]].needs[0][1][second]
        common = _overlaps(need, kept)
        best = common[np.arange(len(common)), _assigned(common)].sum()
        return space.weights.activations * float(sizes(need).sum() - best)

    bound = independent_bound(nodes, edges)
    return placed(space.chosen(refined(nodes, edges, exact), bound))


def _overlaps(need: Regions, kept: Regions) -> NDArray[np.int64]:
    """Values that a part reads and a core keeps, (part, core), for one grid of each layer."""
    start = np.maximum(need[:, None, :, 0], kept[None, :, :, 0])
    stop = np.minimum(need[:, None, :, 1], kept[None, :, :, 1])
    return sizes(np.stack([start, stop], axis=-1))


def _common(planned: Planned, owners: dict[str, Held], cores: int) -> NDArray[np.int64]:
    """Values that a part reads and a core owns, (part, core), over all operands of a layer."""
    found = np.zeros((cores, cores), np.int64)
    for name, wanted in needs(planned.layer, planned.division).items():
        for core, region in owners[name].owners if name in owners else ():
            for part, box in wanted:
                found[part, core] += (region & box).size
    return found


def _read_values(planned: Planned, owners: dict[str, Held]) -> int:
    """Number of values that all parts read of other layers' results."""
    wanted = needs(planned.layer, planned.division)
    return sum(box.size for name in wanted if name in owners for _, box in wanted[name])


def _assigned(common: NDArray[np.int64]) -> list[int]:
    """The core of each part in the assignment that makes the most values local."""
    problem = SimpleLinearSumAssignment()
    left, right = np.indices(common.shape)
    problem.add_arcs_with_cost(left.ravel(), right.ravel(), -common.ravel())
    problem.solve()
    return [problem.right_mate(part) for part in range(len(common))]
