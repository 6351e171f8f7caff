"""Units, buffers, slots and addresses that a nest's operations use while a window plays them.

In: a `Prepared` nest and a machine's prices. Out: the `OperationWindow` in which `cost.window`
plays its candidates.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilewright.common.deferred import Deferred
from tilewright.common.expr import Const, Expr, Value, free_vars, substitute
from tilewright.common.intervals import interval
from tilewright.cost.chain import ChainItem, Prepared
from tilewright.cost.pipeline_types import Flags, Ints
from tilewright.cost.steps import CallStep, TransferStep
from tilewright.ir.nodes import Transfer, View
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine

if TYPE_CHECKING:
    from tilewright.cost import window
    from tilewright.cost.prices import Prices
else:  # heavy: Numba
    window = Deferred("tilewright.cost.window")

UNITS = 4
"""Most units that execute operations."""
_MOST_OPERANDS = 8


class _Uses(NamedTuple):
    """The fields of an `OperationWindow` that do not depend on the values of parameters."""

    unit: Ints
    writes: Ints
    reads: Ints
    unread: Flags
    early: Flags
    turn: Flags
    rotates: Ints
    beside: Ints
    due: Ints
    parts: Flags
    pieces: Flags
    spread: Flags
    other: Flags
    places: Ints


@lru_cache(maxsize=1 << 12)
def _uses(prepared: Prepared, prices: Prices) -> _Uses:
    buffers = {b.name: i for i, b in enumerate(prepared.program.buffers)}
    items, used = prepared.items, [_used(item, buffers, prepared) for item in prepared.items]
    writes = np.array([w for w, _ in used] or [-1], np.int64)
    moved = {i.buffer for i in items if not isinstance(i.step, CallStep)}
    beside = [_beside(number, prepared) for number in range(len(items))]
    given = (moved - prepared.turning) | {w for w, b in zip(writes, beside, strict=False) if b}
    rotates = [
        0 if i in given or b.copies != Const(2) else _rotation(b.name, prepared)
        for i, b in enumerate(prepared.program.buffers)
    ]
    return _Uses(
        np.array([prices.unit(i.step) for i in items] or [0], np.int64),
        writes,
        *_reads([own for _, own in used], prepared, prices),
        np.array(rotates or [0], np.int64),
        np.array(beside or [0], np.int64),
        _due(beside, writes, prepared),
        np.array([_in_parts(i, prices) for i in items] or [False]),
        np.array([_in_pieces(i, prepared, prices) for i in items] or [False]),
        np.array([_spread(i, prepared) for i in items] or [False]),
        np.array([_in_other_slot(i, prepared) for i in items] or [False]),
        np.array(_moving(prepared) or [(-1, 0, 0, 0)], np.int64),
    )


def operation_window(
    prepared: Prepared, env: Mapping[str, Value], machine: Machine, prices: Prices
) -> window.OperationWindow:
    """An empty window for the items of one nest, with values for its parameters."""
    rules = machine.issue
    assert rules is not None
    count, loops = len(prepared.program.buffers), max(1, len(prepared.loops))
    kept = max((window.KEPT_TURNS, *(2 * own.period for own in prepared.edges)))
    sizes = (1, rules.in_flight, UNITS, *(2 * count,) * 4)
    first = np.cumsum((0, *sizes)).astype(np.int64)
    return window.OperationWindow(
        state=np.zeros(int(first[-1])),
        first=first,
        slots=np.zeros(max(1, count), np.int64),
        **_uses(prepared, prices)._asdict(),
        held=np.zeros(2 * max(1, count)),
        readings=np.zeros(2 * max(1, count)),
        begun=np.zeros(1),
        overlap=np.array(_overlapping(prepared, env) or [False]),
        behind=np.arange(max(1, len(prepared.items))),
        kept=np.zeros((loops, kept, int(first[-1]))),
        kept_slots=np.zeros((loops, kept, max(1, count)), np.int64),
        played=np.zeros(loops, np.int64),
        left=np.zeros(loops),
        moved=np.zeros(loops),
        apart=np.zeros(loops),
        in_order=int(rules.freed == "in_order"),
        last_freed=np.zeros(1),
        clock=np.zeros(1),
        late=np.zeros((max(1, count), 2), np.int64),
        inmost=np.zeros(1, np.int64),
        unrolled=prices.unrolled_turns,
    )


def _reads(
    used: Sequence[Sequence[int]], prepared: Prepared, prices: Prices
) -> tuple[Ints, Flags, Flags, Flags]:
    """The fields `reads`, `unread`, `early` and `turn` of the window, each (items, operands)."""
    reads = np.full((max(1, len(used)), _MOST_OPERANDS), -1, np.int64)
    unread, early, turn = np.zeros((3, *reads.shape), np.bool_)
    for number, (own, item) in enumerate(zip(used, prepared.items, strict=True)):
        reads[number, : len(own)] = own
        if isinstance(item.step, CallStep):
            primitive = item.step.stmt.primitive
            first, last = (
                prices.first_reads(primitive, len(own)),
                prices.last_reads(primitive, len(own)),
            )
            parts = prices.reads_in_turn(primitive)
            unread[number, : len(own)] = [operand not in first for operand in range(len(own))]
            early[number, : len(own)] = [operand not in last for operand in range(len(own))]
            turn[number, : len(own)] = [operand in parts for operand in range(len(own))]
    return reads, unread, early, turn


def _rotation(buffer: str, prepared: Prepared) -> int:
    """Level of the innermost loop on which the slot that calls use depends, 0 for none."""
    calls = [i.step.stmt for i in prepared.items if isinstance(i.step, CallStep)]
    operands = (o for call in calls for o in call.operands)
    slots = [o.slot for o in operands if isinstance(o, View) and o.buffer == buffer]
    used = frozenset[str]().union(*map(free_vars, slots))
    return max((d for d, loop in enumerate(prepared.loops, 1) if loop.var in used), default=0)


def _names(step: CallStep | TransferStep) -> tuple[str, list[str]]:
    """(buffer that a step writes, empty for none; buffers that it reads)."""
    if isinstance(step, CallStep):
        names = [o.buffer for o in step.stmt.operands if isinstance(o, View)]
        return names[0], names[1:]
    own = step.stmt.buffer
    return (own, []) if step.stmt.direction == "get" else ("", [own])


def _used(item: ChainItem, buffers: Mapping[str, int], prepared: Prepared) -> tuple[int, list[int]]:
    """(number of the buffer that an item writes, -1 for none; numbers of those that it reads). An
    item that updates or stores results of an earlier turn does not wait for those of its own.
    """
    written, read = _names(item.step)
    if isinstance(item.step, TransferStep) and _stores_earlier(item.step.stmt, item, prepared):
        read = []
    if written in read and _lags(item, prepared):
        written, read = "", [name for name in read if name != written]
    return buffers.get(written, -1), [buffers[name] for name in read[:_MOST_OPERANDS]]


def _lags(item: ChainItem, prepared: Prepared) -> bool:
    """True for a call on one part of a buffer while a product in the same body makes another."""
    assert isinstance(item.step, CallStep)
    own = item.step.stmt.operands[0]
    return any(
        isinstance(i.step, CallStep)
        and isinstance(i.step.stmt.primitive, MatrixProduct)
        and isinstance(made := i.step.stmt.operands[0], View)
        and made.buffer == _names(item.step)[0]
        and made.ranges != own.ranges
        for i in prepared.items
        if (i.level, i.after) == (item.level, item.after)
    )


def _stores_earlier(stmt: Transfer, item: ChainItem, prepared: Prepared) -> bool:
    """True for a store of the previous turn's result, which lies in a place of its own."""
    if stmt.direction == "get" or not item.level:
        return False
    var = prepared.loops[item.level - 1].var
    return var in free_vars(stmt.first) and substitute(stmt.first, {var: 0}) != Const(0)


