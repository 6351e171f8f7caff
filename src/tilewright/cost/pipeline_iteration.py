"""One iteration of a loop's body: its items on the core's clock and in the engine's queue, and the
loop inside as one opaque step.

All of it runs inside `pipeline.play`.
"""

from __future__ import annotations

from typing import Any

from tilewright.common.compiled import at, piece
from tilewright.cost.pipeline_rows import cost_of, iterations_of, next_row_of
from tilewright.cost.pipeline_types import COPY, GET, PUT, BufferTimes, Cost, PipelineState, Summary


@piece
def end_of(s: PipelineState) -> Any:
    """When the last of all cores is done."""
    clock = s.clock
    return clock.now if clock.joined == 1.0 else max(clock.now, clock.others)


@piece
def _let_go(s: PipelineState, cost: Cost) -> None:
    """Let the cores go on that have no part in a transfer."""
    clock = s.clock
    if cost.own < 1.0 and clock.joined == 1.0:
        clock.joined, clock.others, clock.others_first = cost.own, clock.now, clock.first


@piece
def _serve(
    s: PipelineState, cost: Cost, first: float, last: float, service: float, share: float
) -> Any:
    """Serve the requests of cores from the first one's to the last one's, a core's taking a `share`
    of a request's service. Returns when the first core is served; it has `ended` when all are.
    """
    clock, ahead = s.clock, last - first
    later = max(0.0, cost.issue - clock.issue)
    start = max(clock.free, first - later + clock.latency)
    clock.free = clock.ended = max(start + service, last + clock.latency + share)
    before = 0.0  # the share of requests before the first core's last
    if later > 0.0:
        before = later / (2.0 * ahead) if later < ahead else 1.0 - ahead / (2.0 * later)
        before *= service * later / cost.issue
    return max(start + before, first + clock.latency) + share


@piece
def _serve_others(s: PipelineState, cost: Cost, service: float, share: float) -> None:
    """Serve the requests of cores that have clocks of their own."""
    clock = s.clock
    clock.others_first_ended = _serve(s, cost, clock.others_first, clock.others, service, share)
    clock.others_ended = clock.ended


@piece
def _ask(s: PipelineState, cost: Cost) -> Any:
    """Make a transfer's requests, which the engine serves in the order in which they come from all
    cores. Returns when it has served the first core; it has `ended` when it has served all, but for
    the others.
    """
    _let_go(s, cost)
    clock = s.clock
    own, is_behind = max(cost.own, 1e-9), clock.others_first > clock.first
    service = cost.service * min(1.0, clock.joined / own)
    rest = cost.service - service
    share = cost.service / (max(1.0, cost.issue / max(1.0, clock.issue)) * clock.cores * own)
    clock.now += cost.issue
    clock.first += cost.issue
    clock.busy += cost.service
    clock.others_ended = clock.others_first_ended = 0.0
    if rest > 0.0:
        clock.others += cost.issue
        clock.others_first += cost.issue
        if not is_behind:
            _serve_others(s, cost, rest, share)
    first = _serve(s, cost, clock.first, clock.now, service, share)
    if rest > 0.0 and is_behind:
        ended = clock.ended
        _serve_others(s, cost, rest, share)
        clock.ended = ended
    return first


@piece
def _wait(s: PipelineState, first: float, last: float) -> None:
    """Wait, on the first core and on the last one."""
    s.clock.first = max(s.clock.first, first)
    s.clock.now = max(s.clock.now, last)


@piece
def _wait_others(s: PipelineState, first: float, last: float) -> None:
    """Wait, on the first one of the others and on the last one."""
    s.clock.others_first = max(s.clock.others_first, first)
    s.clock.others = max(s.clock.others, last)


@piece
def start_fetch(s: PipelineState, number: int, cost: Cost) -> None:
    """Start the transfer of an item, which fetches a tile ahead."""
    buffer = at(s.buffers, at(s.items, number).buffer)
    if cost.service > 0.0:
        buffer.first_arrived = _ask(s, cost)
        buffer.arrived, buffer.others_arrived = s.clock.ended, s.clock.others_ended
        buffer.others_first_arrived = s.clock.others_first_ended


