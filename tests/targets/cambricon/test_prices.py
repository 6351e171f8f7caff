"""Prices of calls and transfers on a Cambricon: loops as they are written, instructions counted."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.common.errors import ProgramError
from tilewright.cost.calls import PricedCall, call_cycles
from tilewright.cost.pipeline_types import TURN_STATEMENTS
from tilewright.cost.prices import prices_of
from tilewright.cost.steps import CallStep, TransferStep, steps_of
from tilewright.cost.timing import TransferShape
from tilewright.ir.nodes import Call
from tilewright.ir.parser import parse
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import Copy, Fill
from tilewright.ir.primitives.maps import Accumulate, Map, Reduce
from tilewright.machine import load_machine
from tilewright.targets.cambricon.emit.calls import UNROLLED_TURNS
from tilewright.targets.cambricon.instructions import instruction_cycles
from tilewright.targets.cambricon.prices import (
    COSTS,
    MATRIX,
    PRICES,
    TRANSFER,
    VECTOR,
    Turns,
    WrittenLoop,
    written_turns,
)
from tilewright.targets.cambricon.primitives import (
    OuterProduct,
    RoundedMap,
    RoundedProduct,
    SaturatingAdd,
    Turned,
)

MACHINE = load_machine("cambricon-acc")
Loop = tuple[int, tuple[int, ...]]
"""How often it turns, and how far each operand moves with it, in elements."""


def as_written(loops: Sequence[Loop]) -> tuple[int, list[tuple[int, int]]]:
    """The run, and the turns and moved places of loops of several turns, innermost first."""
    found: list[Loop] = []
    for turns, steps in loops:
        if turns == 1:
            continue
        if found and all(a == found[-1][0] * b for a, b in zip(steps, found[-1][1], strict=True)):
            found[-1] = (found[-1][0] * turns, found[-1][1])
        else:
            found.append((turns, steps))
    run = found.pop(0)[0] if found and set(found[0][1]) == {1} else 1
    return run, [(turns, sum(step != 0 for step in steps)) for turns, steps in found]


@st.composite
def nests(draw: st.DrawFn) -> list[Loop]:
    """Loops of two operands that often follow each other without a gap."""
    loops: list[Loop] = []
    beside = [1, 1]
    for _ in range(draw(st.integers(1, 4))):
        turns = draw(st.integers(1, 3))
        steps = [
            own if draw(st.integers(0, 3)) else draw(st.sampled_from([0, 1, 7, 40]))
            for own in beside
        ]
        loops.append((turns, (steps[0], steps[1])))
        beside = [turns * own for own in steps]
    return loops


def dims_of(every: Sequence[Sequence[Loop]]) -> dict[str, np.ndarray]:
    """The dimensions of one call for several nests of as many loops."""
    found = {"loops": np.array(len(every[0]) + 1)}
    for number, own in enumerate(zip(*every, strict=True)):
        found[f"loop_{number}"] = np.array([turns for turns, _ in own])
        for operand in range(2):
            steps = [steps[operand] + 1 for _, steps in own]
            found[f"step_{number}_{operand}"] = np.array(steps)
    return found


@given(st.lists(nests(), min_size=1, max_size=4))
@examples(100)
def test_loops_that_count_through_are_written_as_one(drawn: list[list[Loop]]) -> None:
    """For each candidate of an array by itself; shorter nests have loops of one turn around."""
    depth = max(map(len, drawn))
    every = [[*loops, *[(1, (0, 0))] * (depth - len(loops))] for loops in drawn]
    found = written_turns(dims_of(every), range(2))
    for place, loops in enumerate(every):
        run, written = as_written(loops)
        at = [
            [np.broadcast_to(value, len(every))[place].item() for value in (loop.turns, loop.moved)]
            for loop in found.loops
        ]
        assert np.broadcast_to(found.run, len(every))[place] == run
        assert [(turns, moved) for turns, moved in at if turns > 1] == written
        count = np.broadcast_to(found.count, len(every))[place]
        assert run * count == prod(turns for turns, _ in loops)


def test_few_turns_are_written_out_and_others_have_statements_around() -> None:
    few, many = (WrittenLoop(np.array(UNROLLED_TURNS + more), 2) for more in (0, 1))
    assert (few.begin, few.end) == (0, 0)
    assert (many.begin, many.end) == (3, 2 + TURN_STATEMENTS)


@pytest.mark.parametrize(("each", "in_flight"), [(1, 1), (2, 3), (9, 1), (100, 4)])
def test_a_turn_takes_its_operations_or_what_its_statements_leave(
    each: int, in_flight: int
) -> None:
    """Statements pass beside the operations in flight but for the one that is issued last."""
    turns = UNROLLED_TURNS + 5
    loop = WrittenLoop(np.array(turns), 2)
    gap = 2 + TURN_STATEMENTS
    waits = max(0, gap - min(each * in_flight, each))
    found = Turns(8, (loop,)).cycles(each, 1, in_flight)
    assert found == each + (turns - 1) * (each + waits)
    alone = Turns(8, (WrittenLoop(np.array(1), 2),)).cycles(each, 1, in_flight)
    assert alone == each


@pytest.mark.parametrize(("direction", "letter"), [("get", "load"), ("put", "store")])
@pytest.mark.parametrize("space", ["vector", "matrix"])
def test_a_transfer_is_an_instruction_for_each_block(direction, letter, space) -> None:
    shape = TransferShape(np.array(64), np.array(3), space=space)
    found = PRICES.service_cycles(MACHINE, direction, shape, 10**6, shared=False)
    assert found == 3 * instruction_cycles(MACHINE, space[0] + letter, size=32)
    loop = WrittenLoop(np.array(3), 2)
    assert PRICES.around(shape) == (loop.begin, loop.end)


def cycles(mnemonic: str, **sizes: int) -> float:
    return float(instruction_cycles(MACHINE, mnemonic, **sizes))


@pytest.mark.parametrize(("vector", "along", "across"), [("m", 96, 5), ("n", 5, 96)])
def test_a_product_is_an_instruction_for_each_vector_of_its_result(vector, along, across) -> None:
    call = PricedCall(RoundedProduct(vector), {"m": 96, "n": 5, "k": 40}, "q8.8")
    each = cycles("mmv", out_size=along, in_size=40)
    assert call_cycles(MACHINE, call, COSTS) == across * each
    assert PRICES.operations(MACHINE, call) == across
    loop = WrittenLoop(across, 2)
    assert PRICES.ends(MACHINE, call) == (each, each, loop.begin, loop.end, 0)
    assert PRICES.unit(_step(call.primitive)) == MATRIX
    assert not PRICES.in_pieces(call.primitive)
    assert PRICES.reads_in_turn(call.primitive) == (0 if vector == "n" else 1,)


def test_an_outer_product_is_one_instruction() -> None:
    call = PricedCall(OuterProduct("n"), {"m": 6, "n": 50, "k": 1}, "q8.8")
    each = cycles("op", size0=6, size1=50)
    assert call_cycles(MACHINE, call, COSTS) == each
    assert PRICES.operations(MACHINE, call) == 1
    assert PRICES.ends(MACHINE, call) == (each, each, 0, 0, 0)


def test_a_transposition_is_a_product_by_a_unit_vector_for_each_row() -> None:
    """Behind the instructions that make unit vectors of a zero and a one."""
    call = PricedCall(Turned(), {"m": 6, "n": 50, "elements": 300}, "q8.8")
    made, each = (
        cycles("vsv", size=12) + cycles("vas", size=1),
        cycles("mmv", out_size=50, in_size=6),
    )
    assert call_cycles(MACHINE, call, COSTS) == made + 6 * each
    assert PRICES.operations(MACHINE, call) == 8
    assert PRICES.unit(_step(call.primitive)) == MATRIX
    loop = WrittenLoop(6, 2)
    assert PRICES.ends(MACHINE, call)[2:] == (loop.begin, loop.end, 0)


@pytest.mark.parametrize(
    ("primitive", "mnemonics"),
    [(Fill(0.0), ["vsv"]), (Fill(0.5), ["vsv", "vas"]), (Copy(), ["vmove"])],
)
@pytest.mark.parametrize("runs", [1, 2, 9])
def test_vectors_are_filled_and_copied_run_by_run(primitive, mnemonics, runs) -> None:
    operands = ("q8.8",) * (2 if isinstance(primitive, Copy) else 1)
    dims = {"elements": 32 * runs, "common_run": 32}
    call = PricedCall(primitive, dims, "q8.8", False, operands)
    every = [cycles(mnemonic, size=32) for mnemonic in mnemonics]
    each, loop = sum(every), WrittenLoop(runs, len(operands))
    waits = max(0, loop.end - each) if runs > UNROLLED_TURNS else 0
    assert call_cycles(MACHINE, call, COSTS) == each + (runs - 1) * (each + waits)
    assert PRICES.operations(MACHINE, call) == runs * len(mnemonics)
    ends, ahead = (every[0], every[-1], loop.begin, loop.end), max(0, each - loop.end) * (runs - 1)
    paced = call_cycles(MACHINE, call, COSTS) - each - max(0, ahead - (loop.begin > 0))
    assert PRICES.ends(MACHINE, call) == (*ends, max(0, paced))
    assert PRICES.unit(_step(primitive)) == VECTOR


def test_only_a_map_tells_apart_what_its_first_and_last_instructions_read() -> None:
    """0.5 x1 first, the sum with x0 last."""
    primitive = RoundedMap("x0 + 0.5 * x1", 8)
    steps = primitive.steps(2).steps
    assert list(PRICES.first_reads(primitive, 2)) == [s - 1 for s in steps[0].sources]
    assert list(PRICES.last_reads(primitive, 2)) == [s - 1 for s in steps[-1].sources]
    assert list(PRICES.first_reads(Copy(), 2)) == list(PRICES.last_reads(Copy(), 2)) == [0, 1]
    assert PRICES.in_pieces(SaturatingAdd())
    assert PRICES.reads_in_turn(Copy()) == ()


def test_a_product_makes_vector_after_vector_and_an_addition_takes_them() -> None:
    assert PRICES.writes_in_turn(RoundedProduct())
    assert PRICES.reads_in_turn(SaturatingAdd()) == (0,)
    assert not PRICES.writes_in_turn(SaturatingAdd())
    assert not PRICES.writes_in_turn(Copy())


@pytest.mark.parametrize("primitive", [Map("x0"), Reduce("sum"), Accumulate("sum")])
def test_what_is_not_rounded_has_no_price(primitive) -> None:
    call = PricedCall(primitive, {"elements": 4, "common_run": 4}, "q8.8", False, ("q8.8",) * 2)
    with pytest.raises(ProgramError) as error:
        call_cycles(MACHINE, call, COSTS)
    assert str(error.value) == (
        f"primitive {primitive.name!r} on 'cambricon-acc' computes fixed point"
    )


def _step(primitive: Primitive) -> CallStep:
    return CallStep(Call(primitive, ()), {})


def test_a_transfer_is_an_operation_of_a_unit_of_its_own() -> None:
    program = parse(
        """\
def copied():
    y: tensor("q8.8", "output", rows=4)
    t: buffer("q8.8", 4)
    x: tensor("q8.8", "input", rows=4)
    get(x[at(0, 4)], t[0])
    wait(t[0])
"""
    )
    (get,) = (step for step in steps_of(program) if isinstance(step, TransferStep))
    assert prices_of(MACHINE) is PRICES
    assert PRICES.unit(get) == TRANSFER