def _beside(number: int, prepared: Prepared) -> int:
    """The kind of an item's write that need not wait for its buffer's readers, 0 for other items.

    Only the items of one loop may use the buffer, and they must read it part by part as the loop
    moves. They have read the part that the item overwrites, and read the new one later: in the next
    iteration if no reading call follows. An item that begins an iteration without moving counts as
    0 if a later one writes ahead: it happens only where iterations are too few for that.
    """
    item, later = prepared.items[number], prepared.items[number + 1 :]
    written, _ = _names(item.step)
    if not item.level or not written:
        return 0
    variable = prepared.loops[item.level - 1].var
    users = [i for i in prepared.items if written in (_names(i.step)[0], *_names(i.step)[1])]
    views = [
        o
        for i in users
        if isinstance(i.step, CallStep)
        for o in i.step.stmt.operands[1:]
        if isinstance(o, View) and o.buffer == written
    ]
    read = [any(variable in free_vars(r.start) for r in o.ranges) for o in views]
    others = [i for i in users if i.level != item.level]
    begun = [i for i in others if i.level < item.level and not i.after]
    if not read or not all(read) or others != [i for i in begun if _names(i.step)[0] == written]:
        return 0
    made = item.step.stmt.operands[0] if isinstance(item.step, CallStep) else None
    alternates = isinstance(made, View) and made.slot not in {o.slot for o in views}
    ahead = variable in _start(item.step)
    behind = all(written not in _names(i.step)[1] for i in later)
    same = (i for i in later if _names(i.step)[0] == written)
    if alternates:
        return window.ALTERNATELY
    if not ahead and not behind and any(variable not in _start(i.step) for i in same):
        return 0
    return window.AHEAD if ahead or behind else window.BESIDE


