"""The instruction cache of the instruction-level simulator: what a missing line costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from support.examples import one_in
from tilewright.common.errors import MachineError
from tilewright.isa import InstructionTable, load_table
from tilewright.isa.load import check_table
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import SimulatedMesh, UnitOrder
from tilewright.simulate.program import AssembledProgram
from tilewright.simulate.runs import CoreRun

pytestmark = one_in(2)


Assemble = Callable[..., AssembledProgram]
CPE = load_table("sw26010_cpe")
ORDERS: tuple[UnitOrder, ...] = ("in_order", "decoupled")
INDEPENDENT = [f"vmad $1, $1, $1, ${n}" for n in range(2, 10)]


def _with_cache(lines: int, miss_cycles: int = 30, ways: int = 1) -> InstructionTable:
    own = msgspec.structs.replace(
        CPE.instruction_cache, capacity_bytes=16 * lines, miss_cycles=miss_cycles, ways=ways
    )
    return msgspec.structs.replace(CPE, instruction_cache=own)


def _run(
    program: AssembledProgram, *, cold: bool = False, order: UnitOrder = "in_order"
) -> CoreRun:
    mesh = SimulatedMesh(1, 1, ideal_communication=True, cold=cold)
    return simulate_mesh(program, mesh, unit_order=order).cores[0]


@pytest.mark.parametrize("order", ORDERS)
def test_a_program_that_fits_waits_for_nothing(assemble: Assemble, order: UnitOrder) -> None:
    run = _run(assemble("\n".join(INDEPENDENT), _with_cache(4)), order=order)
    assert (run.cycles, run.instruction_cache_misses, run.stalls) == (8, 0, {})


@pytest.mark.parametrize("ways", [1, 2, 4])
def test_a_code_of_any_length_stays_where_it_fits(assemble: Assemble, ways: int) -> None:
    """All of it alone; with others in turn the lines of the sets that have room for one more."""
    mesh = SimulatedMesh(1, 1, ideal_communication=True, interleaved=True)
    for count in range(1, 17):
        program = assemble("\n".join(["addl $1, 1, $1"] * count), _with_cache(4, ways=ways))
        assert _run(program).instruction_cache_misses == 0
        lines = Counter(line % (4 // ways) for line in range(-(-count // 4)))
        misses = sum(own for own in lines.values() if own >= ways)
        assert simulate_mesh(program, mesh).cores[0].instruction_cache_misses == misses


@pytest.mark.parametrize("order", ORDERS)
def test_a_cold_cache_fetches_each_line_once(assemble: Assemble, order: UnitOrder) -> None:
    run = _run(assemble("\n".join(INDEPENDENT), _with_cache(4)), cold=True, order=order)
    assert run.instruction_cache_misses == 2
    assert run.issue_cycles == 8
    assert run.stalls["instruction_cache"] == run.cycles - 8
    # The window of decoupled units lets a miss overlap what is fetched already.
    assert 2 * 26 <= run.stalls["instruction_cache"] <= 2 * 30


def _loop(instructions: int, trips: int) -> str:
    """A loop of whole lines: `instructions` with counter and branch, behind a line before it."""
    opening = [f"ldi $20, {trips}($31)", *["addl $1, 1, $1"] * 3]
    body = ["addl $1, 1, $1"] * (instructions - 2)
    return "\n".join([*opening, "loop:", *body, "subl $20, 1, $20", "bne $20, loop"])


@pytest.mark.parametrize(("lines", "misses"), [(3, 4), (4, 5), (5, 12), (6, 19), (8, 33)])
def test_a_loop_that_does_not_fit_misses_in_every_iteration(
    assemble: Assemble, lines: int, misses: int
) -> None:
    """Codes that do not fit start with an empty cache, and others with their lines in it."""
    # One line before the loop, four places: of a loop of five lines two share one.
    program = assemble(_loop(4 * lines, 4), _with_cache(4))
    run = _run(program, cold=True)
    assert run.instruction_cache_misses == misses
    assert _run(program).instruction_cache_misses == (misses if 1 + lines > 4 else 0)
    assert run.integer_registers[1, 0] == 3 + 4 * (4 * lines - 2)


@pytest.mark.parametrize(("lines", "misses"), [(3, 4), (4, 5), (5, 15)])
def test_of_the_lines_of_a_set_the_one_used_longest_ago_goes(
    assemble: Assemble, lines: int, misses: int
) -> None:
    # Two sets of two ways: of a loop of five lines three are in one set, and each evicts the next.
    run = _run(assemble(_loop(4 * lines, 4), _with_cache(4, ways=2)), cold=True)
    assert run.instruction_cache_misses == misses


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("ways", "misses"), [(1, 3), (2, 2), (4, 0)])
def test_interleaved_codes_take_a_line_of_each_set(
    assemble: Assemble, ways: int, misses: int, order: UnitOrder
) -> None:
    """Three lines of code: two ways keep the line that is alone in its set, four keep them all."""
    program = assemble("\n".join(INDEPENDENT + INDEPENDENT[:4]), _with_cache(4, ways=ways))
    mesh = SimulatedMesh(1, 1, ideal_communication=True, interleaved=True)
    run = simulate_mesh(program, mesh, unit_order=order).cores[0]
    assert run.instruction_cache_misses == misses
    empty = simulate_mesh(program, replace(mesh, cold=True), unit_order=order).cores[0]
    assert empty.instruction_cache_misses == 3


@pytest.mark.parametrize("order", ORDERS)
def test_misses_change_the_time_and_no_result(assemble: Assemble, order: UnitOrder) -> None:
    text = _loop(40, 5)
    fast = _run(assemble(text), order=order)
    slow = _run(assemble(text, _with_cache(4, miss_cycles=9)), order=order)
    assert (slow.registers == fast.registers).all()
    assert slow.cycles - slow.stalls["instruction_cache"] == fast.cycles
    assert slow.cycles == slow.issue_cycles + sum(slow.stalls.values())


def test_the_shipped_cores_say_what_their_cache_is() -> None:
    for name in ("sw26010_cpe", "sw26010_cpe_measured"):
        table = load_table(name)
        assert table.instruction_cache is not None
        assert table.instruction_cache.capacity_bytes == 16 * 1024
        assert table.sources[table.instruction_cache.source].evidence == "assumption"


def test_a_cache_of_broken_lines_is_refused() -> None:
    own = msgspec.structs.replace(CPE.instruction_cache, capacity_bytes=40)
    with pytest.raises(MachineError) as error:
        check_table(msgspec.structs.replace(CPE, instruction_cache=own), where="t.toml")
    assert str(error.value) == (
        "t.toml: instruction_cache: 40 bytes are no positive number of lines of 16 bytes, or a "
        "miss takes 30 cycles; give whole lines, and 0 or more cycles"
    )


def test_ways_that_do_not_divide_the_lines_are_refused() -> None:
    own = msgspec.structs.replace(CPE.instruction_cache, capacity_bytes=64, ways=3)
    with pytest.raises(MachineError) as error:
        check_table(msgspec.structs.replace(CPE, instruction_cache=own), where="t.toml")
    assert str(error.value) == (
        "t.toml: instruction_cache: 4 lines are no whole number of sets of 3 ways; "
        "give ways that divide the lines"
    )
