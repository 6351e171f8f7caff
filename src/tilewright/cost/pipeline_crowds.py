"""Crowds of cores: their calls and their requests to the engine, in the order of time.

The rules of the kernel simulation (`simulate.kernel.state`), applied to shares of the cores.
Everything here runs inside `pipeline.play`.
"""

from __future__ import annotations

from typing import Any

from tilewright.common.compiled import at, hot_piece, piece
from tilewright.cost.pipeline_types import (
    APART,
    KEPT,
    MOST_AHEAD,
    MOST_BEHIND,
    OWN,
    Clock,
    Cost,
    Crowd,
    KeptAction,
    PipelineState,
    Served,
)

_SPEND, _ASK, _AWAIT = range(3)
_NEVER = -1e18
"""Time of the last transfer of a slot without a transfer in flight."""


@hot_piece
def parted(s: PipelineState) -> bool:
    """True if the cores without a part in a transfer form a crowd of their own."""
    return at(s.crowds, OWN).share < 1.0


@hot_piece
def now_of(s: PipelineState) -> Any:
    """Time at which the last core is done."""
    last = at(s.crowds, OWN).last
    return max(last, at(s.crowds, APART).last) if parted(s) else last


@piece
def end_of(s: PipelineState) -> Any:
    """Time at which all cores and all transfers are done."""
    end = now_of(s)
    for place in range(s.clock.places):
        end = max(end, at(s.served, place).last)
    return end


@hot_piece
def later(crowd: Crowd | Served, cycles: float) -> None:
    """Shift the times of a crowd or a transfer."""
    crowd.first += cycles
    crowd.last += cycles
    crowd.start += cycles


@hot_piece
def _until(crowd: Crowd, served: Served) -> None:
    """Let a crowd wait for a transfer, and mark the transfer as done."""
    if served.last > crowd.last:
        crowd.last, crowd.start = served.last, served.start
    crowd.first = max(crowd.first, served.first)
    served.first = served.last = served.asked_last = _NEVER


@piece
def reset(s: PipelineState) -> None:
    """Set the clocks to zero, with nothing in flight."""
    s.clock.free = 0.0
    for number in range(2):
        crowd = at(s.crowds, number)
        crowd.first = crowd.last = crowd.start = crowd.spared = 0.0
        crowd.share, crowd.done, crowd.known = 1.0 - number, 0, 0
    for place in range(s.clock.places):
        served = at(s.served, place)
        served.first = served.last = served.start = served.free = served.asked_last = _NEVER
        served.part = 0.0


@piece
def _part(first: float, last: float, until: float, before: float, own: Any, apart: Any) -> None:
    """Split evenly spaced times: `own` spans the leading share `until` of the cores, `apart` those
    from the share `before` on.
    """
    own.first, own.last, own.start = first, first + (last - first) * until, first
    apart.first = apart.start = first + (last - first) * before
    apart.last = last


@piece
def _let_go(s: PipelineState, part: float, until: float) -> None:
    """Split cores that were together: those without a `part` in a transfer go on by themselves."""
    own, apart = at(s.crowds, OWN), at(s.crowds, APART)
    before = until if part == until else 0.0
    own.share, own.until, apart.share = part, until, 1.0 - part
    end = until - (1.0 - part / until) * s.clock.columns / s.clock.cores
    _part(own.first, own.last, end, before, own, apart)
    later(own, -own.spared)
    later(apart, -apart.spared)
    for place in range(0, s.clock.places, 2):
        served, others = at(s.served, place), at(s.served, place + 1)
        if served.part == 1.0 and others.last < 0.0:
            _part(served.first, served.last, end, before, served, others)
            others.free, served.asked_last = served.free, _NEVER


@hot_piece
def meet(s: PipelineState) -> None:
    """Synchronise all cores with the last one."""
    if parted(s):
        go_on(s, True)
    now = now_of(s)
    for number in range(2):
        crowd = at(s.crowds, number)
        crowd.first = crowd.last = crowd.start = now
        crowd.share, crowd.spared = 1.0 - number, 0.0


