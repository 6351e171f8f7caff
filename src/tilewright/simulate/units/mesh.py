"""The clock: contacts between cores happen in order of cycle, then of core number."""

from __future__ import annotations

from tilewright.common.compiled import at, entry_point, piece
from tilewright.isa import effects
from tilewright.simulate.units import (
    buses,
    decoupled,
    execute,
    integers,
    issue,
    layout,
    messages,
    ports,
    streams,
)
from tilewright.simulate.units.decoupled import step_decoupled
from tilewright.simulate.units.issue import settle, step_in_order
from tilewright.simulate.units.layout import (
    FAULTED,
    NEVER,
    RUNNING,
    Arrays,
    CoreState,
    MachineState,
    State,
)
from tilewright.simulate.units.messages import advance, head_time

_SOURCES = (buses, decoupled, effects, execute, integers, issue, layout, messages, ports, streams)


@piece
def begin_cycle(m: MachineState) -> bool:
    """Go to the next cycle in which a core is due; False when the run ends."""
    if m.faulted or m.next == NEVER or m.next > m.max_cycles:
        return False
    m.now, m.next = m.next, NEVER
    return True


@piece
def note_core(m: MachineState, core: CoreState) -> None:
    """Remember when the core is due again, and whether it failed."""
    m.next = min(m.next, core.wake)
    if core.status == FAULTED:
        m.faulted = True


@piece
def settle_all(s: State, cores: int) -> None:
    """Charge the stalls that still go on when a run ends early."""
    for c in range(cores):
        core = at(s.cores, c)
        if core.status == RUNNING and core.since < s.machine.now:
            settle(s, s.machine, core, s.machine.now)


@piece
def move_heads(s: State, m: MachineState) -> None:
    """Lead on all heads that no message can come before that is sent from now on."""
    while m.waiting and not m.faulted and head_time(s) < m.next + m.send_cycles:
        advance(s, m)


@piece
def known_until(s: State, m: MachineState) -> int:
    """The first cycle in which a message may be at its node that is not in its inbox yet; without
    messages cores meet in every cycle.
    """
    if not m.fabric:
        return m.now + 1
    end = m.shortest + m.receive_cycles
    soonest = m.now + m.send_cycles + m.hop + end
    return min(soonest, head_time(s) + end) if m.waiting else soonest


@entry_point(*_SOURCES)
def run_in_order(a: Arrays) -> None:
    """Run until every core is done, one faults, all wait for each other, or time is up.

    Cores that exchange messages run ahead as far as none can reach them.
    """
    s = State(a.code[0], a.cores[0], a.machine[0], a.trace[0], a.spans[0], a.flights[0])
    m, cores = s.machine, len(a.cores)
    while begin_cycle(m):
        end = known_until(s, m)
        for c in range(cores):
            core = at(s.cores, c)
            if core.wake < end:
                core.woken = 0
                if m.fabric:
                    core.horizon, core.stop = end, min(end, core.interrupt)
                step_in_order(s, m, core)
            note_core(m, core)
        move_heads(s, m)
    settle_all(s, cores)


@entry_point(*_SOURCES)
def run_decoupled(a: Arrays) -> None:
    """`run_in_order` with units out of order relative to each other."""
    s = State(a.code[0], a.cores[0], a.machine[0], a.trace[0], a.spans[0], a.flights[0])
    m, cores = s.machine, len(a.cores)
    while begin_cycle(m):
        for c in range(cores):
            core = at(s.cores, c)
            if core.wake <= m.now:
                core.woken = 0
                step_decoupled(s, m, core)
            note_core(m, core)
    settle_all(s, cores)
