"""The clock: contacts between cores happen in order of cycle, then of core number."""

from __future__ import annotations

from typing import Any

from tilewright.common.compiled import at, entry_point, piece
from tilewright.isa import effects
from tilewright.simulate.units import buses, codes, execute, integers, issue, layout, messages
from tilewright.simulate.units.issue import (
    choose_unit,
    commit,
    fetched_at,
    obstacle,
    settle,
    stall,
    step_in_order,
)
from tilewright.simulate.units.layout import Arrays, CoreState, MachineState, RowState, UnitState
from tilewright.simulate.units.messages import advance_message, head_time

_SOURCES = (buses, codes, effects, execute, integers, issue, layout, messages)

# Units that run out of order relative to each other, each in order itself.
#
# Reported for the SW26010: a waiting vector instruction does not hold up a later load. Fetched
# instructions wait in a window; one may issue if no older waiting one shares a unit, a register
# dependence, or a memory or communication order with it. Fetch stops after a branch until the
# branch issues.


@piece
def fetch(s: UnitState, m: MachineState, core: CoreState, t: int) -> None:
    """Fill the window up to the next branch."""
    while 0 <= core.fetch < core.end and core.queued < m.window and t >= core.fetch_at:
        i = core.fetch
        if core.cached and fetched_at(m, core, i, t) > t:
            core.fetch_at, core.fetch_cause = core.line_at, layout.FETCH
            return
        core.queue[core.queued] = i
        core.queued += 1
        if at(s.code, i).flags & layout.INTERACTS:
            core.contacts += 1
        core.fetch = -1 if at(s.code, i).flags & layout.IS_BRANCH else i + 1


@piece
def ordered_after(own: int, older: int) -> bool:
    """True if an instruction with flags `own` must wait for older ones with flags `older`."""
    if own & layout.IS_ORDERED or older & layout.IS_ORDERED:
        return True
    if own & layout.IS_STORE and older & (layout.IS_LOAD | layout.IS_STORE):
        return True
    if own & layout.IS_LOAD and older & layout.IS_STORE:
        return True
    return own & older & layout.IS_CHANNEL != 0


@piece
def depends(core: CoreState, row: RowState, stamp: int) -> bool:
    """True if a row depends on an older waiting one through a register (RAW, WAW, WAR)."""
    written, result = core.pending_write, row.waits
    if written[row.a] == stamp or written[row.b] == stamp or written[row.c] == stamp:
        return True
    return bool(written[result] == stamp or core.pending_read[result] == stamp)


@piece
def mark_waiting(m: MachineState, core: CoreState, row: RowState, stamp: int) -> None:
    """Mark the registers of an instruction that stays in the window."""
    for register in (row.a, row.b, row.c):
        if register != m.zero:
            core.pending_read[register] = stamp
    if row.waits != m.zero:
        core.pending_write[row.waits] = stamp


@piece
def try_issue(
    s: UnitState, m: MachineState, core: CoreState, row: RowState, units: int, stamp: int, t: int
) -> Any:
    """(cause, register, cycle to look again) for an instruction that no memory order holds up."""
    if depends(core, row, stamp):
        return layout.ORDER, -1, layout.NEVER
    if m.overwrite_next_cycle and core.read_at[row.d] == t:
        return layout.ORDER, -1, t + 1
    unit = choose_unit(m, core, units, 0, t)
    return obstacle(s, m, core, row, units, unit, t)


@piece
def cycle_decoupled(s: UnitState, m: MachineState, core: CoreState, t: int) -> bool:
    """One cycle of a core with decoupled units; False when others must catch up first."""
    fetch(s, m, core, t)
    if t > m.now and not m.ideal and core.contacts > 0:
        core.wake = t
        return False
    stamp, waiting = t + 1, core.queued  # marks of other cycles need no clearing: stamps differ
    issued, kept, busy_units, older, again = 0, 0, 0, 0, layout.NEVER
    oldest = core.queue[0] if waiting else max(core.fetch, core.base)
    first_cause, first_register = core.fetch_cause, -1
    for k in range(waiting):
        i = core.queue[k]
        row = at(s.code, i)
        units = row.units & ~busy_units
        cause, register, when = layout.ORDER, -1, layout.NEVER
        held = kept > 0 and ordered_after(row.flags, older)
        if issued < m.width and units and not held:
            cause, register, when = try_issue(s, m, core, row, units, stamp, t)
        if cause == layout.ISSUING:
            if issued == 0:
                settle(s, m, core, t)
            core.pc = i
            following = commit(s, m, core, row, choose_unit(m, core, units, 0, t), t)
            if following < 0:
                return False
            issued += 1
            if row.flags & layout.INTERACTS:
                core.contacts -= 1
            if row.flags & layout.IS_BRANCH:
                core.fetch, core.fetch_cause = following, layout.PENALTY
                core.fetch_at = t + 1 + (m.taken_branch_penalty if following != i + 1 else 0)
            continue
        if k == 0:
            first_cause, first_register = cause, register
        again = min(again, when)
        core.queue[kept] = i
        kept += 1
        busy_units |= row.units
        older |= row.flags
        mark_waiting(m, core, row, stamp)
    core.queued = kept
    if issued:
        core.issue_cycles += 1
        again = t + 1
    elif kept == 0:
        again = core.fetch_at
    finish_cycle(s, m, core, oldest, issued, first_cause, first_register, again, t)
    return core.wake <= m.max_cycles


