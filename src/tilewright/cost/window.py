"""How a nest's operations overlap on a core that keeps a window of them in flight.

In: the items of a chain of loops with their cycles, as `cost.pipeline` has them, the unit that
executes each, and the buffers that it reads and writes. Out: cycles of every candidate. Operations
issue in program order, each when the window has a free slot; it starts when its unit is free and
what it reads and overwrites is no longer in use, and its slot is freed in order or when it is done
(`simulate.window` executes by the same rules). Loops are played through; where all that is in
flight stands after an iteration as it stood two iterations before, only later, the iterations that
are left are skipped.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tilewright.common.compiled import at, entry_point, piece
from tilewright.common.expr import Const, Expr, Value, free_vars
from tilewright.common.intervals import interval
from tilewright.cost import pipeline, pipeline_iteration, pipeline_rows, pipeline_types
from tilewright.cost.chain import ChainItem, Prepared
from tilewright.cost.pipeline import enter, mark_looped, take_tile
from tilewright.cost.pipeline_rows import (
    cost_of,
    iterations_of,
    kind_after,
    next_row_of,
    row_at,
    times_of,
)
from tilewright.cost.pipeline_types import (
    GET,
    PUT,
    Cost,
    Flags,
    Floats,
    Ints,
    PipelineState,
    Tables,
)
from tilewright.cost.prices import Prices
from tilewright.cost.steps import CallStep, TransferStep
from tilewright.ir.nodes import View
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine

_PLAYED = 12
"""Iterations after which a loop that has not become steady is taken as steady."""
_COUNTED = 2.0
"""Cycles of issue of the statements that count and branch in a turn of a loop."""
_FEW = 1e-9
BESIDE, AHEAD = 1, 2
"""Kinds of writes to a buffer that is in use."""


class OperationWindow(NamedTuple):
    """Operations in flight while a candidate is played, and what they use.

    `state` holds, one after the other, the clock of issue, when each slot of the window is freed,
    when each unit is free, and for both slots of each buffer when its last writer, its last readers
    and the writer before the last are done; `first` are the places of these parts. Stores in
    `pieces` begin with what earlier writers have made. `slots` has the slot that each buffer's
    users work on. Items have a `unit`, and `uses`: the buffers that they write and read, -1 for
    none; those read `early` the last of several operations does not read. A buffer of two slots
    that no transfer fills or empties rotates in each turn of the loop that `rotates` has the level
    of, 0 for none. What is written `beside` all that is in use there need not wait; what is written
    there `AHEAD`, one iteration before it is read, is due at the next such write. Transfers that
    `overlap` use both slots of a buffer that has two; those under a condition stand where the
    program has them (`passes.double_buffer`). Stores of buffers of two
    slots that have no loop of several iterations inside theirs, whose level is `inmost`, stand
    behind the next iteration's items: `late` are the row of the cost and the item of each one, -1
    for none.
    `moved[d]` places move from turn to turn of loop d, a statement each, and one before it begins.
    `kept[d]` are the states after the last two iterations of loop d, `played[d]` how many were
    played, `left[d]` how many are left.
    """

    state: Floats
    first: Ints
    slots: Ints
    unit: Ints
    writes: Ints
    reads: Ints
    early: Flags
    rotates: Ints
    beside: Ints
    pieces: Flags
    overlap: Flags
    kept: Floats
    kept_slots: Ints
    played: Ints
    left: Floats
    moved: Floats
    in_order: int
    last_freed: Floats
    late: Ints
    inmost: Ints


@piece
def _fly(w: OperationWindow, unit: int, clear: float, cycles: float) -> Any:
    """Issue one operation, which may start when all is `clear`; returns when it ends."""
    state, ring, ring_end = w.state, w.first[1], w.first[2]
    oldest = ring
    for place in range(ring, ring_end):
        if state[place] < state[oldest]:
            oldest = place
    state[0] = max(state[0], state[oldest])
    end = max(state[0], clear, state[unit]) + cycles
    state[unit] = end
    w.last_freed[0] = max(w.last_freed[0], end) if w.in_order else end
    state[oldest] = w.last_freed[0]
    return end


@piece
def _fly_all(w: OperationWindow, unit: int, clear: float, all_clear: float, cost: Cost) -> Any:
    """Issue the operations of an item, of which the last may start when `all_clear`; returns when
    that ends.
    """
    state, ring, ring_end = w.state, w.first[1], w.first[2]
    count = max(cost.issue, 1.0)
    if count < 2.0:
        return _fly(w, unit, all_clear, cost.service)
    _fly(w, unit, clear, cost.first)
    left = count - 2.0
    each, done = (cost.service - cost.first - cost.last) / max(left, 1.0), 0.0
    while done < min(left, ring_end - ring + 1.0):
        _fly(w, unit, clear, each)
        done += 1.0
    if left > done:
        later = (left - done) * each
        state[unit] += later
        state[0] += later
        w.last_freed[0] += later
        for place in range(ring, ring_end):
            state[place] += later
    return _fly(w, unit, all_clear, cost.last)


@piece
def _issue(w: OperationWindow, number: int, slot: int, cost: Cost) -> None:
    """Issue the operations of an item on its buffers; what a transfer fetches ahead goes into
    `slot`, all else (-1) works on the present ones.
    """
    state, first = w.state, w.first
    units, writers, readers, earlier = first[2], first[3], first[4], first[5]
    clear, written, made = 0.0, w.writes[number], 0
    if written >= 0:
        made = 2 * written + (slot if slot >= 0 else w.slots[written])
        if not w.beside[number]:
            clear = max(state[writers + made], state[readers + made])
        elif w.beside[number] == AHEAD:
            state[writers + made] = max(state[writers + made], state[writers + made + 1])
            made += 1
    for i in range(w.reads.shape[1]):
        read = w.reads[number, i]
        if read >= 0:
            clear = max(clear, state[writers + 2 * read + w.slots[read]])
    all_clear = clear
    if w.pieces[number]:
        read = w.reads[number, 0]
        clear = state[earlier + 2 * read + w.slots[read]]
    end = _fly_all(w, units + w.unit[number], clear, all_clear, cost)
    state[0] += cost.around
    if written >= 0:
        state[earlier + made] = state[writers + made]
        state[writers + made] = max(state[writers + made], end)
    for i in range(w.reads.shape[1]):
        read = w.reads[number, i]
        if read >= 0:
            place = readers + 2 * read + w.slots[read]
            done = end - cost.last if w.early[number, i] else end
            state[place] = max(state[place], done)


@piece
def _store_late(s: PipelineState, w: OperationWindow, number: int, row: int) -> None:
    """Store the tile of the iteration before this one, and keep the row of this one's cost."""
    buffer = at(s.items, number).buffer
    w.slots[buffer] = 1 - w.slots[buffer]
    if w.late[buffer, 0] >= 0:
        _issue(w, number, -1, at(s.costs, w.late[buffer, 0]))
    w.late[buffer, 0], w.late[buffer, 1] = row, number


