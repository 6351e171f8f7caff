"""The in-order pipeline against swDNN Fig. 6, an independent model, and its own accounting."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.isa import Instruction, InstructionTable, load_table
from tilewright.simulate.instruction_level import simulate_core
from tilewright.simulate.launch import UnitOrder
from tilewright.simulate.program import AssembledProgram
from tilewright.simulate.runs import CoreRun

Assemble = Callable[..., AssembledProgram]
CPE = load_table("sw26010_cpe")


def _block(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A [n, 16], B [n, 4] with integer values; their product by columns of B, [16 vectors, 4]."""
    generator = np.random.default_rng(n)
    a = generator.integers(-9, 9, (n, 16)).astype(float)
    b = generator.integers(-9, 9, (n, 4)).astype(float)
    return a, b, (b.T @ a).reshape(16, 4)


def _run_figure6(program: AssembledProgram, n: int, bound: int) -> CoreRun:
    a, b, _ = _block(n)
    memory = np.concatenate([a.ravel(), b.ravel()])
    registers = {"$5": 0, "$6": a.nbytes, "$28": 0, "$19": bound}
    return simulate_core(program, local_memory=memory, registers=registers)


@pytest.mark.parametrize("n", [2, 8, 16, 32, 48])
def test_figure6_original_takes_26_cycles_per_step(assemble: Assemble, n: int) -> None:
    run = _run_figure6(assemble("figure6_original.s"), n, n)
    assert run.cycles == 26 * n
    assert np.array_equal(run.registers[[*range(11, 19), *range(20, 28)]], _block(n)[2])


@pytest.mark.parametrize("n", [2, 8, 16, 32, 48])
def test_figure6_reordered_takes_17_cycles_per_step(assemble: Assemble, n: int) -> None:
    run = _run_figure6(assemble("figure6_reordered.s"), n, n - 1)
    assert run.cycles == 5 + 17 * (n - 1) + 16
    assert run.unit_busy["P0"] == 16 * n + n
    assert np.array_equal(run.registers[[*range(11, 19), *range(20, 28)]], _block(n)[2])


def test_a_stall_names_cause_register_and_instruction(assemble: Assemble) -> None:
    run = simulate_core(assemble("vldd $1, 0($31)\nvmad $1, $1, $1, $2\nvstd $2, 32($31)"))
    assert run.cycles == 12
    assert run.issue_cycles == 3
    assert run.stalls == {"data_hazard": 9}
    assert run.hazards == {"$1": 3, "$2": 6}
    assert [(s.first_cycle, s.cycles, s.register, s.instruction) for s in run.spans] == [
        (1, 3, "$1", 1),
        (5, 6, "$2", 2),
    ]
    assert [(i.cycle, i.unit, i.instruction) for i in run.issues] == [
        (0, "P1", 0),
        (4, "P0", 1),
        (11, "P1", 2),
    ]


def test_an_unfinished_result_is_not_overwritten(assemble: Assemble) -> None:
    run = simulate_core(assemble("vmad $1, $1, $1, $2\naddl $3, 1, $2"))
    assert (run.cycles, run.stalls, run.hazards) == (8, {"output_hazard": 6}, {"$2": 6})


def test_a_divide_occupies_its_unit(assemble: Assemble) -> None:
    run = simulate_core(assemble("vdivd $1, $2, $3\nvaddd $1, $2, $4"))
    assert (run.cycles, run.stalls) == (33, {"unit_busy": 31})


def test_a_register_may_be_overwritten_in_the_cycle_of_its_last_read(assemble: Assemble) -> None:
    text = "vmad $1, $1, $1, $2\nvldd $1, 0($31)"
    assert simulate_core(assemble(text)).cycles == 1
    assert simulate_core(assemble(text, _changed(write_after_read="next_cycle"))).cycles == 2


def test_a_taken_branch_may_cost_cycles(assemble: Assemble) -> None:
    text = "ldi $1, 3($31)\nloop:\nsubl $1, 1, $1\nbne $1, loop"
    run = simulate_core(assemble(text, _changed(taken_branch_penalty_cycles=5)))
    assert run.cycles == simulate_core(assemble(text)).cycles + 2 * 5
    assert run.stalls == {"branch": 10}


