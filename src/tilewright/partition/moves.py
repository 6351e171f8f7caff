"""Moves: regions that cores send each other before a layer is computed.

In: the placement of a tensor, or of partial sums, and the regions that cores need. Out: moves, and
their order in rounds in which each core sends to at most one core and receives from at most one, so
that blocking sends cannot deadlock. Several messages share a source and a target in a round where
the target already has some of a region.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.ops.box import Box
from tilewright.partition.layers import Layer
from tilewright.partition.parts import Division, Owner, Part


@dataclass(frozen=True)
class Held:
    """Placement of a tensor; each element has one owner. If `partial`, regions overlap and each
    owner holds sums of its own terms. `kept` maps a core to its whole region where that is larger
    than the region it owns.
    """

    owners: tuple[Owner, ...]
    partial: bool = False
    kept: Mapping[int, Box] = field(default_factory=dict)


@dataclass(frozen=True)
class Move:
    """A region of a tensor sent from one core to others; with `adds`, they add it to their sums."""

    source: int
    targets: tuple[int, ...]
    box: Box
    adds: bool = False

    @property
    def values(self) -> int:
        """Number of values sent, with a message of its own for each target."""
        return self.box.size * len(self.targets)


def held(division: Division, cores: Sequence[int] | None = None) -> Held:
    """Placement of a layer's result, with part j on `cores[j]`, by default on core j."""
    placed = _placed(division, cores)
    some = [(core, part) for core, part in placed if part.kept.size]
    more = {core: part.kept for core, part in some if part.kept != part.owned}
    owners = (Owner(core, part.owned) for core, part in some if part.owned.size)
    return Held(tuple(owners), kept=more)


def held_sums(division: Division, cores: Sequence[int] | None = None) -> Held:
    """Placement of the partial sums of a layer's first step, before they are added up."""
    owners = tuple(Owner(core, part.summed) for core, part in _placed(division, cores))
    return Held(owners, partial=division.partial)


def needs(
    layer: Layer, division: Division, cores: Sequence[int] | None = None
) -> dict[str, list[Owner]]:
    """The regions of each tensor of `layer.reads` that cores read."""
    found: dict[str, list[Owner]] = {name: [] for name in layer.reads}
    for core, part in _placed(division, cores):
        for name, box in layer.needed(part.summed, part.terms):
            found[name].append(Owner(core, box))
    return found


def moves_to(source: Held, wanted: Iterable[Owner]) -> tuple[Move, ...]:
    """Moves that bring each core its `wanted` regions, except elements that it has. Cores that lack
    the same region are targets of one move.
    """
    targets: dict[Owner, list[int]] = defaultdict(list)
    lacking = _Lacking(source)
    for core, box in wanted if source.owners else ():
        for one in lacking.of(box, source.kept.get(core)):
            if one.core != core:
                targets[one].append(core)
    return tuple(
        Move(owner, tuple(dict.fromkeys(cores)), box, source.partial)
        for (owner, box), cores in targets.items()
    )


@dataclass
class _Lacking:
    """Regions split by owner, without the elements that a core has. Results are cached, since many
    cores want the same region.
    """

    source: Held
    _found: dict[tuple[Box, Box | None], list[Owner]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        own = self.source.owners
        self._starts, self._stops = (np.array([box[at] for _, box in own]) for at in (0, 1))

    def of(self, box: Box, kept: Box | None) -> list[Owner]:
        """The parts of `box` outside `kept`, by owner."""
        if (box, kept) not in self._found:
            self._found[box, kept] = list(self._parts(box, kept))
        return self._found[box, kept]

    def _parts(self, box: Box, kept: Box | None) -> Iterator[Owner]:
        first, last = np.maximum(self._starts, box.start), np.minimum(self._stops, box.stop)
        meets = (first < last).all(axis=1)
        if kept is not None:
            meets &= ~((first >= kept.start) & (last <= kept.stop)).all(axis=1)
        common = np.flatnonzero(meets), first[meets].tolist(), last[meets].tolist()
        for number, start, stop in zip(*common, strict=True):
            part = Box(tuple(start), tuple(stop))
            for left in (part,) if kept is None else part.without(kept):
                yield Owner(self.source.owners[number][0], left)


def reductions(
    layer: Layer, division: Division, cores: Sequence[int] | None = None
) -> tuple[Move, ...]:
    """Moves of partial sums to the cores that finish them; empty if sums are not divided."""
    if not division.partial:
        return ()
    finished = [
        Owner(core, layer.regions(part.kept)[0])
        for core, part in _placed(division, cores)
        if part.kept.size
    ]
    return moves_to(held_sums(division, cores), finished)


@dataclass(frozen=True)
class Exchanges:
    """The moves of one layer: of each tensor that it reads from other layers, and of its sums."""

    inputs: tuple[tuple[str, tuple[Move, ...]], ...]
    sums: tuple[Move, ...]

    @property
    def each(self) -> Iterator[tuple[Move, ...]]:
        """The exchanges in order; that of partial sums is last."""
        yield from (found for _, found in self.inputs)
        yield self.sums


class MoveMessages(NamedTuple):
    """Messages as parallel arrays: source core, target core, and index of the move."""

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    moves: NDArray[np.int64]


def messages_of(found: Sequence[Move], cores: int | None = None) -> MoveMessages:
    """A message for each target of each move, in the order of moves or, with `cores`, of rounds."""
    counts = np.array([len(move.targets) for move in found], np.int64)
    moves = np.repeat(np.arange(len(found)), counts)
    targets = np.array([target for move in found for target in move.targets], np.int64)
    sources = np.array([move.source for move in found], np.int64)[moves]
    if cores is not None:
        order = np.argsort((targets - sources) % cores, kind="stable")
        sources, targets, moves = sources[order], targets[order], moves[order]
    return MoveMessages(sources, targets, moves)


def rounds(found: Sequence[Move], cores: int) -> Iterator[list[tuple[int, int, Box]]]:
    """The moves as messages (source, target, region), grouped in rounds: in round r, core i sends
    to core (i + r) mod `cores`. Empty rounds are left out.
    """
    messages = zip(*(column.tolist() for column in messages_of(found, cores)), strict=True)
    for _, together in groupby(messages, lambda one: (one[1] - one[0]) % cores):
        yield [(source, target, found[number].box) for source, target, number in together]


def _placed(division: Division, cores: Sequence[int] | None) -> Iterator[tuple[int, Part]]:
    numbers = range(len(division.parts)) if cores is None else cores
    return zip(numbers, division.parts, strict=True)