@piece
def _items(s: PipelineState, w: OperationWindow, first: int, end: int, looped: int) -> None:
    """Issue the items of a span in order."""
    for number in range(first, end):
        item = at(s.items, number)
        here, kind = row_at(s, item, number), item.kind
        cost = at(s.costs, here)
        if cost.service <= 0.0:
            continue
        double = w.overlap[number] and at(s.buffers, item.buffer).double and looped
        if kind == GET and double:
            w.slots[item.buffer] = 1 - w.slots[item.buffer]
            row = next_row_of(s, item, number)
            if row >= 0:
                _issue(w, number, 1 - w.slots[item.buffer], at(s.costs, row))
            continue
        if kind == PUT and double and item.level >= w.inmost[0]:
            _store_late(s, w, number, here)
            continue
        _issue(w, number, -1, cost)
        if kind == PUT and double:
            w.slots[item.buffer] = 1 - w.slots[item.buffer]


@piece
def _fill(s: PipelineState, w: OperationWindow) -> None:
    """Fetch the tiles that are fetched ahead of the loops."""
    for d in range(s.clock.loops, 0, -1):
        level = at(s.levels, d)
        for number in range(level.before, level.before_end if level.looped else level.before):
            item = at(s.items, number)
            if item.kind != GET or not w.overlap[number]:
                continue
            if at(s.buffers, item.buffer).double:
                cost = cost_of(s, item, number)
                if cost.service > 0.0:
                    _issue(w, number, 0, cost)
                w.slots[item.buffer] = 1


@piece
def _is_steady(w: OperationWindow, loop: int) -> bool:
    """True if what is in flight stands as two iterations before, but for the time."""
    old, shift = w.kept[loop, w.played[loop] % 2], 0.0
    shift = w.state[0] - old[0]
    for i in range(w.slots.size):
        if w.slots[i] != w.kept_slots[loop, w.played[loop] % 2, i]:
            return False
    for i in range(1, w.state.size):
        now, then = max(w.state[i], w.state[0]), max(old[i], old[0])
        if abs(now - then - shift) > _FEW * now:
            return False
    return True