@hot_piece
def spend(s: PipelineState, cost: Cost) -> None:
    """Advance all cores by a call, or by a copy that each core makes itself."""
    own, apart = at(s.crowds, OWN), at(s.crowds, APART)
    if own.share == 1.0:
        later(own, cost.service)
        if cost.own != cost.apart:
            ahead = own.spared - cost.own - (apart.spared - cost.apart)
            own.spared, apart.spared = max(0.0, ahead), max(0.0, -ahead)
    elif cost.service > 0.0:
        _keep_near(s)
        _append(s, OWN, _SPEND, cost.own, 0, 0)
        at(s.actions, OWN * KEPT + (own.known - 1) % KEPT).early = max(cost.own - cost.issue, 0.0)
        _append(s, APART, _SPEND, cost.apart, 0, 0)
        go_on(s, False)


@piece
def _in_both(part: float, until: float, other: float, other_until: float) -> float:
    """Share of the cores with a part in both transfers: the fewer rows, at the shorter length."""
    least = min(part, other)
    if until > 0.0 and other_until > 0.0:
        least = min(least, part * other_until / until, other * until / other_until)
    return least


@hot_piece
def ask(s: PipelineState, row: int, place: int) -> None:
    """Issue a transfer's requests, which the engine serves in the order of their arrival."""
    cost = at(s.costs, row)
    if cost.own < 1.0 and not parted(s):
        _let_go(s, cost.own, cost.apart)
    at(s.served, place).part, at(s.served, place).until = cost.own, cost.apart
    own = at(s.crowds, OWN)
    if own.share == 1.0:
        _serve(s, OWN, cost, cost.own, at(s.served, place))
        return
    rest = max(cost.own - _in_both(cost.own, cost.apart, own.share, own.until), 0.0)
    _keep_near(s)
    _append(s, OWN, _ASK, cost.own - rest, row, place)
    if rest > 0.0:
        _append(s, APART, _ASK, rest, row, place + 1)
    go_on(s, False)


@hot_piece
def wait(s: PipelineState, place: int) -> None:
    """Let all cores wait for the transfer of a slot, if one is in flight."""
    served = at(s.served, place)
    if served.part == 0.0:
        return
    if served.part < 1.0 and not parted(s):
        _let_go(s, served.part, served.until)
    served.part = 0.0
    own, apart = at(s.crowds, OWN), at(s.crowds, APART)
    if own.share == 1.0:
        before = own.last
        _until(own, served)
        if at(s.served, place + 1).last > 0.0:
            _until(own, at(s.served, place + 1))
        if own.spared != apart.spared:
            own.spared = max(0.0, own.spared - (own.last - before))
            apart.spared = max(0.0, apart.spared - (own.last - before))
        return
    _keep_near(s)
    _append(s, OWN, _AWAIT, 0.0, 0, place)
    _append(s, APART, _AWAIT, 0.0, 0, place + 1)
    go_on(s, False)


@piece
def _keep_near(s: PipelineState) -> None:
    """Limit the lead of one crowd over the other to `MOST_AHEAD`."""
    least = now_of(s) - MOST_AHEAD
    for number in range(2):
        crowd = at(s.crowds, number)
        later(crowd, max(least - crowd.last, 0.0))


@piece
def _append(s: PipelineState, crowd: int, kind: int, amount: float, row: int, place: int) -> None:
    """Append an action to a crowd's queue."""
    own = at(s.crowds, crowd)
    action = at(s.actions, crowd * KEPT + own.known % KEPT)
    own.known += 1
    action.kind, action.amount, action.row, action.place = kind, amount, row, place
    action.served = action.early = 0.0


@piece
def _oldest(s: PipelineState, crowd: int) -> KeptAction:
    """The oldest action in a crowd's queue."""
    return at(s.actions, crowd * KEPT + at(s.crowds, crowd).done % KEPT)