def test_call_and_return(assemble: Assemble) -> None:
    text = "ldi $1, 1($31)\nbsr $5, f\naddl $1, 1, $1\nhalt\nf:\naddl $1, 40, $1\nret $5"
    run = simulate_core(assemble(text))
    assert run.integer_registers[1, 0] == 42
    assert run.instructions == 6


def _changed(**rules: object) -> InstructionTable:
    return msgspec.structs.replace(CPE, issue=msgspec.structs.replace(CPE.issue, **rules))


registers = st.integers(1, 6).map(lambda n: f"${n}")
address = st.integers(0, 3).map(lambda n: f"{32 * n}($31)")
single_unit_lines = st.one_of(
    st.builds("vmad {}, {}, {}, {}".format, registers, registers, registers, registers),
    st.builds("vaddd {}, {}, {}".format, registers, registers, registers),
    st.builds("vdivd {}, {}, {}".format, registers, registers, registers),
    st.builds("vldd {}, {}".format, registers, address),
    st.builds("vstd {}, {}".format, registers, address),
)
any_lines = st.one_of(
    single_unit_lines,
    st.builds("addl {}, 3, {}".format, registers, registers),
    st.builds("mull {}, {}, {}".format, registers, registers, registers),
)
programs = st.lists(any_lines, min_size=1, max_size=40).map("\n".join)
VALUES = {f"${n}": [float(n), n + 0.5, -float(n), 1.0] for n in range(1, 7)}


def _reference_cycles(instructions: tuple[Instruction, ...]) -> int:
    """Issue cycles by the words of swDNN VI-A, one cycle and one instruction at a time."""
    ready: dict[int, int] = {}
    free: dict[str, int] = dict.fromkeys(CPE.units, 0)
    left, cycle = list(instructions), 0
    while left:
        issued = 0
        while left and issued < 2:
            head, following = left[0], left[1:2]
            waits = any(ready.get(r, 0) > cycle for r in (*head.reads, *head.writes))
            units = [u for u in head.units if free[u] <= cycle]
            if waits or not units:
                break
            wanted = following[0].units if following and issued == 0 else ()
            unit = next((u for u in units if u not in wanted), units[0])
            free[unit] = cycle + head.spec.occupancy_cycles
            ready.update(dict.fromkeys(head.writes, cycle + head.latency_cycles))
            issued += 1
            left.pop(0)
        cycle += 1
    return cycle


@examples(200)
@given(programs)
def test_cycles_equal_an_independent_model(assemble: Assemble, text: str) -> None:
    program = assemble(text)
    run = simulate_core(program, registers=VALUES)
    assert run.cycles == _reference_cycles(program.instructions)


@examples(100)
@given(programs, st.sampled_from(["in_order", "decoupled"]))
def test_every_cycle_is_accounted_for(assemble: Assemble, text: str, unit_order: UnitOrder) -> None:
    run = simulate_core(assemble(text), registers=VALUES, unit_order=unit_order)
    assert run.issue_cycles + sum(run.stalls.values()) == run.cycles
    assert sum(run.hazards.values()) == sum(
        run.stalls.get(cause, 0) for cause in ("data_hazard", "output_hazard")
    )
    assert sum(span.cycles for span in run.spans) == sum(run.stalls.values())
    assert run.stalled.sum() == sum(run.stalls.values())
    assert len(run.issues) == run.instructions == run.executed.sum() == len(text.splitlines())


@examples(100)
@given(st.lists(single_unit_lines, min_size=1, max_size=40).map("\n".join))
def test_decoupled_units_are_never_slower_and_compute_the_same(
    assemble: Assemble, text: str
) -> None:
    # With one possible unit per instruction this is a theorem: decoupling only removes constraints.
    program = assemble(text)
    in_order = simulate_core(program, registers=VALUES)
    decoupled = simulate_core(program, registers=VALUES, unit_order="decoupled")
    assert decoupled.cycles <= in_order.cycles
    assert np.array_equal(decoupled.registers.view(np.int64), in_order.registers.view(np.int64))
    assert np.array_equal(decoupled.local_memory, in_order.local_memory)


def test_operands_that_are_absent_wait_for_nothing(assemble: Assemble) -> None:
    """A store waits in the window for its value; what has no result issues ahead of it."""
    program = assemble("vmad $1, $1, $1, $2\nvstd $2, 32($31)\nnop")
    run = simulate_core(program, unit_order="decoupled")
    cycles = {issue.instruction: issue.cycle for issue in run.issues}
    assert (cycles[1], cycles[2]) == (7, 1)