@piece
def play_items(s: PipelineState, first: int, end: int, looped: int) -> None:
    """Play the items of a span."""
    clock = s.clock
    for number in range(first, end):
        item = at(s.items, number)
        cost, kind = cost_of(s, item, number), item.kind
        if kind <= COPY:
            if item.together and cost.service > 0.0:
                clock.first = clock.now = end_of(s)
                clock.joined = 1.0
            cycles = cost.service if clock.joined == 1.0 else cost.own
            clock.first += cycles
            clock.now += cycles
            clock.others += cost.service
            clock.others_first += cost.service
        elif cost.service > 0.0:
            buffer = at(s.buffers, item.buffer)
            if kind == GET and buffer.double and looped:
                _let_go(s, cost)
                _wait(s, buffer.first_arrived, buffer.arrived)
                _wait_others(s, buffer.others_first_arrived, buffer.others_arrived)
                row = next_row_of(s, item, number)
                if row >= 0:
                    start_fetch(s, number, at(s.costs, row))
                continue
            first = _ask(s, cost)
            if kind == GET or not looped:
                _wait(s, first, clock.ended)
                _wait_others(s, clock.others_first_ended, clock.others_ended)
            else:
                _store(s, buffer, first)


@piece
def _store(s: PipelineState, buffer: BufferTimes, first: float) -> None:
    """Note when the latest store of a buffer ends, and move the one before up."""
    buffer.first_stored_before, buffer.first_stored = buffer.first_stored, first
    buffer.stored_before, buffer.stored = buffer.stored, s.clock.ended
    buffer.others_first_stored_before = buffer.others_first_stored
    buffer.others_first_stored = s.clock.others_first_ended
    buffer.others_stored_before = buffer.others_stored
    buffer.others_stored = s.clock.others_ended


@piece
def _reuse(s: PipelineState, first: int, end: int) -> None:
    """Wait until the slots that the span's stores leave from may be written again."""
    for number in range(first, end):
        item = at(s.items, number)
        if item.kind == PUT:
            buffer = at(s.buffers, item.buffer)
            if buffer.double:
                _wait(s, buffer.first_stored_before, buffer.stored_before)
                _wait_others(s, buffer.others_first_stored_before, buffer.others_stored_before)
            else:
                _wait(s, buffer.first_stored, buffer.stored)
                _wait_others(s, buffer.others_first_stored, buffer.others_stored)


@piece
def _opaque(s: PipelineState, loop: int, inner: Summary) -> None:
    """Run a summarised loop: late by what its last run left under way, or by the backlog it can not
    absorb.
    """
    clock, level = s.clock, at(s.levels, loop)
    start, free = end_of(s), clock.free
    end = max(start + max(0.0, free - start - inner.headroom), level.due) + inner.elapsed
    end -= min(clock.now - clock.first, inner.gain)
    if inner.busy > 0.0:
        end = max(end, max(start, free) + inner.busy - max(0.0, inner.lead))
        clock.free = max(end + inner.lead, max(free, start) + inner.busy)
        level.due = end + inner.delay
    clock.now, clock.first = end - inner.waits, end - inner.ahead
    clock.others, clock.others_first = end - inner.others, end - inner.others_first
    clock.joined = inner.joined
    clock.busy += inner.busy


@piece
def _goes_on(s: PipelineState, loops: int) -> bool:
    """True if any of the outermost `loops` loops has another iteration."""
    goes_on = False
    for d in range(loops):
        goes_on = goes_on or at(s.levels, d).following >= 0
    return goes_on


@piece
def _place(s: PipelineState, loops: int) -> int:
    """The number of the present combination of kinds of the outermost `loops` loops."""
    place = 0
    for d in range(loops):
        level = at(s.levels, d)
        place = place * level.kinds + level.kind
    return place


@piece
def summary_of(s: PipelineState, loop: int, place: int) -> Summary:
    """The summary of a loop for one combination of kinds of the loops around it; the last one is
    that of its very last run.
    """
    return at(s.summaries, loop * (s.clock.combinations + 1) + place)


@piece
def play_iteration(s: PipelineState, level: int) -> None:
    """Play one run of the body at `level`. Loops of one iteration dissolve; the first real one
    inside is opaque.
    """
    loops, deep = s.clock.loops, level
    while deep < loops and iterations_of(s, deep) == 1.0:
        deep += 1
    if at(s.levels, level).looped:
        for d in range(level, deep + 1):
            body = at(s.levels, d)
            _reuse(s, body.before, body.before_end)
            _reuse(s, body.after, body.after_end)
    for d in range(level, deep + 1):
        body = at(s.levels, d)
        play_items(s, body.before, body.before_end, body.looped)
    if deep < loops:
        place = _place(s, deep) if _goes_on(s, deep) else s.clock.combinations
        _opaque(s, deep, summary_of(s, deep, place))
    for d in range(deep, level - 1, -1):
        body = at(s.levels, d)
        play_items(s, body.after, body.after_end, body.looped)