@piece
def _skip(w: OperationWindow, loop: int) -> None:
    """Skip pairs of iterations of a steady loop, up to its last one or two."""
    pairs = np.floor((w.left[loop] - 1.0) / 2.0)
    if pairs <= 0.0:
        return
    later = (w.state[0] - w.kept[loop, w.played[loop] % 2, 0]) * pairs
    for i in range(w.state.size):
        w.state[i] += later
    w.last_freed[0] += later
    w.left[loop] -= 2.0 * pairs


@piece
def _keep(w: OperationWindow, loop: int) -> None:
    """Look whether a loop has become steady, and keep the state after its iteration."""
    ready = w.left[loop] > 1.0 and w.played[loop] >= 2
    if ready and (w.played[loop] >= _PLAYED or _is_steady(w, loop)):
        _skip(w, loop)
        w.played[loop] = 0
        return
    place = w.played[loop] % 2
    for i in range(w.state.size):
        w.kept[loop, place, i] = w.state[i]
    for i in range(w.slots.size):
        w.kept_slots[loop, place, i] = w.slots[i]
    w.played[loop] += 1


@piece
def _begin(s: PipelineState, w: OperationWindow, loop: int, kind: int) -> bool:
    """Put a loop at the first of its iterations of a kind, or of the next kind that has any; False
    where there is none.
    """
    level = at(s.levels, loop)
    while kind >= 0 and times_of(s, loop, kind) <= 0.0:
        kind = kind_after(s, loop, kind)
    if kind < 0:
        level.kind, level.following = 0, -1
        return False
    level.kind = kind
    w.left[loop], w.played[loop] = times_of(s, loop, kind), 0
    return True


@piece
def _turn(s: PipelineState, w: OperationWindow, loop: int) -> None:
    """Begin an iteration of a loop: its items before the loop inside."""
    level, body = at(s.levels, loop), at(s.levels, loop + 1)
    w.left[loop] -= 1.0
    if iterations_of(s, loop) > 1.0:
        w.state[0] += w.moved[loop] + _COUNTED
    for i in range(w.slots.size):
        if w.rotates[i] == loop + 1:
            w.slots[i] = 1 - w.slots[i]
    level.following = level.kind if w.left[loop] > 0.0 else kind_after(s, loop, level.kind)
    _items(s, w, body.before, body.before_end, body.looped)


@piece
def _reset(s: PipelineState, w: OperationWindow) -> None:
    """Empty the window, and find the innermost loop of several iterations."""
    for i in range(w.state.size):
        w.state[i] = 0.0
    for i in range(w.slots.size):
        w.slots[i] = 0
    for b in range(w.slots.size):
        w.late[b, 0] = -1
    w.last_freed[0], w.inmost[0] = 0.0, 0
    for d in range(s.clock.loops):
        at(s.levels, d).kind, at(s.levels, d).following = 0, -1
        if iterations_of(s, d) > 1.0:
            w.inmost[0] = d + 1


@piece
def _ended(s: PipelineState, w: OperationWindow) -> Any:
    """Issue the last stores; returns when all is done."""
    for b in range(w.slots.size):
        if w.late[b, 0] >= 0:
            w.slots[b] = 1 - w.slots[b]
            _issue(w, w.late[b, 1], -1, at(s.costs, w.late[b, 0]))
    last = w.state[0]
    for i in range(w.state.size):
        last = max(last, w.state[i])
    return last


@piece
def _play_candidate(s: PipelineState, w: OperationWindow) -> Any:
    """Play one candidate from its start to its end; returns its cycles."""
    mark_looped(s)
    _reset(s, w)
    top = at(s.levels, 0)
    _items(s, w, top.before, top.before_end, 0)
    loop, down, filled = 0, True, False
    while loop >= 0:
        if down:
            if loop < s.clock.loops and _begin(s, w, loop, 0):
                if iterations_of(s, loop) > 1.0:
                    w.state[0] += w.moved[loop] + 1.0
                    if not filled:
                        _fill(s, w)
                        filled = True
                _turn(s, w, loop)
                loop += 1
                continue
            down = False
        body = at(s.levels, loop)
        _items(s, w, body.after, body.after_end, body.looped)
        loop -= 1
        if loop < 0:
            break
        _keep(w, loop)
        level = at(s.levels, loop)
        goes_on = w.left[loop] > 0.0
        if not goes_on:
            following = kind_after(s, loop, level.kind)
            goes_on = following >= 0 and _begin(s, w, loop, following)
        if goes_on:
            _turn(s, w, loop)
            loop += 1
            down = True
        else:
            level.kind, level.following = 0, -1
    return _ended(s, w)


