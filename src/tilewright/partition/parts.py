"""Parts of a layer: a division assigns one to each core, and a part is one or two tasks.

In: a layer and a `Grid`. Out: a `Division` with one part per cell; parts may differ in size, and
cores may have none. A part's `Task`s are chains of operators on data that the core has. Parts of
equal extents have equal tasks wherever their boxes lie, so a layer on many cores has few different
tasks.
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
    """A core's number and the box of a tensor that it has, receives or adds up."""

    core: int
    box: Box


@dataclass(frozen=True)
class Part:
    """Work of one core in a layer.

    The core adds up `terms` (None: all) of the region `summed` of the first step's result, and
    finishes and keeps the region `kept` of the layer's result. Where kept regions overlap, `owned`
    is the region that it sends to others.
    """

    kept: Box
    summed: Box
    owned: Box
    terms: Box | None = None


@dataclass(frozen=True)
class Division:
    """One way to divide a layer; part j belongs to cell j of the grid."""

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
"""The operands of each operator; from the second on, without the previous operator's result."""


@dataclass(frozen=True)
class Task:
    """A chain of operators, each after the first applied to the previous result and to weights.
    `weights` flags the operands of the first operator that are weights.
    """

    ops: tuple[Op, ...]
    weights: tuple[bool, ...]


@dataclass(frozen=True)
class TaskTime:
    """Cycles of a task's programs on one core: of computation alone, and in total where operands
    and results pass the core's ports tile by tile.
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
        """The time of each task; `tasks` maps it to a layer's name, for error messages."""

    def compute(self, task: Task, operands: Operands) -> Array:
        """The result of a task."""


def tasks_of(layer: Layer, part: Part) -> tuple[Task, ...]:
    """A core's tasks in a layer. Whole sums make a single task; otherwise the first task computes
    the sums, and a second applies the other steps to the sums that the core finishes.
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
    """A part's fraction of the operations of the layer's first step."""
    op = layer.op
    return _terms_added(layer, part) / (Box.whole(op.terms).size * Box.whole(op.out_shape).size)


def imbalance(layer: Layer, parts: Iterable[Part]) -> float:
    """Terms added by the busiest core, divided by the average of all cores that compute."""
    work = [one for part in parts if (one := _terms_added(layer, part))]
    return max(work) * len(work) / sum(work) if work else 1.0


def _terms_added(layer: Layer, part: Part) -> int:
    """Number of terms that a core adds up, over all elements of the first step that it computes."""
    terms = Box.whole(layer.op.terms) if part.terms is None else part.terms
    return computable(layer.op, part.summed, part.terms).size * terms.size


def by_reference(task: Task, operands: Operands) -> Array:
    """The result of a task, computed by each operator's reference."""
    value = task.ops[0].reference(*operands[0])
    for op, own in zip(task.ops[1:], operands[1:], strict=True):
        value = op.reference(value, *own)
    return value
