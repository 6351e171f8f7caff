"""Several engines in the kernel simulator: a queue for each, unless a family's rule joins them."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.errors import CapacityError, MachineError
from tilewright.cost.pipeline_types import APART, OWN
from tilewright.cost.timing import TransferShape, transfer_cycles
from tilewright.ir.parser import parse
from tilewright.machine import Machine
from tilewright.machine.model import Arithmetic, Core
from tilewright.machine.parts import Direction, Engine, MemorySpace
from tilewright.simulate.kernel import level
from tilewright.simulate.kernel.cost import MoveCost, Participants
from tilewright.simulate.kernel.engines import EngineRule, Request
from tilewright.simulate.kernel.level import simulate
from tilewright.simulate.kernel.state import (
    Ask,
    Await,
    Clocks,
    KernelState,
    Queue,
)

PROGRAM = """
def both():
    x: tensor("i16", "input", n=800)
    w: tensor("i16", "input", n=400)
    x_tile: buffer("i16", 800, offset_bytes=0, space="near")
    w_tile: buffer("i16", 400, offset_bytes=0, space="far")
    get(x[at(0, 800)], x_tile[0])
    get(w[at(0, 400)], w_tile[0])
    wait(x_tile[0])
    wait(w_tile[0])
"""


def engine(space: str, latency_cycles: int) -> Engine:
    """One that moves 16 bytes a cycle from main memory."""
    get = Direction("main", space, 16e9)
    return Engine(latency_cycles=latency_cycles, issue_cycles=10, directions={"get": get})


MACHINE = Machine(
    name="two",
    description="two memories with an engine each",
    clock_hz=1_000_000_000,
    core=Core({"i16": Arithmetic(1, 1)}),
    memory={
        "main": MemorySpace(1 << 20, scope="group"),
        "near": MemorySpace(2000),
        "far": MemorySpace(900),
    },
    engines={"first": engine("near", 100), "second": engine("far", 20)},
)


def test_engines_serve_side_by_side() -> None:
    run = simulate(parse(PROGRAM), MACHINE)
    x_done, w_done = 10 + 100 + 1600 // 16, 20 + 20 + 800 // 16
    assert w_done < x_done
    assert run.cycles == x_done
    assert sum(cause.cycles for cause in run.causes) == run.cycles
    assert run.allocated_bytes == 1600 + 800


def test_an_engine_is_found_by_the_memories_that_it_joins() -> None:
    assert EngineRule().queue(MACHINE, "far", "get") == "second"
    assert MACHINE.transfer_engine("near").latency_cycles == 100
    with pytest.raises(MachineError, match="no engine between main memory and 'other'"):
        MACHINE.transfer_engine("other")


def test_each_way_has_its_own_engine_and_queue() -> None:
    """Load and store are commands of their own: results leave while operands come. Directions are
    found by the memories that they join, whatever they are called.
    """
    load = Engine(latency_cycles=10, directions={"sums": Direction("main", "near", 16e9)})
    store = Engine(latency_cycles=30, directions={"sums": Direction("near", "main", 4e9)})
    machine = msgspec.structs.replace(MACHINE, engines={"load": load, "store": store})
    assert [EngineRule().queue(machine, "near", way) for way in ("get", "put")] == ["load", "store"]
    assert machine.transfer_engine("near", "put") == store
    shape = TransferShape(1600, 1, 1, 1, 1, "near")
    cycles = [transfer_cycles(machine, way, shape) for way in ("get", "put")]
    assert cycles == [100, 400]
    with pytest.raises(MachineError, match="no engine to main memory from 'far'"):
        machine.transfer_engine("far", "put")


def test_each_memory_has_its_own_capacity() -> None:
    small = msgspec.structs.replace(MACHINE, memory={**MACHINE.memory, "far": MemorySpace(700)})
    with pytest.raises(CapacityError) as caught:
        simulate(parse(PROGRAM), small)
    assert str(caught.value) == (
        "the buffers of 'both' take 800 bytes of memory 'far' that offers 700; "
        "use smaller tiles or fewer buffer copies"
    )


def test_a_rule_that_remembers_and_says_no_more_changes_nothing(monkeypatch) -> None:
    class Remembering(EngineRule):
        remembers = True

    program = parse(PROGRAM.replace("    wait(w_tile[0])\n", "    wait(w_tile[0])\n" * 2))
    usual = simulate(program, MACHINE).cycles
    monkeypatch.setattr(level, "engine_rule_of", lambda _: Remembering())
    assert simulate(program, MACHINE).cycles == usual


def test_a_state_is_the_same_whichever_queue_was_used_before() -> None:
    state = KernelState()
    before = state.snapshot()
    part = Participants(1, 1)
    state.ask(OWN, Ask(("t", 0), 0, "first", 0, MoveCost(5, 1, 0, 5, part, 40, 128), 1))
    assert state.snapshot() != before
    assert state.wait(OWN, Await(("t", 0), 0, "first")) == [("bandwidth", 0, 5)]
    assert state.snapshot() == before
    state.queues["first"] = Queue(last=Request("near", "get"))
    assert state.snapshot() != before


@given(st.integers(1, 999), st.integers(1, 999), st.integers(0, 5000))
def test_an_engine_is_kept_only_while_it_serves(one: int, other: int, behind: int) -> None:
    """The last core asks long after the first, and so do others of their next transfer."""
    state, part = KernelState(cores=8), Participants(8, 8)
    state.clocks[OWN] = Clocks(0, behind, 0)
    for slot, cycles in enumerate((one, other)):
        cost = MoveCost(5, 1, 0, cycles, part, 40, 128)
        state.ask(OWN, Ask(("t", slot), 0, "first", 0, cost, 8))
    served = [state.ready[("t", slot), OWN].clocks.last for slot in range(2)]
    assert sum(end - start for start, end in state.queue("first").intervals) == one + other
    assert served[1] == max(one + other, behind + -(-other // 8))


@given(st.integers(1, 99), st.integers(0, 2 * 6400))
def test_first_requests_go_between_the_last_ones_of_the_transfer_before(
    each: int, later: int
) -> None:
    """The last core that fetches waits for the stores of those that have fetched long before."""
    state = KernelState(cores=64)
    state.clocks = [Clocks(0, 6400, 0), Clocks(0, 6400, 0)]
    cost = MoveCost(5, 1, 0, 64 * 200, Participants(64, 64), 40, 128)
    state.ask(OWN, Ask(("t", 0), 0, "first", 0, cost, 64))
    state.spend(OWN, later)
    stores = replace(cost, service_cycles=64 * each)
    state.ask(OWN, Ask(("t", 1), 1, "first", 0, stores, 64))
    fetched, stored = (state.ready[("t", slot), OWN].clocks for slot in range(2))
    between = max(0, 6400 - later)
    assert fetched.last == 64 * 200 + 64 * each * between // 6400
    assert stored.first == max(64 * 200 - 64 * 200 * between // 6400, later) + each
    assert stored.last == max(64 * 200 + 64 * each, 6400 + later + each)


@given(st.integers(64, 999), st.integers(0, 9999))
def test_the_first_of_a_crowd_goes_on_before_those_of_it_that_ask_late(
    cycles: int, at: int
) -> None:
    """Some of the cores apart ask before those with a part do, the others after them."""
    state, cost = KernelState(cores=64), MoveCost(5, 1, 0, cycles, Participants(64, 64), 40, 128)
    state.own, state.clocks = Participants(8, 64), [Clocks(at, at, at), Clocks(0, 10000, 0)]
    own, apart = (Ask(("t", OWN), 0, "first", 0, cost, cores) for cores in (8, 56))
    state.behind[APART].append(apart)
    state.ask(OWN, own)
    state.ask(APART, state.behind[APART].pop())
    early, share = 56 * at // 10000, cost.share_cycles
    first = 0 if early else at + own.service_cycles(8)
    assert state.ready[("t", OWN), APART].clocks.first == min(first + share, 10000 + share)


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 5000))
def test_the_last_core_with_a_part_is_in_the_last_row_that_has_any(
    rows: int, columns: int, behind: int
) -> None:
    """Of 8 x 8 cores the first of some rows have a part, and go on when the last of these does."""
    state = KernelState(cores=64, columns=8)
    state.clocks[OWN] = Clocks(0, behind, 0)
    state.let_go(Participants(rows * columns, 8 * rows))
    assert state.clocks[OWN].last == behind * ((rows - 1) * 8 + columns) // 64


@given(*[st.integers(1, 8)] * 4)
def test_a_row_and_a_column_share_the_cores_where_they_cross(
    r: int, c: int, s: int, d: int
) -> None:
    one, other = (Participants(rows * columns, 8 * rows) for rows, columns in ((r, c), (s, d)))
    assert one.shared(other) == other.shared(one) == min(r, s) * min(c, d)