def _due(beside: Sequence[int], writes: Ints, prepared: Prepared) -> Ints:
    """Per buffer, the loop at whose turn an alternate write can be read; -1 for none."""
    found = [-1] * len(prepared.program.buffers)
    for item, kind, buffer in zip(prepared.items, beside, writes, strict=False):
        if kind == window.ALTERNATELY:
            found[buffer] = _rotation(_names(item.step)[0], prepared) - 1
    return np.array(found or [-1], np.int64)


_MOST_PLACES = 62
"""Most different addresses, each a bit of one integer."""


def _moving(prepared: Prepared) -> list[tuple[int, int, int, int]]:
    """(loop, level, item, number) of each operand address that moves with a loop, for items that
    happen in most turns. `level` is that of the loop, or the one at which the buffer's slots turn;
    equal addresses have equal numbers.
    """
    numbers: dict[Hashable, int] = {}
    found = list[tuple[int, int, int, int]]()
    turns = _turning_levels(prepared)
    for number, item in enumerate(prepared.items):
        if not _in_most_turns(item, prepared):
            continue
        for name, starts in _places(item.step):
            used = frozenset[str]().union(*map(free_vars, starts))
            place = numbers.setdefault((name, starts), len(numbers) % _MOST_PLACES)
            for loop, own in enumerate(prepared.loops[: item.level]):
                if own.var in used:
                    found.append((loop, loop, number, place))
                elif loop < turns.get(name, 0):
                    found.append((loop, turns[name], number, place))
    return found


def _turning_levels(prepared: Prepared) -> dict[str, int]:
    """The level at which the slots of each double buffer turn: that of its transfers, or of the
    loop on which its calls' slots depend.
    """
    moved = {i.buffer: i.level for i in prepared.items if not isinstance(i.step, CallStep)}
    buffers = enumerate(prepared.program.buffers)
    return {
        b.name: moved[n] if n in moved else _rotation(b.name, prepared)
        for n, b in buffers
        if b.copies != Const(1)
    }