@piece
def go_on(s: PipelineState, whole: bool) -> None:
    """Perform queued actions in the order of time, each once no request of the other crowd can
    precede it; with `whole`, empty both queues.
    """
    own, apart = at(s.crowds, OWN), at(s.crowds, APART)
    while own.done < own.known or apart.done < apart.known:
        first = OWN if own.last <= apart.last else APART
        kept = own.known - own.done + apart.known - apart.done
        acts, other = at(s.crowds, first), at(s.crowds, 1 - first)
        forced = whole or kept > MOST_BEHIND
        if acts.done < acts.known:
            if not (other.done < other.known or other.first > acts.last or forced):
                return
        elif forced:
            first = 1 - first
        else:
            return
        _perform(s, first)


@piece
def _perform(s: PipelineState, crowd: int) -> None:
    """Perform the oldest action in a crowd's queue."""
    own, action = at(s.crowds, crowd), _oldest(s, crowd)
    own.done += 1
    if action.kind == _SPEND:
        later(own, action.amount)
        own.first -= action.early
        own.start -= action.early
    elif action.kind == _ASK:
        served, first = at(s.served, action.place), own.first
        _serve(s, crowd, at(s.costs, action.row), action.amount, served)
        if action.served > 0.0:
            served.first = served.start = first + action.served
    else:
        _until(own, at(s.served, action.place))


@hot_piece
def _share(clock: Clock, cost: Cost) -> float:
    """Cycles for which the engine serves one request of one core."""
    requests = cost.issue / clock.issue if cost.issue > clock.issue >= 1.0 else 1.0
    return cost.service / cost.own / (requests * clock.cores)


@hot_piece
def _serve(s: PipelineState, crowd: int, cost: Cost, part: float, served: Served) -> None:
    """Serve the requests that a crowd issues now, first come, first served."""
    clock, own = s.clock, at(s.crowds, crowd)
    first, last = own.first, own.last
    if parted(s):
        _serve_earlier(s, 1 - crowd, first)
    if crowd == OWN and cost.apart < own.share:
        last = first + (last - first) * cost.apart / own.share
    behind = max(0.0, cost.issue - clock.issue)
    share, service = _share(clock, cost), cost.service / cost.own * part
    arrival = first + cost.issue + clock.latency
    final = last + cost.issue + clock.latency
    start = max(clock.free, arrival - behind)
    begin = max(clock.free - _go_between(s, crowd, arrival, final, service), arrival - behind)
    end = max(start + service, final + share)
    before, ahead = 0.0, last - first  # the share of requests before the first core's last
    if behind > 0.0:
        before = behind / (2.0 * ahead) if behind < ahead else 1.0 - ahead / (2.0 * behind)
        before *= service * behind / cost.issue
    served.first = served.start = min(max(begin + before, arrival) + share, end)
    served.last, served.asked, served.asked_last, served.service = end, arrival, final, service
    later(own, cost.issue)
    served.free = clock.free = start + service


@hot_piece
def _go_between(s: PipelineState, crowd: int, first: float, last: float, service: float) -> float:
    """Interleave a transfer with earlier ones of the crowd: the first cores request it before the
    last cores request those. Returns the service cycles of the requests that it overtakes.
    """
    behind = 0.0
    for place in range(crowd, s.clock.places, 2):
        other = at(s.served, place)
        late, spread = other.asked_last - first, other.asked_last - other.asked
        if late > 0.0 and spread > 0.0:
            behind += other.service * late / spread
            other.free += service * late / (last - first) if late < last - first else service
            other.last = max(other.last, other.free)
    return behind


@piece
def _serve_earlier(s: PipelineState, crowd: int, cycle: float) -> None:
    """Serve the requests for a crowd's next transfer that some of its cores make before `cycle`."""
    clock, own, action = s.clock, at(s.crowds, crowd), _oldest(s, crowd)
    if own.done == own.known or action.kind != _ASK:
        return
    if own.first <= cycle < own.last:
        cost = at(s.costs, action.row)
        early = action.amount * max(0.0, cycle - own.start) / (own.last - own.start)
        early = (early * clock.cores + 1e-9) // 1.0 / clock.cores
        if early > 0.0:
            begin = max(clock.free, own.first + cost.issue + clock.latency)
            clock.free = begin + cost.service * early / cost.own
            action.amount -= early
            if action.served == 0.0:
                action.served = begin + _share(clock, cost) - own.first