@entry_point(pipeline_types, pipeline_rows, pipeline_iteration, pipeline)
def play_window(
    s: PipelineState,
    w: OperationWindow,
    tables: Tables,
    wanted: Flags,
    order: Ints,
    least: Floats,
    best: Floats,
    cycles: Floats,
    compute: Floats,
    busy: Floats,
) -> None:
    """As `pipeline.play`, with a window of operations in flight; the issue cycles of the tables are
    numbers of operations. Calls of two units pass at once, so that half of all their cycles bound
    a candidate.
    """
    keep = best.shape[1]
    for j in order:
        contest = tables.contest[j]
        if keep > 0 and 0.5 * least[j] > best[contest, keep - 1]:
            continue
        take_tile(s, tables, j)
        for row in range(tables.issue.shape[0]):
            cost = at(s.costs, row)
            cost.issue, cost.first = tables.issue[row, j], tables.operations[0, row, j]
            cost.last, cost.around = tables.operations[1, row, j], tables.operations[2, row, j]
        for c in range(wanted.shape[0]):
            if wanted[c, j]:
                for b in range(s.clock.buffers):
                    at(s.buffers, b).double = tables.doubles[c, b]
                s.clock.now = _play_candidate(s, w)
                enter(s, best, contest)
                cycles[c, j] = s.clock.now
                compute[c, j], busy[c, j] = s.clock.compute, s.clock.transfers


UNITS = 4
"""Most units that execute operations."""
_MOST_OPERANDS = 8


def operation_window(
    prepared: Prepared, env: Mapping[str, Value], machine: Machine, prices: Prices
) -> OperationWindow:
    """The window of a core, empty, for the items of one nest, with values for its parameters."""
    rules = machine.issue
    assert rules is not None
    buffers = {b.name: i for i, b in enumerate(prepared.program.buffers)}
    count, loops = len(buffers), max(1, len(prepared.loops))
    sizes = (1, rules.in_flight, UNITS, 2 * count, 2 * count, 2 * count)
    first = np.cumsum((0, *sizes)).astype(np.int64)
    used = [_used(item, buffers, prepared) for item in prepared.items]
    writes = np.array([w for w, _ in used] or [-1], np.int64)
    reads = np.full((max(1, len(used)), _MOST_OPERANDS), -1, np.int64)
    early = np.zeros(reads.shape, np.bool_)
    for row, ends, (_, own), item in zip(reads, early, used, prepared.items, strict=False):
        row[: len(own)] = own
        ends[: len(own)] = _read_early(item, len(own), prices)
    moved = {i.buffer for i in prepared.items if not isinstance(i.step, CallStep)}
    beside = [_beside(i, prepared) for i in prepared.items]
    given = moved | {w for w, b in zip(writes, beside, strict=False) if b}
    rotates = [
        0 if i in given or b.copies != Const(2) else _rotation(b.name, prepared)
        for i, b in enumerate(prepared.program.buffers)
    ]
    return OperationWindow(
        np.zeros(int(first[-1])),
        first,
        np.zeros(max(1, count), np.int64),
        np.array([prices.unit(i.step) for i in prepared.items] or [0], np.int64),
        writes,
        reads,
        early,
        np.array(rotates or [0], np.int64),
        np.array(beside or [0], np.int64),
        np.array([_in_pieces(i, prepared) for i in prepared.items] or [False]),
        np.array(_overlapping(prepared, env) or [False]),
        np.zeros((loops, 2, int(first[-1]))),
        np.zeros((loops, 2, max(1, count)), np.int64),
        np.zeros(loops, np.int64),
        np.zeros(loops),
        np.array([_moved(d, prepared) for d in range(loops)], np.float64),
        int(rules.freed == "in_order"),
        np.zeros(1),
        np.zeros((max(1, count), 2), np.int64),
        np.zeros(1, np.int64),
    )