def _in_most_turns(item: ChainItem, prepared: Prepared) -> bool:
    """True for an item without a condition on loops, and for a product that happens in all turns
    except those that begin a sum: while it runs, the addresses of the item that adds it up are
    computed.
    """
    loops = {loop.var: 1 for loop in prepared.loops}
    depends = free_vars(item.condition) & loops.keys()
    if not depends or not isinstance(item.step, CallStep):
        return not depends
    later = substitute(item.condition, loops)
    return later == Const(1) and isinstance(item.step.stmt.primitive, MatrixProduct)


def _places(step: CallStep | TransferStep) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    """(name of the buffer or tensor, address) of each operand of a step."""
    if isinstance(step, TransferStep):
        yield step.stmt.tensor, tuple(r.start for r in step.stmt.ranges)
        yield f"{step.stmt.direction} {step.stmt.buffer}", (step.stmt.first,)
        return
    for operand in step.stmt.operands:
        if isinstance(operand, View):
            yield operand.buffer, (operand.slot, *(r.start for r in operand.ranges))


def _in_parts(item: ChainItem, prices: Prices) -> bool:
    """True for a call whose operations write its result part by part."""
    return isinstance(item.step, CallStep) and prices.writes_in_turn(item.step.stmt.primitive)


def _in_pieces(item: ChainItem, prepared: Prepared, prices: Prices) -> bool:
    """True for a store from a buffer that calls in inner loops write part by part, and for a call
    that reads its first operand piece by piece.
    """
    if isinstance(item.step, CallStep):
        return prices.in_pieces(item.step.stmt.primitive)
    if item.step.stmt.direction == "get":
        return False
    name = item.step.stmt.buffer
    made = [i for i in prepared.items if _names(i.step)[0] == name]
    return all(
        i.level > item.level and prepared.loops[i.level - 1].var in _start(i.step) for i in made
    )


def _overlapping(prepared: Prepared, env: Mapping[str, Value]) -> list[bool]:
    """Mask of the transfers that always happen and whose slots the program leaves open."""
    fetched = [i.condition for i in prepared.items if not isinstance(i.step, CallStep)]
    bounds: dict[str, tuple[int, int]] = {}
    if any(map(free_vars, fetched)):
        bounds = {name: (int(np.min(v)), int(np.max(v))) for name, v in env.items()}
        for loop in prepared.loops:
            bounds[loop.var] = 0, interval(loop.extent, bounds)[1] - 1
    return [
        not isinstance(i.step, CallStep)
        and i.buffer not in prepared.turning
        and interval(i.condition, bounds)[0] > 0
        for i in prepared.items
    ]


def _in_other_slot(item: ChainItem, prepared: Prepared) -> bool:
    """True for a transfer of a slot that no call of the present turn reads."""
    step = item.step
    if isinstance(step, CallStep):
        return False
    calls = (i.step.stmt for i in prepared.items if isinstance(i.step, CallStep))
    views = (o for call in calls for o in call.operands if isinstance(o, View))
    read = {o.slot for o in views if o.buffer == step.stmt.buffer}
    return item.buffer in prepared.turning and step.stmt.slot not in read


def _spread(item: ChainItem, prepared: Prepared) -> bool:
    """True for a fetch, or a call that spreads fetches, whose condition is the same in all
    iterations of a candidate.
    """
    if free_vars(item.condition) & {loop.var for loop in prepared.loops}:
        return False
    if isinstance(item.step, CallStep):
        return item.step.stmt.primitive.spreads
    return item.step.stmt.direction == "get"


def _start(step: CallStep | TransferStep) -> frozenset[str]:
    """The symbols in the address that a step writes to."""
    if isinstance(step, TransferStep):
        return free_vars(step.stmt.first)
    made = step.stmt.operands[0]
    return frozenset().union(*(free_vars(r.start) for r in made.ranges))
