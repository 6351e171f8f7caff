"""A kernel's state depends on how far things are from now, and not on the cycle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.cost.pipeline_types import APART, OWN
from tilewright.ir.parser import parse
from tilewright.machine import Machine, load_machine
from tilewright.simulate.kernel import level
from tilewright.simulate.kernel.cost import MoveCost, Participants
from tilewright.simulate.kernel.engines import EngineRule, Request
from tilewright.simulate.kernel.level import simulate
from tilewright.simulate.kernel.state import Ask, Await, Clocks, KernelState, Pending

IN_TURN = """\
def in_turn():
    x: tensor("f64", "input", e=16)
    y: tensor("f64", "output", e=16)
    t: buffer("f64", 16)
    get(x[at(0, 16)], t[0])
    wait(t[0])
    get(x[at(0, 16)], t[0])
    wait(t[0])
    put(t[0], y[at(0, 16)])
    wait(t[0])
    get(x[at(0, 16)], t[0])
    wait(t[0])
"""

CORES, COLUMNS, BEGIN = 64, 8, 50_000
EVERY = Participants(CORES, CORES)
PARTS = st.sampled_from([EVERY, Participants(4, 4), Participants(16, 16), Participants(24, 64)])
CYCLES, CROWDS, SLOTS = st.integers(0, 400), st.sampled_from([OWN, APART]), st.integers(0, 2)
ACTIONS = st.one_of(
    st.tuples(st.just("spend"), CROWDS, CYCLES),
    st.tuples(st.just("ask"), CROWDS, SLOTS, PARTS, st.integers(1, 4), st.integers(64, 600)),
    st.tuples(st.just("keep"), CROWDS, SLOTS, PARTS, st.integers(1, 4), st.integers(64, 600)),
    st.tuples(st.just("let_go"), PARTS),
    st.tuples(st.just("wait"), CROWDS, SLOTS),
    st.tuples(st.just("in_crowds"), CYCLES, CYCLES),
    st.tuples(st.just("keep_near")),
    st.tuples(st.just("next_crowd"), st.booleans()),
    st.tuples(st.just("together")),
)


def begun(cycle: int) -> KernelState:
    """A state whose cores are served from that cycle on, the last 200 cycles after the first."""
    return KernelState(CORES, COLUMNS, cycle + 200, [Clocks(cycle, cycle + 200, cycle)] * 2)


def done(state: KernelState, action: tuple[Any, ...]) -> Any:
    """The answer of a state to an action: a cycle, the pieces of a wait, or a crowd."""
    match action:
        case "spend", crowd, cycles:
            state.spend(crowd if state.own else OWN, cycles)
        case "ask" | "keep" as how, crowd, number, part, requests, service:
            slot, crowd = ("t", number), crowd if state.own else OWN
            cost = MoveCost(8, requests, 10 * requests, service, part, service, service)
            ask = Ask(slot, number, "get", 100, cost, part.cores)
            if how == "keep":
                state.behind[crowd].append(ask)
            else:
                state.pending[slot] = Pending(part, number)
                return state.ask(crowd, ask)
        case "let_go", part:
            state.let_go(part)
        case "wait", crowd, number:
            return state.wait(crowd if state.own else OWN, Await(("t", number), number, "get"))
        case "in_crowds", own, apart:
            state.in_crowds(max(own, apart), own, apart)
        case "next_crowd", whole:
            return state.next_crowd(whole=whole)
        case (name,):
            getattr(state, name)()
    return None


def sooner(said: Any, cycles: int) -> Any:
    """An answer so many cycles earlier; a crowd is below 2."""
    match said:
        case list():
            return [(cause, start - cycles, own) for cause, start, own in said]
        case int() if said > 1:
            return said - cycles
        case _:
            return said


@examples(400)
@given(st.lists(ACTIONS, max_size=12), st.integers(1, 10_000))
def test_later_by_some_cycles_all_is_later_by_as_many(
    actions: list[tuple[Any, ...]], later: int
) -> None:
    one, other = begun(BEGIN), begun(BEGIN + later)
    for action in actions:
        assert done(one, action) == sooner(done(other, action), later)
        assert (one.snapshot(), one.now) == (other.snapshot(), other.now - later)
        again = KernelState(CORES, COLUMNS)
        again.restore(one.snapshot(), one.now)
        assert again.snapshot() == one.snapshot()


@given(PARTS, st.integers(0, 900))
def test_those_with_a_part_are_served_before_the_others(part: Participants, spread: int) -> None:
    """As evenly as before; those that others stand between are served up to the last of all."""
    state = KernelState(CORES, COLUMNS, BEGIN + spread, [Clocks(BEGIN, BEGIN + spread, BEGIN)] * 2)
    state.let_go(part)
    own, apart = state.clocks
    if part == EVERY:
        assert (own.last, state.own) == (BEGIN + spread, None)
    else:
        assert (own.first, own.last) == (BEGIN, BEGIN + spread * part.end(COLUMNS) // CORES)
        assert apart.last == BEGIN + spread
        assert apart.first == (own.last if part.cores == part.until else BEGIN)


def test_what_a_queue_takes_to_change_over_is_added_to_what_it_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of transfers that are waited for: get, get, put, get, of which the third and last change."""

    class Turning(EngineRule):
        remembers = True

        def change_cycles(self, machine: Machine, last: Request | None, request: Request) -> int:
            return 11 if last is None else 7 * (last != request)

    alone = {"mesh.rows": "1", "mesh.columns": "1"}
    program, machine = parse(IN_TURN), load_machine("sw26010_cg", alone)
    usual = simulate(program, machine)
    monkeypatch.setattr(level, "engine_rule_of", lambda _: Turning())
    found = simulate(program, machine)
    assert found.cycles == usual.cycles + 11 + 7 + 7
