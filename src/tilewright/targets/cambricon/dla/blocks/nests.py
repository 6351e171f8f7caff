"""A sequence of turns as a nest of loops: what comes again at even distances in main memory.

In: turns, each with what is the same whenever it comes again, and places in main memory. Out: turns
and loops over turns and loops. Each level makes loops of what the one below it has left.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

_LEAST_LOOPED = 8
"""Loops stand for more turns than this."""
_DEEPEST = 3
"""Loops within each other: each takes a register."""
_MOST_TIMES = 6
_LONGEST = 512
"""Turns and loops that may repeat as a loop."""


@dataclass(frozen=True, eq=False)
class Turn:
    """Code of one step, with what it does ahead for the `following` one; turns of one `key` differ
    only in their places: symbols and offsets.
    """

    number: int
    key: Hashable
    places: tuple[tuple[str, int], ...]
    following: Turn | None = field(default=None, repr=False)
    written = 1

    @cached_property
    def form(self) -> Hashable:
        """Equal for turns that may come from one another; the last one may come from any."""
        return self.key


@dataclass(frozen=True, eq=False)
class Loop:
    """A body that is executed `count` times; `moves` are the distances of symbols that move. Behind
    one that `is_last` nothing follows: its last turn does nothing ahead.
    """

    count: int
    body: tuple[Turn | Loop, ...]
    moves: Mapping[str, int]
    is_last: bool = False

    @cached_property
    def form(self) -> Hashable:
        """Equal for loops that may come from one another."""
        return self.count, tuple(node.form for node in self.body), tuple(self.moves.items())

    @cached_property
    def written(self) -> int:
        """Number of turns that are written."""
        return sum(node.written for node in self.body)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """All that move, in it or in the loops of its body."""
        inner = [name for node in self.body if isinstance(node, Loop) for name in node.symbols]
        return tuple(dict.fromkeys([*self.moves, *inner]))


Node = Turn | Loop


def nested(turns: Sequence[Turn], period: int) -> tuple[Node, ...]:
    """The turns as loops, with the fewest written. The innermost repeat after `period` turns, or a
    few times as many: places in segments of several rows are even from segment to segment alone.
    """
    nests = (_nest(turns, period, level) for level in range(_DEEPEST))
    return min(nests, key=lambda nodes: sum(node.written for node in nodes))


def _nest(turns: Sequence[Turn], period: int, last_level: int) -> tuple[Node, ...]:
    """The turns as loops; those of levels from `last_level` on, from the innermost, may take the
    last turn.
    """
    nodes: Sequence[Node] = turns
    for level in range(_DEEPEST):
        lengths = [] if level else [period * times for times in range(1, _MOST_TIMES + 1)]
        kept = nodes if level >= last_level else nodes[:-1]
        nodes = (*_looped(kept, lengths), *nodes[len(kept) :])
    return tuple(nodes)


def _looped(nodes: Sequence[Node], lengths: Sequence[int]) -> tuple[Node, ...]:
    """Loops of nodes that repeat after one of some lengths, or else as their forms say."""
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


def _repeated(nodes: Sequence[Node], at: int, lengths: Sequence[int]) -> Loop | None:
    """The loop that begins at a node, of the first length that repeats; None where none does."""
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
            loop = Loop(count, tuple(nodes[at : at + length]), moved, is_last)
            return loop if count * loop.written > _LEAST_LOOPED else None
    return None


def _moved(node: Node, other: Node, moves: Mapping[str, int]) -> dict[str, int] | None:
    """The distances so far and those of a node from another one; None where they do not agree."""
    match node, other:
        case Turn(), Turn(following=None):
            return _turned(node, other, moves) if node.following else None
        case Turn(following=Turn() as one), Turn(following=Turn() as two):
            own = _turned(node, other, moves)
            return None if own is None else _turned(one, two, own)
        case Loop(is_last=False), Loop(is_last=False):
            if (node.count, node.moves) != (other.count, other.moves):
                return None
            found: dict[str, int] | None = dict(moves)
            for one_inside, two_inside in zip(node.body, other.body, strict=True):
                found = None if found is None else _moved(one_inside, two_inside, found)
            return found
        case _:
            return None


def _turned(turn: Turn, other: Turn, moves: Mapping[str, int]) -> dict[str, int] | None:
    """`_moved` for the places of two turns themselves, without the following ones."""
    found = dict(moves)
    agree = turn.key == other.key and all(
        found.setdefault(symbol, two - one) == two - one
        for (symbol, one), (_, two) in zip(turn.places, other.places, strict=True)
    )
    return found if agree else None