@piece
def finish_cycle(
    s: UnitState,
    m: MachineState,
    core: CoreState,
    oldest: int,
    issued: int,
    cause: int,
    register: int,
    again: int,
    t: int,
) -> None:
    """Charge the cycle and decide when to look at the core again."""
    if core.queued == 0 and core.fetch >= core.end:
        core.status, core.wake = layout.DONE, layout.NEVER
        return
    if not issued:
        stall(s, m, core, oldest, cause, register, t)
    core.wake = again


@piece
def step_decoupled(s: UnitState, m: MachineState, core: CoreState) -> None:
    """Run a core from the current cycle to its next contact with another core."""
    while cycle_decoupled(s, m, core, core.wake):
        pass


@piece
def begin_cycle(m: MachineState) -> bool:
    """Advance to the next cycle in which a core is due; False at the end of the run."""
    if m.faulted or m.next == layout.NEVER or m.next > m.max_cycles:
        return False
    m.now, m.next = m.next, layout.NEVER
    return True


@piece
def note_core(m: MachineState, core: CoreState) -> None:
    """Remember when the core is due again, and whether it failed."""
    m.next = min(m.next, core.wake)
    if core.status == layout.FAULTED:
        m.faulted = True


@piece
def settle_all(s: UnitState, cores: int) -> None:
    """Charge the stalls that are still open when a run ends early."""
    for c in range(cores):
        core = at(s.cores, c)
        if core.status == layout.RUNNING and core.since < s.machine.now:
            settle(s, s.machine, core, s.machine.now)


@piece
def move_heads(s: UnitState, m: MachineState) -> None:
    """Advance all heads that no message sent from now on can precede."""
    while m.waiting and not m.faulted and head_time(s) < m.next + m.send_cycles:
        advance_message(s, m)


@piece
def known_until(s: UnitState, m: MachineState) -> int:
    """First cycle in which a message that is not yet in an inbox may arrive; without a fabric,
    cores meet in every cycle.
    """
    if not m.fabric:
        return m.now + 1
    end = m.shortest + m.receive_cycles
    soonest = m.now + m.send_cycles + m.hop + end
    return min(soonest, head_time(s) + end) if m.waiting else soonest


@entry_point(*_SOURCES)
def run_in_order(a: Arrays) -> None:
    """Run until every core is done, one faults, all wait for each other, or time is up.

    Cores that exchange messages run ahead until a message may interrupt them or, if they accept
    none, until they wait for one.
    """
    s = UnitState(
        a.code[0], a.cores[0], a.machine[0], a.trace[0], a.spans[0], a.flights[0], a.heads[0]
    )
    m, cores = s.machine, len(a.cores)
    while begin_cycle(m):
        end = known_until(s, m)
        for c in range(cores):
            core = at(s.cores, c)
            if core.wake < end:
                core.woken = 0
                if m.fabric:
                    core.horizon = end
                    core.stop = min(end, core.interrupt) if core.accepts else layout.NEVER
                step_in_order(s, m, core)
            note_core(m, core)
        move_heads(s, m)
    settle_all(s, cores)


@entry_point(*_SOURCES)
def run_decoupled(a: Arrays) -> None:
    """`run_in_order`, with units out of order relative to each other."""
    s = UnitState(
        a.code[0], a.cores[0], a.machine[0], a.trace[0], a.spans[0], a.flights[0], a.heads[0]
    )
    m, cores = s.machine, len(a.cores)
    while begin_cycle(m):
        for c in range(cores):
            core = at(s.cores, c)
            if core.wake <= m.now:
                core.woken = 0
                step_decoupled(s, m, core)
            note_core(m, core)
    settle_all(s, cores)
