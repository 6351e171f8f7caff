"""How a nest's operations overlap on a core that keeps a window of them in flight.

In: the items of a chain of loops with their cycles, as in `cost.pipeline`, the unit that executes
each item, and the buffers that it reads and writes. Out: cycles of every candidate. Operations
issue in program order, each when the window has a free slot. An operation starts when its unit is
free, its operands are complete and what it overwrites is no longer in use; its slot is freed in
order or when it is done (`simulate.window` executes by the same rules). Loops are played turn by
turn; once the state in flight repeats after some iterations, shifted in time, multiples of these
are skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tilewright.common.compiled import at, entry_point, piece
from tilewright.cost import (
    pipeline,
    pipeline_crowds,
    pipeline_iteration,
    pipeline_rows,
    pipeline_types,
)
from tilewright.cost.pipeline import enter, mark_looped, take_tile
from tilewright.cost.pipeline_rows import (
    cost_of,
    iterations_of,
    kind_after,
    kind_behind,
    kind_in_turn,
    next_row_of,
    period_of,
    row_at,
    times_in_turn,
    times_of,
)
from tilewright.cost.pipeline_types import (
    GET,
    PUT,
    TURN_STATEMENTS,
    Cost,
    Flags,
    Floats,
    Ints,
    PipelineState,
    Tables,
)

if TYPE_CHECKING:  # no source of what is compiled here
    from tilewright.cost.sums import UnitSums

KEPT_TURNS = 12
"""Iterations after which a loop that has not become steady is treated as steady."""
_BOUND = 0.99
"""Factor on a lower bound: a loop treated as steady may come out shorter by this share."""
_FEW = 1e-9
TRANSFER = 0
"""The unit of transfers."""
BESIDE, AHEAD, ALTERNATELY = 1, 2, 3
"""Kinds of writes that need not wait for a buffer's users: next to what these use; one iteration
before it is read; into the other slot.
"""


class OperationWindow(NamedTuple):
    """Operations in flight while a candidate is played, and the buffers that they use.

    `state` holds, one part after the other, the clock of issue; when each window slot is freed;
    when each unit is free; and for both slots of each buffer when its last writer, its last
    readers, the writer before the last, and the first operation of the last readers are done. For
    a write `ALTERNATELY`, the part of the readers of the other slot holds when the write is done.

    A transfer that overlaps fetches ahead right after its wait, or after a call over which fetches
    are spread (`passes.double_buffer`); a conditional one stays where the program has it. A store
    from a double buffer with no loop of several iterations inside its own is issued late, after the
    items of the next iteration. Each turn of a loop updates addresses, a statement each, before its
    last operation starts and from the clock that this operation found; the branch comes after it.
    """

    state: Floats
    first: Ints  # start of each part of `state`
    slots: Ints  # present slot of each buffer
    unit: Ints  # of each item
    writes: Ints  # buffer that each item writes, -1 for none
    reads: Ints  # (items, operands): buffers that each item reads, -1 for none
    unread: Flags  # operands that the first of an item's operations does not read
    early: Flags  # operands that the last of an item's operations does not read
    turn: Flags  # operands of which each operation reads a part of its own
    held: Floats  # bytes that the last transfer wrote to each slot of a buffer
    readings: Floats  # operations of the last readers of each slot
    begun: Floats  # end of the first operation of the latest item
    rotates: Ints  # level of the loop whose turns swap a buffer's slots, 0 for none
    beside: Ints  # kind of write that need not wait for a buffer's users, 0 for other writes
    due: Ints  # loop at whose turn a buffer's alternate write can be read, -1 for none
    parts: Flags  # items that may write once the first operation of the last readers is done
    pieces: Flags  # items that may begin once an earlier writer of their first buffer is done
    overlap: Flags  # transfers that use both slots of a double buffer
    spread: Flags  # fetches, and calls over which they are spread
    other: Flags  # transfers of the slot that is not the present one
    behind: Ints  # item after which each fetch ahead is issued, mostly the fetch itself
    kept: Floats  # (loops, iterations, state): states after a loop's last iterations
    kept_slots: Ints  # and the slots
    played: Ints  # iterations of each loop kept so far
    left: Floats  # iterations of each loop that are left
    places: Ints  # (loop, level, item, number) of each operand address that moves with a loop
    moved: Floats  # addresses that each turn of a loop updates, and one statement before it
    apart: Floats  # first and last turns of each loop that code writes apart
    in_order: int  # 1 if window slots are freed in order
    last_freed: Floats  # when the latest window slot is freed
    clock: Floats  # clock of issue that the last operation found
    late: Ints  # (buffers, 2): row of the cost and item of a late store, -1 for none
    inmost: Ints  # level of the innermost loop with several iterations
    unrolled: int  # most turns of a loop that is unrolled, if no loop inside has more


@piece
def _fly(w: OperationWindow, unit: int, clear: float, cycles: float) -> Any:
    """Issue one operation, which may start at `clear`; returns when it ends."""
    state, ring, ring_end = w.state, w.first[1], w.first[2]
    oldest, w.clock[0] = ring, state[0]
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
def _fly_all(
    w: OperationWindow, unit: int, begins: float, clear: float, all_clear: float, cost: Cost
) -> Any:
    """Issue the operations of an item: the first may start at `begins`, the last at `all_clear`,
    the others at `clear`. Returns when the last ends.
    """
    state, ring, ring_end = w.state, w.first[1], w.first[2]
    count = max(cost.issue, 1.0)
    if count < 2.0:
        w.begun[0] = _fly(w, unit, all_clear, cost.service)
        return w.begun[0]
    w.begun[0] = _fly(w, unit, begins, cost.first)
    left, turn = count - 2.0, cost.paced / (count - 1.0)
    each, done = (cost.service - cost.first - cost.last) / max(left, 1.0), 0.0
    issued = state[0] + turn
    while done < min(left, ring_end - ring + 1.0):
        state[0] = max(state[0], issued)
        _fly(w, unit, clear, each)
        issued = state[0] + turn
        done += 1.0
    if left > done:  # the item fills the window: each operation left shifts all by its cycles
        later, freed = (left - done) * each, np.inf
        state[unit] += later
        w.last_freed[0] += later
        for place in range(ring, ring_end):
            state[place] += later
            freed = min(freed, state[place])
        issued = max(issued + (left - done) * turn, freed - each)
    state[0] = max(state[0], issued)
    return _fly(w, unit, all_clear, cost.last)


@piece
def _read_until(w: OperationWindow, number: int, made: int, cost: Cost) -> Any:
    """When the last readers of slot `made` are done with the part that an item overwrites."""
    last, first = w.state[w.first[4] + made], w.state[w.first[6] + made]
    if w.unit[number] != TRANSFER or cost.own >= w.held[made]:
        return last
    count = w.readings[made]
    earlier = cost.own / w.held[made] * count - 1.0
    return first + (last - first) * max(earlier, 0.0) / max(count - 1.0, 1.0)


@piece
def _slot_of(w: OperationWindow, number: int, buffer: int) -> Any:
    """The slot of a buffer that an item uses."""
    return 1 - w.slots[buffer] if w.other[number] else w.slots[buffer]


@piece
def _issue(w: OperationWindow, number: int, slot: int, cost: Cost) -> None:
    """Issue the operations of an item on its buffers. A fetch ahead writes into `slot`; with -1 the
    item uses the present slots.
    """
    state = w.state
    units, writers, readers, earlier = w.first[2], w.first[3], w.first[4], w.first[5]
    clear = all_read = 0.0
    written, made, part = w.writes[number], 0, writers
    if written >= 0:
        made = 2 * written + (slot if slot >= 0 else _slot_of(w, number, written))
        if not w.beside[number]:
            all_read = _read_until(w, number, made, cost)
            begun = state[w.first[6] + made] if w.parts[number] else all_read
            clear = max(state[writers + made], begun)
        elif w.beside[number] == AHEAD:
            state[writers + made] = max(state[writers + made], state[writers + made + 1])
            made += 1
        elif w.beside[number] == ALTERNATELY:
            part, made = readers, made + 1
    begins, all_clear = clear, max(clear, all_read)
    for i in range(w.reads.shape[1]):
        read = w.reads[number, i]
        if read >= 0:
            place = 2 * read + _slot_of(w, number, read)
            all_clear = max(all_clear, state[writers + place])
            first = earlier if w.pieces[number] and i == 0 else writers
            clear = max(clear, state[first + place])
            if not w.unread[number, i]:
                begins = max(begins, state[first + place])
    state[0] += cost.before
    end = _fly_all(w, units + w.unit[number], begins, clear, all_clear, cost)
    state[0] += cost.behind
    if cost.behind > 0.0:
        w.clock[0] = state[0]
    if written >= 0:
        state[earlier + made] = state[part + made]
        state[part + made] = max(state[part + made], end)
        w.held[made] = cost.own
    for i in range(w.reads.shape[1]):
        read = w.reads[number, i]
        if read >= 0:
            place = 2 * read + _slot_of(w, number, read)
            done = end - cost.last if w.early[number, i] else end
            begun = w.begun[0] if w.turn[number, i] else done
            state[readers + place] = max(state[readers + place], done)
            state[w.first[6] + place] = max(state[w.first[6] + place], begun)
            w.readings[place] = max(cost.issue, 1.0)


@piece
def _store_late(s: PipelineState, w: OperationWindow, number: int, row: int) -> None:
    """Store the tile of the previous iteration, and postpone the store of this one."""
    buffer = at(s.items, number).buffer
    w.slots[buffer] = 1 - w.slots[buffer]
    if w.late[buffer, 0] >= 0:
        _issue(w, number, -1, at(s.costs, w.late[buffer, 0]))
    w.late[buffer, 0], w.late[buffer, 1] = row, number


@piece
def _is_ahead(s: PipelineState, w: OperationWindow, number: int, looped: int) -> Any:
    """True for a transfer that overlaps, using both slots of a double buffer in a loop."""
    return w.overlap[number] and at(s.buffers, at(s.items, number).buffer).double and looped


@piece
def _fetch_next(s: PipelineState, w: OperationWindow, number: int) -> None:
    """Fetch the tile of the next iteration, if there is one."""
    item = at(s.items, number)
    row = next_row_of(s, item, number)
    if row >= 0:
        _issue(w, number, 1 - w.slots[item.buffer], at(s.costs, row))


@piece
def _items(s: PipelineState, w: OperationWindow, first: int, end: int, looped: int) -> None:
    """Issue the items of a span in order."""
    for number in range(first, end):
        item = at(s.items, number)
        here, kind = row_at(s, item, number), item.kind
        cost = at(s.costs, here)
        if cost.service <= 0.0:
            continue
        double = _is_ahead(s, w, number, looped)
        if kind == GET and double:
            w.slots[item.buffer] = 1 - w.slots[item.buffer]
            if w.behind[number] == number:
                _fetch_next(s, w, number)
            continue
        if kind == PUT and double and item.level >= w.inmost[0]:
            _store_late(s, w, number, here)
            continue
        _issue(w, number, -1, cost)
        if kind == PUT and double:
            w.slots[item.buffer] = 1 - w.slots[item.buffer]
        for get in range(first, number):
            if w.behind[get] == number and _is_ahead(s, w, get, looped):
                _fetch_next(s, w, get)


@piece
def _spread_fetches(s: PipelineState, w: OperationWindow) -> None:
    """Distribute the fetches of the innermost loop evenly after the calls that spread them."""
    level, calls, gets, get = at(s.levels, s.clock.loops), 0, 0, 0
    for number in range(level.before, level.before_end):
        w.behind[number] = number
        if _counts(s, w, number):
            fetches = at(s.items, number).kind == GET
            calls, gets = calls + (not fetches), gets + fetches
    for number in range(level.before, level.before_end):
        if at(s.items, number).kind == GET and _counts(s, w, number):
            get += 1
            left, other = get * calls // (gets + 1), level.before
            while left > 0:
                if at(s.items, other).kind != GET and _counts(s, w, other):
                    left -= 1
                    w.behind[number] = other
                other += 1


@piece
def _counts(s: PipelineState, w: OperationWindow, number: int) -> bool:
    """True for a fetch or a call that spreads fetches in all iterations of this candidate."""
    return w.spread[number] and at(s.costs, at(s.items, number).base).service > 0.0


@piece
def _fill(s: PipelineState, w: OperationWindow) -> None:
    """Prefetch the first tiles, ahead of the loops."""
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
def _is_steady(w: OperationWindow, loop: int, turns: int) -> bool:
    """True if the state in flight equals that of `turns` iterations before, shifted in time."""
    place = (w.played[loop] - turns) % w.kept.shape[1]
    old = w.kept[loop, place]
    shift = w.state[0] - old[0]
    for i in range(w.slots.size):
        if w.slots[i] != w.kept_slots[loop, place, i]:
            return False
    for i in range(1, w.state.size):
        now, then = max(w.state[i], w.state[0]), max(old[i], old[0])
        if abs(now - then - shift) > _FEW * now:
            return False
    return True


@piece
def _skip(w: OperationWindow, loop: int, turns: int) -> None:
    """Skip multiples of `turns` iterations of a steady loop, but never its last iteration."""
    times = max(np.floor((w.left[loop] - 1.0) / turns), 0.0)
    place = (w.played[loop] - turns) % w.kept.shape[1]
    later = (w.state[0] - w.kept[loop, place, 0]) * times
    for i in range(w.state.size):
        w.state[i] += later
    w.last_freed[0] += later
    w.clock[0] += later
    w.left[loop] -= turns * times
    w.played[loop] = 0


@piece
def _keep(s: PipelineState, w: OperationWindow, loop: int) -> None:
    """Skip iterations if a loop has become steady; otherwise keep the state after this one."""
    period, kept = period_of(s, loop), w.kept.shape[1]
    turns = period if w.left[loop] > 1.0 else kept + 1  # the last iteration is always played
    while turns <= min(w.played[loop], kept):
        if _is_steady(w, loop, turns):
            _skip(w, loop, turns)
            return
        turns += period
    if w.left[loop] > 1.0 and w.played[loop] >= kept:
        _skip(w, loop, kept - kept % (2 * period))  # an even number, as slots alternate
        return
    place = w.played[loop] % kept
    for i in range(w.state.size):
        w.kept[loop, place, i] = w.state[i]
    for i in range(w.slots.size):
        w.kept_slots[loop, place, i] = w.slots[i]
    w.played[loop] += 1


@piece
def _begin(s: PipelineState, w: OperationWindow, loop: int, kind: int) -> bool:
    """Put a loop at its first iteration of a kind, or of the next kind that has any; False if there
    is none.
    """
    level = at(s.levels, loop)
    while kind >= 0 and times_of(s, loop, kind) <= 0.0:
        kind = kind_after(s, loop, kind)
    if kind < 0:
        level.kind, level.following = 0, -1
        return False
    level.kind = kind
    w.left[loop], w.played[loop] = times_in_turn(s, loop), 0
    return True


@piece
def _turn(s: PipelineState, w: OperationWindow, loop: int) -> None:
    """Begin an iteration of a loop: swap slots, and issue the items before the inner loop."""
    level, body = at(s.levels, loop), at(s.levels, loop + 1)
    w.left[loop] -= 1.0
    for i in range(w.slots.size):
        if w.rotates[i] == loop + 1:
            w.slots[i] = 1 - w.slots[i]
    for i in range(w.slots.size):
        if w.due[i] == loop:
            written, other = w.first[3] + 2 * i, w.first[4] + 2 * i + 1
            w.state[written] = max(w.state[written], w.state[other])
    level.following = kind_in_turn(s, loop) if w.left[loop] > 0.0 else kind_behind(s, loop)
    _items(s, w, body.before, body.before_end, body.looped)


@piece
def _is_used_last(s: PipelineState, number: int) -> bool:
    """True for an item that happens in iterations of the last kinds."""
    item = at(s.items, number)
    row, loops = item.base, s.clock.loops
    for d in range(loops if item.varies else 0):
        level = at(s.levels, d)
        if iterations_of(s, d) > 1.0 and not level.uniform:
            row += at(s.item_strides, number * loops + d).rows * (level.kinds - 1)
    return bool(at(s.costs, row).service > 0.0)


@piece
def _turns_apart(s: PipelineState, w: OperationWindow, level: int) -> Any:
    """Number of turns that code writes apart: the last, if the loop's body fetches ahead, as it has
    nothing to fetch; and the first, if the body stores late, as it has nothing to store yet.
    """
    body, fetches, stores = at(s.levels, level), 0, 0
    for number in range(body.before, max(body.before_end, body.after_end)):
        if _is_ahead(s, w, number, body.looped):
            fetches |= at(s.items, number).kind == GET
            stores |= at(s.items, number).kind == PUT
    return float(fetches + stores)


@piece
def _count_moved(s: PipelineState, w: OperationWindow) -> None:
    """Count the addresses that each turn of a loop updates, and the turns written apart."""
    for loop in range(s.clock.loops):
        level, seen = loop + 1, 0
        while level < s.clock.loops and iterations_of(s, level) == 1.0:
            level += 1
        w.moved[loop] = 0.0
        w.apart[loop] = _turns_apart(s, w, level)
        for i in range(w.places.shape[0]):
            place = 1 << w.places[i, 3]
            if w.places[i, 0] != loop or w.places[i, 1] > level or seen & place:
                continue
            if _is_used_last(s, w.places[i, 2]):
                seen |= place
                w.moved[loop] += 1.0


@piece
def _reset(s: PipelineState, w: OperationWindow) -> None:
    """Empty the window, and find the innermost loop of several iterations."""
    for i in range(w.state.size):
        w.state[i] = 0.0
    for i in range(w.slots.size):
        w.slots[i] = 0
    for b in range(w.slots.size):
        w.late[b, 0] = -1
        w.held[2 * b] = w.held[2 * b + 1] = 0.0
    w.last_freed[0], w.inmost[0] = 0.0, 0
    _spread_fetches(s, w)
    for d in range(s.clock.loops):
        at(s.levels, d).kind, at(s.levels, d).following = 0, -1
        if iterations_of(s, d) > 1.0:
            w.inmost[0] = d + 1
    _count_moved(s, w)


@piece
def _finish_window(s: PipelineState, w: OperationWindow) -> Any:
    """Issue the postponed stores; returns when everything is done."""
    for b in range(w.slots.size):
        if w.late[b, 0] >= 0:
            w.slots[b] = 1 - w.slots[b]
            _issue(w, w.late[b, 1], -1, at(s.costs, w.late[b, 0]))
    last = w.state[0]
    for i in range(w.state.size):
        last = max(last, w.state[i])
    return last


@piece
def _is_written(s: PipelineState, w: OperationWindow, loop: int, apart: float) -> bool:
    """True if code has a loop for the turns that are not `apart`; few turns are unrolled, unless a
    loop inside has more.
    """
    turns = iterations_of(s, loop) - apart
    for inner in range(loop + 1, s.clock.loops if turns + apart > 1.0 else 0):
        turns = max(turns, iterations_of(s, inner))
    return bool(turns > w.unrolled)


@piece
def _play_candidate(s: PipelineState, w: OperationWindow) -> Any:
    """Play one candidate from its start to its end; returns its cycles."""
    mark_looped(s)
    _reset(s, w)
    top = at(s.levels, 0)
    _items(s, w, top.before, top.before_end, 0)
    loop, down, filled = 0, True, False  # go down into inner loops, then up over finished bodies
    while loop >= 0:
        if down:
            if loop < s.clock.loops and _begin(s, w, loop, 0):
                if _is_written(s, w, loop, w.apart[loop]):
                    w.state[0] += w.moved[loop] + 1.0
                if iterations_of(s, loop) > 1.0 and not filled:
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
        level = at(s.levels, loop)
        if _is_written(s, w, loop, 0.0):
            turned = w.clock[0] + w.moved[loop]
            if _is_written(s, w, loop, w.apart[loop]):
                turned += TURN_STATEMENTS
            w.clock[0] = w.state[0] = max(w.state[0] + 1.0, turned)
        _keep(s, w, loop)
        goes_on = w.left[loop] > 0.0
        if goes_on:
            level.kind = kind_in_turn(s, loop)
        else:
            following = kind_behind(s, loop)
            goes_on = following >= 0 and _begin(s, w, loop, following)
        if goes_on:
            _turn(s, w, loop)
            loop += 1
            down = True
        else:
            level.kind, level.following = 0, -1
    return _finish_window(s, w)


def least_in_window(sums: UnitSums) -> Floats:
    """Lower bound on the cycles of each tile: operations that run alone, plus the others of the
    busiest unit.
    """
    return _BOUND * (sums.alone + sums.busy)


@entry_point(pipeline_types, pipeline_rows, pipeline_crowds, pipeline_iteration, pipeline)
def play_window(
    s: PipelineState,
    w: OperationWindow,
    tables: Tables,
    order: Ints,
    least: Floats,
    best: Floats,
    cycles: Floats,
) -> None:
    """As `pipeline.play`, with a window of operations in flight; `issue` in the tables counts
    operations.
    """
    keep = best.shape[1]
    for i in order:
        c, j = i // cycles.shape[1], i % cycles.shape[1]
        contest = tables.contest[j]
        if keep > 0 and least[c, j] > best[contest, keep - 1]:
            continue
        take_tile(s, tables, j)
        for row in range(tables.issue.shape[0]):
            cost = at(s.costs, row)
            cost.issue, cost.first = tables.issue[row, j], tables.others[0, row, j]
            cost.last = tables.others[1, row, j]
            cost.before, cost.behind = tables.others[2, row, j], tables.others[3, row, j]
            cost.paced = tables.others[4, row, j]
        for b in range(s.clock.buffers):
            at(s.buffers, b).double = tables.doubles[c, b]
        s.clock.now = _play_candidate(s, w)
        enter(s, best, contest)
        cycles[c, j] = s.clock.now
