"""Operations in flight: what overlaps on which machine, and a cause for every idle cycle.

The loops are those that Lan et al. 2019 describe in 2.2.1 (their Figs. 7 and 8), with transfers of
3 and 8 cycles, a product of 6 and an addition of 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cambricon import device, names, run
from tilewright.common.errors import SimulationError
from tilewright.machine import load_machine
from tilewright.simulate.window import execute, loop
from tilewright.simulate.window.memories import ElementRange

TIMES = {
    "engines.io.latency_cycles": 0,
    "engines.io.get.bytes_per_cycle": 64,
    "engines.io.get_matrix.bytes_per_cycle": 64,
    "units.matrix_start": 5,
    "units.vector_start": 1,
}
HEAD = """\
smove $1, #0
smove $2, #96
smove $3, #256
smove $4, #0
smove $5, #16
smove $6, #4096
smove $7, #4200
smove $8, #1000
smove $9, #1000
smove $10, #4300
"""
TILES = 3


def load(tile: int) -> str:
    inputs, weights = ("$1", "$8")[tile % 2], ("$4", "$9")[tile % 2]
    return f"vload {inputs}, $2, #0\nmload {weights}, $3, #4096\n"


def compute(tile: int) -> str:
    inputs, weights, products = (
        ("$1", "$8")[tile % 2],
        ("$4", "$9")[tile % 2],
        ("$6", "$10")[tile % 2],
    )
    return f"vmm {products}, $5, {weights}, {inputs}, $5\nvav $7, $5, $7, {products}\n"


NAIVE = HEAD + "".join(load(i) + compute(i) for i in range(TILES))
PREFETCHED = (
    HEAD
    + load(0)
    + "".join(load(i + 1) + compute(i) for i in range(TILES - 1))
    + compute(TILES - 1)
)


def cycles(text: str, machine: str) -> int:
    """From the first issue of a long operation on."""
    found = run(text, load_machine(machine, TIMES), values=False)
    return found.cycles - found.events[0].issue


def overlapping(text: str, machine: str) -> set[tuple[str, str]]:
    found = run(text, load_machine(machine, TIMES), values=False)
    named = names(text, found)
    return {(named[i], named[j]) for i, j in found.overlaps()}


def test_the_naive_loop_overlaps_additions_with_loads_alone() -> None:
    assert overlapping(NAIVE, "dla-al") == {("vav0", "vload1"), ("vav1", "vload2")}
    assert cycles(NAIVE, "dla-al") == TILES * (3 + 8 + 6) + 2


def test_the_prefetched_loop_overlaps_products_with_transfers() -> None:
    assert overlapping(PREFETCHED, "dla-al") == {
        ("mload1", "vmm0"),
        ("vav0", "vload2"),
        ("mload2", "vmm1"),
        ("vav1", "vmm2"),  # behind the last load
    }
    assert cycles(PREFETCHED, "dla-al") == TILES * (3 + 8) + 6 + 2


def test_with_a_queue_of_32_the_order_does_not_matter() -> None:
    assert cycles(NAIVE, "cambricon-acc") == cycles(PREFETCHED, "cambricon-acc") == 41


def test_a_slot_that_is_freed_when_done_lets_additions_run_beside_the_weights() -> None:
    machine = load_machine("dla-al", {**TIMES, "issue.freed": "when_done"})
    found = run(PREFETCHED, machine, values=False)
    named = names(PREFETCHED, found)
    assert ("mload1", "vav0") in {(named[i], named[j]) for i, j in found.overlaps()}


@pytest.mark.parametrize("machine", ["dla-al", "cambricon-acc"])
@pytest.mark.parametrize("text", [NAIVE, PREFETCHED], ids=["naive", "prefetched"])
def test_every_cycle_has_a_cause(text: str, machine: str) -> None:
    found = run(text, load_machine(machine, TIMES), values=False)
    assert found.issue_cycles + sum(found.stalls.values()) == found.cycles
    for unit in ("TRANSFER", "MATRIX", "VECTOR"):
        assert found.unit_busy[unit] + sum(found.idle(unit).values()) == found.cycles


def test_the_cause_of_idle_cycles_on_each_unit() -> None:
    found = run(NAIVE, load_machine("dla-al", TIMES), values=False)
    assert found.idle("MATRIX") == {
        "issuing": 15,
        "window_full": 3,
        "span_hazard": 24,
        "drain": 2,
    }


def test_values_do_not_change_the_time() -> None:
    machine = load_machine("dla-al", TIMES)
    main = np.zeros(8192, np.int16)
    timed, computed = run(NAIVE, machine, values=False), run(NAIVE, machine, {"main": main})
    assert (timed.cycles, timed.events) == (computed.cycles, computed.events)


@pytest.mark.parametrize("branch", ["cb $3, again", "cbr $3, $4"])
def test_elements_that_saturate_are_counted_by_instruction(branch: str) -> None:
    """In both turns of a loop, compiled or step by step, as one with a branch to a register is."""
    text = "smove $1, #0\nsmove $2, #96\nsmove $3, #2\nsmove $4, #20\nvload $1, $2, #0\n"
    text += f"again: vav $1, $2, $1, $1\nsadd $3, #-1\n{branch}"
    main = np.array([20_000] * 90 + [9_000] * 6, np.int16)
    found = run(text, load_machine("dla-al"), {"main": np.resize(main, 8192)})
    assert found.saturated == {5: 90 + 96}


@pytest.mark.parametrize("values", [False, True])
def test_a_short_program_runs_at_one_go(monkeypatch: pytest.MonkeyPatch, values: bool) -> None:
    """The compiled loop comes back for more room in its records, or with the whole run."""
    calls = []

    def counted(*given: Any) -> int:
        calls.append(given)
        assert len(calls) == 1
        return loop.run(*given)

    monkeypatch.setattr(execute, "run", counted)
    found = run(NAIVE, load_machine("dla-al", TIMES), values=values)
    assert len(found.events) == 4 * TILES


OVERLAPPING = """\
smove $1, #0
smove $2, #100
smove $3, #{address}
vload $1, $2, #0
vload $3, $2, #512
vav $1, $2, $1, $1
"""


@pytest.mark.parametrize(("address", "waits"), [(99, True), (100, False)])
def test_only_operations_on_the_same_elements_wait(address: int, waits: bool) -> None:
    found = run(OVERLAPPING.format(address=address), load_machine("cambricon-acc"), values=False)
    first, second, sum_ = found.events
    assert second.start == first.end
    assert sum_.start == (second.end if waits else first.end)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "vload $1, $2, #0",
            "instruction 2, line 3: vloada $1, $2, #0: 96 elements at address 32700 lie outside "
            "the 32768 elements of the vector memory",
        ),
        (
            "vstore $3, $2, #40",
            "instruction 2, line 3: vstorea $3, $2, #40: 96 elements at address 40 of the main "
            "memory are read-only; declare what is written in a section that may be written",
        ),
    ],
)
def test_spans_are_checked(statement: str, message: str) -> None:
    text = f"smove $1, #32700\nsmove $2, #96\n{statement}"
    with pytest.raises(SimulationError) as error:
        run(text, load_machine("dla-al"), values=False, read_only=(ElementRange("main", 90, 10),))
    assert str(error.value) == message


def test_a_subroutine_returns_to_the_address_in_a_register() -> None:
    found = device(
        """
        smove $2, #first
        jump  add_five
