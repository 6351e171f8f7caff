"""Parts of a layer: a division gives each core one, and a part is one or two tasks.

In: a layer and a `Grid`. Out: a `Division` with one part for each cell; parts may differ in size,
and cores may have none. Of a part: its `Task`s, operators that follow each other on what the core
has. Parts of equal extents have equal tasks, wherever their boxes lie, so that a layer on many
cores has few different ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tilewright.common.progress import Progress, silent
from tilewright.ops.box import Box
from tilewright.ops.op import Array, Op
from tilewright.partition.grids import Grid, Grids, Regions, parts_in
from tilewright.partition.layers import Layer, computable, needed


class Owner(NamedTuple):
    """A core, by its number, and the box of a tensor that it has, gets or adds up."""

    core: int
    box: Box


@dataclass(frozen=True)
class Part:
    """Work of one core in a layer.

    It adds up the `terms` (all without them) of the region `summed` of the first step's result; of
    the layer's result it finishes and keeps the region `kept`. Where such regions overlap, others
    get from it what is `owned`.
    """

    kept: Box
    summed: Box
    owned: Box
    terms: Box | None = None


@dataclass(frozen=True)
class Division:
    """One way to divide a layer: part j is that of core j. `partial` where sums are divided."""

    strategy: str
    grid: Grid
    parts: tuple[Part, ...]

    @property
    def partial(self) -> bool:
        """True if cores exchange partial sums before they finish the result."""
        return self.grid.parts > 1

    @property
    def tile(self) -> tuple[int, ...]:
        """The extents of the largest region that a core sums up."""
        return max((part.summed.shape for part in self.parts), key=math.prod)


def divide(layer: Layer, grid: Grid, strategy: str) -> Division:
    """The division of `layer` along `grid`."""
    found = parts_in(Grids.of(layer, [grid]))
    parts = []
    every = zip(found.region, found.kept, found.owned, found.terms, strict=True)
    for region, kept, owned, terms in every:
        summed = layer.regions(box_of(region))[0]
        given = box_of(terms) if grid.parts > 1 else None
        parts.append(Part(box_of(kept), summed, box_of(owned), given))
    return Division(strategy, grid, tuple(parts))


def box_of(region: Regions) -> Box:
    """One box of an array."""
    return Box(tuple(region[:, 0].tolist()), tuple(region[:, 1].tolist()))


Operands = Sequence[Sequence[Array]]
"""The operands of each operator; of all but the first without the result of the one before."""


@dataclass(frozen=True)
class Task:
    """Operators of which each but the first takes the result of the one before and weights;
    `weights` says which operands of the first are weights.
    """

    ops: tuple[Op, ...]
    weights: tuple[bool, ...]


@dataclass(frozen=True)
class TaskTime:
    """Cycles of a task's programs on one core: those in which it computes, and all, where what is
    read and written passes its ports tile by tile.
    """

    compute_cycles: float
    streamed_cycles: float


Times = Mapping[Task, TaskTime]
"""The time of each task."""
Computes = Callable[[Task, Operands], Array]
"""The result of a task."""


class Programs(Protocol):
    """Programs that compute tasks on the cores of one machine."""

    def times(self, tasks: Mapping[Task, str], progress: Progress = silent) -> Times:
        """The time of each task; `tasks` gives each the name of a layer, for refusals."""

    def compute(self, task: Task, operands: Operands) -> Array:
        """The result of a task."""


def tasks_of(layer: Layer, part: Part) -> tuple[Task, ...]:
    """The tasks that a core computes of a layer: a single one if its sums are whole, else the sums,
    then the other steps on those sums that it finishes.
    """
    computed, regions = computable(layer.op, part.summed, part.terms), layer.regions(part.kept)
    own = zip(layer.steps[0].operands, needed(layer.op, computed, part.terms), strict=True)
    weights = tuple(name not in layer.reads for name, box in own if box.size)
    first = layer.op.part(computed, part.terms)
    pairs = list(zip(layer.steps[1:], regions[1:], strict=True))
    behind = tuple(step.op.part(region) for step, region in pairs if region.size)
    if part.terms is None and computed == regions[0]:
        return (Task((first, *behind), weights),)
    sums = Task((first,), weights)
    if not behind:
        return (sums,)
    others = len(layer.steps[1].operands) - 1
    return sums, Task(behind, (False, *[True] * others))


def work_of(layer: Layer, part: Part) -> float:
    """A core's fraction of the operations of a layer's first step."""
    op = layer.op
    return _terms_added(layer, part) / (Box.whole(op.terms).size * Box.whole(op.out_shape).size)


def imbalance(layer: Layer, parts: Iterable[Part]) -> float:
    """Terms added by the busiest core over the average of all cores that compute."""
    work = [one for part in parts if (one := _terms_added(layer, part))]
    return max(work) * len(work) / sum(work) if work else 1.0


def _terms_added(layer: Layer, part: Part) -> int:
    """Terms that a core adds up for all elements that it computes of the first step."""
    terms = Box.whole(layer.op.terms) if part.terms is None else part.terms
    return computable(layer.op, part.summed, part.terms).size * terms.size


def by_reference(task: Task, operands: Operands) -> Array:
    """The result of a task, each operator by its reference."""
    value = task.ops[0].reference(*operands[0])
    for op, own in zip(task.ops[1:], operands[1:], strict=True):
        value = op.reference(value, *own)
    return value
