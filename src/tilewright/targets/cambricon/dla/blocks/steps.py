"""Steps of a block, one tile each: loaded while the one before is computed, repeated as loops.

In: all steps of a block. Out: its statements, in the order of the paper's Code #2, or of its Code
#1, where each is loaded just before it is computed. Steps that come again at even distances in main
memory become loops over address registers, with the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from tilewright.targets.cambricon.dla.blocks.call import Tile
from tilewright.targets.cambricon.dla.blocks.nests import Loop, Node, Turn, nested
from tilewright.targets.cambricon.dla.builder import Buffer, Builder


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
    `needs` cannot, as that one still uses their places. `first` writes what does without them,
    `compute` the rest; steps of one `key` write the same. The tile that it gives is stored to
    `target`, an offset from a symbol.
    """

    loads: tuple[Load, ...]
    compute: Callable[[], Tile | None]
    key: Hashable
    target: tuple[str, int] | None = None
    needs: tuple[Load, ...] = ()
    clears: tuple[Buffer, ...] = ()
    first: Callable[[], None] = lambda: None

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """Where it loads and stores in main memory: symbols and offsets."""
        loads = tuple((load.symbol, load.offset) for load in (*self.loads, *self.needs))
        return (*loads, self.target) if self.target else loads

    @property
    def fixed(self) -> Hashable:
        """The part, besides their key, that repeating steps share: all but the offsets."""
        return tuple(
            tuple(replace(load, offset=0) for load in loads) for loads in (self.loads, self.needs)
        ), self.target and self.target[0]


def write_steps(builder: Builder, steps: Sequence[Step], period: int) -> None:
    """The statements of all steps; they may repeat after `period` of them, or twice as many."""
    places: dict[str, tuple[str, int]] = {}
    if builder.ahead:
        _load(builder, steps[0], places)
    for node in nested(_turns(steps), period):
        match node:
            case Turn():
                _step(builder, steps, node.number, places)
            case Loop():
                before = builder.mark()
                for symbol in node.symbols:
                    offset = _first_offset(node, symbol)
                    places[symbol] = (builder.variable(f"{symbol}+{offset}"), offset)
                _loop(builder, steps, node, places)
                places.clear()
                builder.release(before)


def _turns(steps: Sequence[Step]) -> tuple[Turn, ...]:
    """A turn for each step: it writes the loads of the following step and all else of its own."""
    known: dict[Hashable, int] = {}
    turns: list[Turn] = []
    for number in reversed(range(len(steps))):
        step, following = steps[number], turns[-1] if turns else None
        kind = known.setdefault((step.key, step.clears, step.fixed), len(known))
        turns.append(Turn(number, kind, step.places, following))
    return tuple(reversed(turns))


def _loop(
    builder: Builder, steps: Sequence[Step], loop: Loop, places: dict[str, tuple[str, int]]
) -> None:
    """A loop, and those in it. `places` are registers and the offsets that they hold in the first
    turn; behind the loop they hold those after its last.
    """
    first = {symbol: offset for symbol, (_, offset) in places.items()}
    with builder.loop(loop.count, counts_down=not loop.is_last) as counter:
        for node in loop.body:
            match node:
                case Turn():
                    is_last = loop.is_last and node is loop.body[-1]
                    _step(builder, steps, node.number, places, counter if is_last else "")
                case Loop():
                    _loop(builder, steps, node, places)
        for symbol, (register, offset) in places.items():
            builder.add(register, first[symbol] + loop.moves.get(symbol, 0) - offset)
    for symbol, (register, _) in places.items():
        places[symbol] = register, first[symbol] + loop.count * loop.moves.get(symbol, 0)


def _step(
    builder: Builder,
    steps: Sequence[Step],
    at: int,
    places: dict[str, tuple[str, int]],
    counter: str = "",
) -> None:
    """Load the next tile, or this one, compute and store this one. With the counter of a loop there
    is a next one in all turns but the last, which this counts down.
    """
    step = steps[at]
    if counter:
        builder.add(counter, -1)
    if not builder.ahead:
        _load(builder, step, places)
    elif counter:
        with builder.where_positive(counter):
            _load(builder, steps[at + 1], places)
    elif at + 1 < len(steps):
        _load(builder, steps[at + 1], places)
    step.first()
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


def _first_offset(node: Node, symbol: str) -> int:
    """An offset of a symbol near the first turn: what its register starts with."""
    turns = (one for turn in _flat(node) for one in (turn, turn.following) if one)
    return next(offset for turn in turns for name, offset in turn.places if name == symbol)


def _flat(node: Node) -> Iterator[Turn]:
    match node:
        case Turn():
            yield node
        case Loop():
            for inner in node.body:
                yield from _flat(inner)