first:  smove $2, #second
        smove $1, #add_five
        jumpr $1
add_five:
        sadd  $3, #5
        jumpr $2
second: smul  $3, #2
        """,
        load_machine("dla-al"),
    ).launch()
    assert found.registers[3] == (5 + 5) * 2
    assert found.cycles == found.issue_cycles + sum(found.stalls.values())


def test_a_branch_to_a_register_is_taken_while_the_other_one_is_positive() -> None:
    """A subroutine that turns until its caller's counter is zero, and then returns."""
    found = device(
        """
        smove $1, #4
        smove $2, #back
        jump  double
back:   smove $4, $3
        jump  end
double: smove $3, #1
        smove $5, #turn
turn:   smul  $3, #2
        ssub  $1, #1
        cbr   $1, $5
        cbr   $3, $2
        smove $3, #0
end:    sadd  $4, #0
        """,
        load_machine("dla-al"),
    ).launch()
    assert found.registers[4] == 2**4
    assert found.cycles == found.issue_cycles + sum(found.stalls.values())


@pytest.mark.parametrize("branch", ["jump here", "cb $2, here"])
def test_a_branch_to_itself_never_ends(branch: str) -> None:
    with pytest.raises(SimulationError) as error:
        run(f"smove $2, #1\nhere: {branch}", load_machine("dla-al"))
    shown = branch.replace("here", "-1")
    assert str(error.value) == f"instruction 1, line 2: {shown}: branches to itself and never ends"


@pytest.mark.parametrize("address", [3, 4000, -4])
@pytest.mark.parametrize("jump", ["jumpr $1", "cbr $2, $1"])
def test_a_jump_to_no_instruction_is_refused(jump: str, address: int) -> None:
    with pytest.raises(SimulationError) as error:
        run(f"smove $1, #{address}\nsmove $2, #1\n{jump}", load_machine("dla-al"))
    assert str(error.value) == (
        f"instruction 2, line 3: {jump}: no instruction is at address {address}; put the address "
        "of a label into the register"
    )
