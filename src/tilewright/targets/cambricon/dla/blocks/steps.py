"""Steps of a block, one tile each: loaded while the one before is computed, repeated as loops.

In: all steps of a block. Out: its statements, in the order of the paper's Code #2. Steps that come
again at a fixed distance in main memory become a loop over address registers, with the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from tilewright.targets.cambricon.dla.blocks.call import Tile
from tilewright.targets.cambricon.dla.builder import Buffer, Builder

_LEAST_LOOPED = 8
"""Loops stand for more steps than this."""


@dataclass(frozen=True)
class Load:
    """Elements of main memory, at an offset from a symbol, that come into a scratchpad."""

    memory: str
    local: int
    size: int
    symbol: str
    offset: int


@dataclass(frozen=True)
class Step:
    """One tile. `loads` come ahead of the step before, after `clears` (elements set to zero);
    `needs` cannot, as that one still uses their places. `compute` writes the rest; steps of one
    `key` write the same. The tile that it gives is stored to `target`, an offset from a symbol.
    """

    loads: tuple[Load, ...]
    compute: Callable[[], Tile | None]
    key: Hashable
    target: tuple[str, int] | None = None
    needs: tuple[Load, ...] = ()
    clears: tuple[Buffer, ...] = ()

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """Where it loads and stores in main memory: symbols and offsets."""
        loads = tuple((load.symbol, load.offset) for load in (*self.loads, *self.needs))
        return (*loads, self.target) if self.target else loads

    @property
    def fixed(self) -> Hashable:
        """What steps that repeat have in common besides their key: all but the offsets."""
        return tuple(
            tuple(replace(load, offset=0) for load in loads) for loads in (self.loads, self.needs)
        ), self.target and self.target[0]


def write_steps(builder: Builder, steps: Sequence[Step], period: int) -> None:
    """The statements of all steps; they may repeat after `period` of them, or twice as many."""
    places: dict[str, tuple[str, int]] = {}
    _load(builder, steps[0], places)
    at = 0
    while at < len(steps):
        length, count, moves = _repeats(steps, at, period)
        if count * length <= _LEAST_LOOPED or count < 2:
            _step(builder, steps, at, places)
            at += 1
            continue
        before = builder.mark()
        for symbol in moves:
            offset = _first_offset(steps, at, symbol)
            places[symbol] = (builder.variable(f"{symbol}+{offset}"), offset)
        with builder.loop(count):
            for inside in range(length):
                _step(builder, steps, at + inside, places)
            for symbol, amount in moves.items():
                builder.add(places[symbol][0], amount)
        places.clear()
        builder.release(before)
        at += length * count


def _step(
    builder: Builder, steps: Sequence[Step], at: int, places: dict[str, tuple[str, int]]
) -> None:
    """Load the next tile, compute and store this one."""
    if at + 1 < len(steps):
        _load(builder, steps[at + 1], places)
    step = steps[at]
    for needed in step.needs:
        _load_one(builder, needed, places)
    tile = step.compute()
    if tile is not None and step.target is not None:
        place = _place(*step.target, places)
        builder.transfer("store", "vector", tile.place, tile.size, place)


def _load(builder: Builder, step: Step, places: dict[str, tuple[str, int]]) -> None:
    for cleared in step.clears:
        builder.clear(cleared, cleared.size)
    for loaded in step.loads:
        _load_one(builder, loaded, places)


def _load_one(builder: Builder, load: Load, places: dict[str, tuple[str, int]]) -> None:
    local = builder.constant(load.local)
    builder.transfer(
        "load", load.memory, local, load.size, _place(load.symbol, load.offset, places)
    )


def _place(symbol: str, offset: int, places: dict[str, tuple[str, int]]) -> str:
    """An address as statements have it: from a register where the symbol has one."""
    if symbol not in places:
        return f"#{symbol}+{offset}"
    register, first = places[symbol]
    return f"{register}, #{offset - first}"


def _repeats(steps: Sequence[Step], at: int, period: int) -> tuple[int, int, dict[str, int]]:
    """How many steps repeat from a place on, how often, and how far each symbol moves."""
    for length in (period, 2 * period):
        if at + length >= len(steps):
            break
        moves: dict[str, int] = {}
        same = 0
        while at + length + same < len(steps) and _is_moved(
            steps[at + same], steps[at + length + same], moves
        ):
            same += 1
        count = (same - 1) // length + 1 if same else 1
        if count > 1:
            return length, count, {symbol: move for symbol, move in moves.items() if move}
    return 1, 1, {}


def _is_moved(step: Step, other: Step, moves: dict[str, int]) -> bool:
    """Whether a step is another one moved in main memory; `moves` are the distances so far."""
    if (step.key, step.clears, step.fixed) != (other.key, other.clears, other.fixed):
        return False
    return all(
        moves.setdefault(symbol, two - one) == two - one
        for (symbol, one), (_, two) in zip(step.places, other.places, strict=True)
    )


def _first_offset(steps: Sequence[Step], at: int, symbol: str) -> int:
    """An offset of a symbol near a step: what its register starts with."""
    return next(offset for step in steps[at:] for name, offset in step.places if name == symbol)
