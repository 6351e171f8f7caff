"""Steps of a block, one tile each: loaded during the previous step, repeated as loops.

In: all steps of a block. Out: its statements, in the order of the paper's Code #2; of its Code #1,
in which each tile is loaded just before use; or of its hand-optimised code (4.1), in which each
computation is split in two with half of the next loads before each part.

Steps that recur at even distances in main memory become loops over address registers, in the same
order. Each level forms loops from the turns and loops that the level below has left.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from tilewright.targets.cambricon.dla.blocks.call import ResultTile
from tilewright.targets.cambricon.dla.builder import HALVED, NATURAL, Builder, ScratchpadBuffer
from tilewright.targets.cambricon.dla.declarations import Data


@dataclass(frozen=True)
class Load:
    """A transfer of elements between an offset from a symbol in main memory and a scratchpad."""

    memory: str
    local: int
    size: int
    symbol: str
    offset: int

    @staticmethod
    def segment(buffer: ScratchpadBuffer, data: Data, index: tuple[int, ...]) -> Load:
        """Load of a data segment to the start of a buffer."""
        size, offset = prod(data.layout.shape(index)), data.layout.offset(index)
        return Load(buffer.memory, buffer.address, size, data.name, offset)


@dataclass(frozen=True)
class TileStep:
    """One tile.

    `loads` come ahead of the previous step, after `clears` (elements set to zero); `needs` come
    after it, since it still uses their places. `first` writes the computation that does without
    `needs`, `compute` the rest, and `halves`, if any, everything in two parts; steps with one `key`
    write the same statements. The resulting tile is stored to `target`, an offset from a symbol,
    and everything else in `stores`.
    """

    loads: tuple[Load, ...]
    compute: Callable[[], ResultTile | None]
    key: Hashable
    target: tuple[str, int] | None = None
    needs: tuple[Load, ...] = ()
    stores: tuple[Load, ...] = ()
    clears: tuple[ScratchpadBuffer, ...] = ()
    first: Callable[[], None] = lambda: None
    halves: tuple[Callable[[], None], Callable[[], ResultTile | None]] | None = None

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """Its places in main memory: symbols and offsets of loads and stores."""
        every = (*self.loads, *self.needs, *self.stores)
        loads = tuple((load.symbol, load.offset) for load in every)
        return (*loads, self.target) if self.target else loads

    @property
    def fixed(self) -> Hashable:
        """The part, besides the key, that repeating steps share: everything but offsets."""
        return tuple(
            tuple(replace(load, offset=0) for load in loads)
            for loads in (self.loads, self.needs, self.stores)
        ), self.target and self.target[0]


def write_steps(builder: Builder, steps: Sequence[TileStep], period: int) -> None:
    """The statements of all steps, which may repeat after `period` steps or a few times as many."""
    places: dict[str, tuple[str, int]] = {}
    if builder.order != NATURAL:
        _load(builder, steps[0], places)
    for node in nested(_turns(steps), period):
        match node:
            case Turn():
                _step(builder, steps, node.number, places)
            case RepeatedSteps():
                before = builder.mark()
                for symbol in node.symbols:
                    offset = _first_offset(node, symbol)
                    places[symbol] = (builder.variable(f"{symbol}+{offset}"), offset)
                _loop(builder, steps, node, places)
                places.clear()
                builder.release(before)


def _turns(steps: Sequence[TileStep]) -> tuple[Turn, ...]:
    """A turn for each step: it loads ahead for the following step and does the rest of its own."""
    known: dict[Hashable, int] = {}
    turns: list[Turn] = []
    for number in reversed(range(len(steps))):
        step, following = steps[number], turns[-1] if turns else None
        kind = known.setdefault((step.key, step.clears, step.fixed), len(known))
        turns.append(Turn(number, kind, step.places, following))
    return tuple(reversed(turns))


def _loop(
    builder: Builder,
    steps: Sequence[TileStep],
    loop: RepeatedSteps,
    places: dict[str, tuple[str, int]],
) -> None:
    """Write a loop and its inner loops. `places` has registers with the offsets that they hold in
    the first turn, and afterwards with those they hold after the last.
    """
    first = {symbol: offset for symbol, (_, offset) in places.items()}
    with builder.loop(loop.count, counts_down=not loop.is_last) as counter:
        for node in loop.body:
            match node:
                case Turn():
                    is_last = loop.is_last and node is loop.body[-1]
                    _step(builder, steps, node.number, places, counter if is_last else "")
                case RepeatedSteps():
                    _loop(builder, steps, node, places)
        for symbol, (register, offset) in places.items():
            builder.add(register, first[symbol] + loop.moves.get(symbol, 0) - offset)
    for symbol, (register, _) in places.items():
        places[symbol] = register, first[symbol] + loop.count * loop.moves.get(symbol, 0)


def _step(
    builder: Builder,
    steps: Sequence[TileStep],
    at: int,
    places: dict[str, tuple[str, int]],
    counter: str = "",
) -> None:
    """Load the next tile (or this one), then compute and store this one. With a loop's `counter`, a
    next tile follows in all turns but the last; the step counts it down.
    """
    step = steps[at]
    following = steps[at + 1] if at + 1 < len(steps) else None
    if counter:
        builder.add(counter, -1)
    half = step.halves if builder.order == HALVED else None
    loads = len(following.loads) if following else 0
    cut = (loads + 1) // 2 if half else loads
    if builder.order == NATURAL:
        _load(builder, step, places)
    else:
        _load_ahead(builder, following, slice(cut), places, counter)
    if half is None:
        step.first()
    for needed in step.needs:
        _move_one(builder, "load", needed, places)
    if half is None:
        tile = step.compute()
    else:
        half[0]()
        _load_ahead(builder, following, slice(cut, None), places, counter)
        tile = half[1]()
    if tile is not None and step.target is not None:
        place = _place(*step.target, places)
        builder.transfer("store", "vector", tile.place, tile.size, place)
    for stored in step.stores:
        _move_one(builder, "store", stored, places)


def _load_ahead(
    builder: Builder,
    step: TileStep | None,
    part: slice,
    places: dict[str, tuple[str, int]],
    counter: str,
) -> None:
    """Load part of the following step's loads; with a loop's `counter`, only if a step follows."""
    if step is None or not step.loads[part]:
        return
    if counter:
        with builder.where_positive(counter):
            _load(builder, step, places, part)
    else:
        _load(builder, step, places, part)


def _load(
    builder: Builder, step: TileStep, places: dict[str, tuple[str, int]], part: slice = slice(None)
) -> None:
    for cleared in () if part.start else step.clears:
        builder.clear(cleared, cleared.size)
    for loaded in step.loads[part]:
        _move_one(builder, "load", loaded, places)


def _move_one(builder: Builder, way: str, load: Load, places: dict[str, tuple[str, int]]) -> None:
    local = builder.constant(load.local)
    place = _place(load.symbol, load.offset, places)
    builder.transfer(way, load.memory, local, load.size, place)


def _place(symbol: str, offset: int, places: dict[str, tuple[str, int]]) -> str:
    """An address as statements write it: relative to a register if the symbol has one."""
    if symbol not in places:
        return f"#{symbol}+{offset}"
    register, first = places[symbol]
    return f"{register}, #{offset - first}"


def _first_offset(node: Node, symbol: str) -> int:
    """An offset of a symbol in the first turn, with which its register starts."""
    turns = (one for turn in _flat(node) for one in (turn, turn.following) if one)
    return next(offset for turn in turns for name, offset in turn.places if name == symbol)


def _flat(node: Node) -> Iterator[Turn]:
    match node:
        case Turn():
            yield node
        case RepeatedSteps():
            for inner in node.body:
                yield from _flat(inner)


_LEAST_LOOPED = 8
"""Loops replace more turns than this."""
_DEEPEST = 3
"""Deepest nesting of loops: each takes a register."""
_MOST_TIMES = 6
_LONGEST = 512
"""Longest sequence of turns and loops searched for a repetition."""


@dataclass(frozen=True, eq=False)
class Turn:
    """Code of one step, with the loads it does for the `following` one. Turns with one `key` differ
    only in their places: symbols and offsets.
    """

    number: int
    key: Hashable
    places: tuple[tuple[str, int], ...]
    following: Turn | None = field(default=None, repr=False)
    written = 1

    @cached_property
    def form(self) -> Hashable:
        """Equal for turns that may repeat each other; the last turn may repeat any."""
        return self.key


@dataclass(frozen=True, eq=False)
class RepeatedSteps:
    """A body executed `count` times; `moves` are the distances by which symbols move. If it
    `is_last`, nothing follows, and its last turn does nothing ahead.
    """

    count: int
    body: tuple[Turn | RepeatedSteps, ...]
    moves: Mapping[str, int]
    is_last: bool = False

    @cached_property
    def form(self) -> Hashable:
        """Equal for loops that may repeat each other."""
        return self.count, tuple(node.form for node in self.body), tuple(self.moves.items())

    @cached_property
    def written(self) -> int:
        """Number of turns written out."""
        return sum(node.written for node in self.body)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """All symbols that move, in this loop or its inner ones."""
        inner = [
            name for node in self.body if isinstance(node, RepeatedSteps) for name in node.symbols
        ]
        return tuple(dict.fromkeys([*self.moves, *inner]))


Node = Turn | RepeatedSteps


def nested(turns: Sequence[Turn], period: int) -> tuple[Node, ...]:
    """The turns as loops, with the fewest turns written. Innermost loops repeat after `period`
    turns or a few times as many: with several rows per segment, distances are even only between
    segments.
    """
    nests = (_nest(turns, period, level) for level in range(_DEEPEST))
    return min(nests, key=lambda nodes: sum(node.written for node in nodes))


def _nest(turns: Sequence[Turn], period: int, last_level: int) -> tuple[Node, ...]:
    """The turns as loops; only levels from `last_level` on may include the last turn."""
    nodes: Sequence[Node] = turns
    for level in range(_DEEPEST):
        lengths = [] if level else [period * times for times in range(1, _MOST_TIMES + 1)]
        kept = nodes if level >= last_level else nodes[:-1]
        nodes = (*_looped(kept, lengths), *nodes[len(kept) :])
    return tuple(nodes)


def _looped(nodes: Sequence[Node], lengths: Sequence[int]) -> tuple[Node, ...]:
    """Loops of nodes that repeat after one of `lengths`, or, without lengths, by their forms."""
    found: list[Node] = []
    known: dict[Hashable, int] = {}
    forms = [known.setdefault(node.form, len(known)) for node in nodes]
    at = 0
    while at < len(nodes):
        loop = _repeated(nodes, at, lengths or _distances(forms, at))
        found.append(nodes[at] if loop is None else loop)
        at += 1 if loop is None else loop.count * len(loop.body)
    return tuple(found)


def _distances(forms: Sequence[int], at: int) -> Sequence[int]:
    """Distance from a node to the next of its form, and twice that."""
    try:
        distance = forms.index(forms[at], at + 1, at + 1 + _LONGEST) - at
    except ValueError:
        return ()
    return distance, 2 * distance


def _repeated(nodes: Sequence[Node], at: int, lengths: Sequence[int]) -> RepeatedSteps | None:
    """The loop that starts at a node, by the first length that repeats; None if none does."""
    for length in lengths:
        moves: dict[str, int] = {}
        end = at + length
        while end < len(nodes):
            found = _moved(nodes[end - length], nodes[end], moves)
            if found is None:
                break
            moves, end = found, end + 1
        count = (end - at) // length
        if count > 1:
            moved = {symbol: move for symbol, move in moves.items() if move}
            last = nodes[at + count * length - 1]
            is_last = isinstance(last, Turn) and last.following is None
            loop = RepeatedSteps(count, tuple(nodes[at : at + length]), moved, is_last)
            return loop if count * loop.written > _LEAST_LOOPED else None
    return None


def _moved(node: Node, other: Node, moves: Mapping[str, int]) -> dict[str, int] | None:
    """`moves` and the distances from a node to another; None if they contradict each other."""
    match node, other:
        case Turn(), Turn(following=None):
            return _turned(node, other, moves) if node.following else None
        case Turn(following=Turn() as one), Turn(following=Turn() as two):
            own = _turned(node, other, moves)
            return None if own is None else _turned(one, two, own)
        case RepeatedSteps(is_last=False), RepeatedSteps(is_last=False):
            if (node.count, node.moves) != (other.count, other.moves):
                return None
            found: dict[str, int] | None = dict(moves)
            for one_inside, two_inside in zip(node.body, other.body, strict=True):
                found = None if found is None else _moved(one_inside, two_inside, found)
            return found
        case _:
            return None


def _turned(turn: Turn, other: Turn, moves: Mapping[str, int]) -> dict[str, int] | None:
    """`_moved` for the places of two turns alone, without the following ones."""
    if turn.key != other.key:
        return None
    found = dict(moves)
    for (symbol, one), (_, two) in zip(turn.places, other.places, strict=True):
        if found.setdefault(symbol, two - one) != two - one:
            return None
    return found