def _read_early(item: ChainItem, count: int, prices: Prices) -> list[bool]:
    """Which of so many operands that an item reads its last operation does not read."""
    if not isinstance(item.step, CallStep):
        return [False] * count
    last = prices.last_reads(item.step.stmt.primitive, count)
    return [operand not in last for operand in range(count)]


def _rotation(buffer: str, prepared: Prepared) -> int:
    """The level of the innermost loop that the slot depends on which calls write."""
    made = [i.step.stmt.operands[0] for i in prepared.items if isinstance(i.step, CallStep)]
    slots = [o.slot for o in made if isinstance(o, View) and o.buffer == buffer]
    used = frozenset[str]().union(*map(free_vars, slots))
    return max((d for d, loop in enumerate(prepared.loops, 1) if loop.var in used), default=0)


def _names(step: CallStep | TransferStep) -> tuple[str, list[str]]:
    """The buffer that a step writes, empty for none, and those that it reads."""
    if isinstance(step, CallStep):
        names = [o.buffer for o in step.stmt.operands if isinstance(o, View)]
        return names[0], names[1:]
    own = step.stmt.buffer
    return (own, []) if step.stmt.direction == "get" else ("", [own])


def _used(item: ChainItem, buffers: Mapping[str, int], prepared: Prepared) -> tuple[int, list[int]]:
    """The numbers of the buffer that an item writes, -1 for none, and of those that it reads. One
    that works on results of earlier products waits for none of its loop.
    """
    written, read = _names(item.step)
    if written in read and _lags(item, prepared):
        written, read = "", [name for name in read if name != written]
    return buffers.get(written, -1), [buffers[name] for name in read[:_MOST_OPERANDS]]


def _lags(item: ChainItem, prepared: Prepared) -> bool:
    """True for a call on a part of a buffer of which a product in its loop makes another part."""
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


def _beside(item: ChainItem, prepared: Prepared) -> int:
    """How an item writes a buffer that the items of one loop alone use, which read it in the order
    in which their parts move: what it writes they have read, or read later. 0 for other items.
    """
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
    return AHEAD if variable in _start(item.step) or alternates else BESIDE


def _moved(loop: int, prepared: Prepared) -> int:
    """How many different places of operands in memories move with a loop, of those that are used
    in each turn.
    """
    if loop >= len(prepared.loops):
        return 0
    variable, found = prepared.loops[loop].var, set[Hashable]()
    double = {b.name for b in prepared.program.buffers if b.copies != Const(1)}
    for item in prepared.items:
        if item.level <= loop or item.condition != Const(1):
            continue
        rotates = item.level == loop + 1
        for name, starts in _places(item.step):
            if (rotates and name in double) or any(variable in free_vars(e) for e in starts):
                found.add((name, starts))
    return len(found)


def _places(step: CallStep | TransferStep) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    """Where the operands of a step begin, each with the name of its buffer or tensor."""
    if isinstance(step, TransferStep):
        yield step.stmt.tensor, tuple(r.start for r in step.stmt.ranges)
        yield f"{step.stmt.direction} {step.stmt.buffer}", (step.stmt.first,)
        return
    for operand in step.stmt.operands:
        if isinstance(operand, View):
            yield operand.buffer, (operand.slot, *(r.start for r in operand.ranges))


def _in_pieces(item: ChainItem, prepared: Prepared) -> bool:
    """True for a store of a buffer that calls in loops inside its own write part by part."""
    if isinstance(item.step, CallStep) or item.step.stmt.direction == "get":
        return False
    name = item.step.stmt.buffer
    made = [i for i in prepared.items if _names(i.step)[0] == name]
    return all(
        i.level > item.level and prepared.loops[i.level - 1].var in _start(i.step) for i in made
    )


def _overlapping(prepared: Prepared, env: Mapping[str, Value]) -> list[bool]:
    """Which items are transfers under no condition, or one that always holds."""
    bounds = {name: (int(np.min(v)), int(np.max(v))) for name, v in env.items()}
    for loop in prepared.loops:
        bounds[loop.var] = 0, interval(loop.extent, bounds)[1] - 1
    return [
        not isinstance(i.step, CallStep) and interval(i.condition, bounds)[0] > 0
        for i in prepared.items
    ]


def _start(step: CallStep | TransferStep) -> frozenset[str]:
    """The symbols in the place of what a step writes."""
    if isinstance(step, TransferStep):
        return free_vars(step.stmt.first)
    made = step.stmt.operands[0]
    return frozenset().union(*(free_vars(r.start) for r in made.ranges))
