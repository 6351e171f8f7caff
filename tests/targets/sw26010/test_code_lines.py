"""Routines of a kernel that do not fit the instruction cache together."""

from dataclasses import replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from support.cross_check.check import checked_time
from support.cross_check.routines import RoutineCycles
from tilewright import ops
from tilewright.common.expr import Value
from tilewright.cost.calls import Costs, PricedCall, call_cycles, priced_call
from tilewright.cost.prices import call_costs, prices_of
from tilewright.cost.totals import executed_calls
from tilewright.ir.nodes import Program
from tilewright.ir.parser import parse
from tilewright.isa import load_table
from tilewright.machine import Machine, load_machine
from tilewright.seeds.space import seeds_for
from tilewright.simulate.kernel import cost, level
from tilewright.simulate.kernel import program as level_program
from tilewright.simulate.kernel.level import simulate
from tilewright.simulate.kernel.program import PreparedProgram
from tilewright.targets.sw26010 import prices
from tilewright.targets.sw26010.code import CODE
from tilewright.targets.sw26010.code_lines import _of_use, code_lines
from tilewright.targets.sw26010.elementwise.reduce import ReduceRoutine
from tilewright.targets.sw26010.elementwise.routines import Routine
from tilewright.targets.sw26010.routines import RoutineUse, uses_of
from tilewright.targets.sw26010.timing.derived import SHIPPED_TABLES
from tilewright.targets.sw26010.timing.maps import MAPS
from tilewright.targets.sw26010.timing.nests import NESTS, CoreTimings, around
from tilewright.targets.sw26010.timing.reductions import REDUCTIONS, Extents
from tilewright.tune.candidate import Candidate
from tilewright.tune.choose import choose
from tilewright.tune.refills import with_refills
from tilewright.tune.search import rank

MACHINE = load_machine("sw26010_cg")
TABLE = SHIPPED_TABLES[0]
KINDS: tuple[CoreTimings[Any, Any], ...] = (MAPS, NESTS, REDUCTIONS)
PRODUCT = ops.gemm(300, 500, 200)
"""Its best candidate by the estimate has two products of 12 KB, for whole tiles and the last."""


@cache
def best_without_refills() -> Candidate:
    (seed,) = seeds_for(PRODUCT, "gemm")
    (ranking,) = rank([(PRODUCT, seed)], MACHINE, keep=1)
    return ranking.best[0]


def test_a_launch_that_follows_its_like_takes_what_the_text_says() -> None:
    """The text executes fewer lines than the routines have."""
    priced = with_refills(best_without_refills(), MACHINE)
    program = priced.program(MACHINE)
    text = checked_time(CODE.emit(program, MACHINE), MACHINE)
    assert text.repeated_cycles > 1.1 * text.cycles
    assert priced.cycles == pytest.approx(text.repeated_cycles, rel=0.05)
    run = simulate(program, MACHINE)
    assert run.cycles == pytest.approx(text.repeated_cycles, rel=0.05)
    later = run.cycles - simulate(program, MACHINE, refills=False).cycles
    assert 0 < later <= run.by_kind()["instruction cache"]
    assert sum(run.by_kind().values()) == run.cycles


FIRST_LAYER = Path(__file__).parent / "golden/first_layer.txt"
"""Eight rows of VGG16's first layer with its epilogue: of each row of an image some cores have all,
some nothing, and the last one has two elements of it.
"""


def test_a_call_takes_the_lines_of_one_core_of_those_that_do_not_all_execute_the_same() -> None:
    """Lines of all cores together would be 8 % more of the time than the text says."""
    program = parse(FIRST_LAYER.read_text())
    text = checked_time(CODE.emit(program, MACHINE), MACHINE)
    assert text.repeated_cycles > 1.06 * text.cycles
    assert simulate(program, MACHINE).cycles == pytest.approx(text.repeated_cycles, rel=0.05)


def test_a_repacking_runs_as_on_its_slowest_core() -> None:
    """The one with nothing of a row, all of whose elements become zero. Tiles overlap: no core has
    the 22 elements of 34 that tiles side by side would leave the last one.
    """
    program = parse(FIRST_LAYER.read_text())
    (every,) = (
        uses_of(priced_call(group.stmt, group.dims, program), TABLE)
        for group in executed_calls(program, MACHINE)
        if "grows_3" in group.dims
    )
    assert [(use.mode, use.sample) for use in every] == [
        ("elements", (0, 34, 2)),
        ("elements", (3, 34, 0)),
    ]


def test_lines_lie_as_the_texts_do() -> None:
    """The first line of a routine is the first of each call of it."""
    program = best_without_refills().program(MACHINE)
    lines, name = code_lines(program, MACHINE), MACHINE.core.instruction_table
    assert lines is not None
    assert name is not None
    texts = RoutineCycles(CODE.emit(program, MACHINE).files, load_table(name), (8, 8))
    starts = {texts.first_line(routine) for routine in texts.routines}
    products = max(starts)
    assert {min(own) for own in lines.lines if min(own) <= products} == starts


def test_runs_without_and_with_refills_are_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    candidate, prepared = best_without_refills(), list[Program]()
    program = candidate.program(MACHINE)
    lines = code_lines(program, MACHINE)
    assert lines is not None

    def prepare(own: Program, machine: Machine) -> PreparedProgram:
        prepared.append(own)
        return level_program.prepare(own, machine)

    monkeypatch.setattr(level, "prepare", prepare)
    warm, refilled = level.without_and_with(lines, program, MACHINE)
    assert prepared == [program]
    assert warm == simulate(program, MACHINE, refills=False)
    assert refilled == simulate(program, MACHINE)
    assert refilled.cycles > warm.cycles


def test_what_programs_have_in_common_is_priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    program, priced = best_without_refills().program(MACHINE), list[str]()
    cost._priced_on.cache_clear()
    alone = simulate(program, MACHINE)

    def noted(machine: Machine, call: PricedCall[Any], costs: Costs) -> Value:
        priced.append(call.primitive.name)
        return call_cycles(machine, call, costs)

    monkeypatch.setattr(cost, "call_cycles", noted)
    assert simulate(replace(program, name="twin"), MACHINE) == alone
    assert priced == []
    own = simulate(program, MACHINE, costs=call_costs(MACHINE))  # might be others
    assert own == alone
    assert set(priced) == {"fill", "gemm", "repack"}


def test_of_two_candidates_the_one_whose_routines_fit_is_chosen() -> None:
    (choice,) = choose([PRODUCT], MACHINE, algorithm="gemm")
    chosen, estimate = choice.best.candidate, best_without_refills()
    assert estimate.cycles < chosen.cycles < with_refills(estimate, MACHINE).cycles
    assert chosen.refill_cycles == 0
    program = chosen.program(MACHINE)
    assert code_lines(program, MACHINE) is None
    assert "instruction cache" not in simulate(program, MACHINE).by_kind()


LOOPS = st.lists(st.integers(1, 4), max_size=3).map(tuple)
ITEMS = st.integers(1, 3) | st.integers(20, 300)


@settings(max_examples=30)
@given(st.data(), LOOPS, ITEMS, ITEMS)
def test_a_call_executes_what_a_shorter_one_does(
    data: st.DataObject, loops: tuple[int, ...], row: int, length: int
) -> None:
    kinds = data.draw(st.sampled_from(KINDS))
    routine = data.draw(st.sampled_from([*kinds.frequent()]))
    mode = data.draw(st.sampled_from(routine.modes))
    sample: tuple[Any, ...] = (*loops, row)
    if isinstance(routine, ReduceRoutine):
        along, inside = routine.lie.along, (3, 2) if routine.lie.loops else (1, 1)
        last = length if along else routine.lie.taps
        sample = loops, Extents(prod(loops), row, *inside, last, around(loops))
    elif isinstance(routine, Routine) and routine.work is None:
        sample = len(loops), row, length
    use = RoutineUse(kinds, routine, mode, sample, "")
    assert _of_use(use, TABLE).tolist() == np.flatnonzero(use.run(TABLE).executed).tolist()


def test_what_refills_add_is_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = with_refills(best_without_refills(), MACHINE)
    monkeypatch.delattr("tilewright.tune.refills.simulate")
    assert with_refills(best_without_refills(), MACHINE).refill_cycles == first.refill_cycles > 0


def test_refills_that_were_expected_go_where_there_are_none() -> None:
    (choice,) = choose([PRODUCT], MACHINE, algorithm="gemm")
    chosen = choice.best.candidate
    assert chosen.refill_cycles == 0
    assert with_refills(replace(chosen, refill_cycles=100.0), MACHINE).cycles == chosen.cycles


def _with_core(machine: Machine, **of_core: Any) -> Machine:
    return structs.replace(machine, core=structs.replace(machine.core, **of_core))


def test_a_machine_says_how_its_refills_are_priced_where_that_is_not_as_usual(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert prices_of(MACHINE).refill_note(MACHINE) == ""
    bare = _with_core(MACHINE, instruction_table=None)
    assert prices_of(bare).refill_note(bare) == (
        "refills of the instruction cache are not priced on sw26010_cg: it names no table"
    )
    candidate = best_without_refills()
    assert with_refills(candidate, bare) is candidate
    shipped = load_table(TABLE)
    assert shipped.instruction_cache is not None
    small = structs.replace(shipped.instruction_cache, capacity_bytes=4096)
    for cache_, expected in (
        (
            None,
            "refills of the instruction cache are not priced on sw26010_cg: its table "
            "sw26010_cpe has no instruction cache",
        ),
        (
            small,
            "the instruction cache of sw26010_cg has 4096 bytes, a routine up to 16384: a call "
            "fetches each line that it lacks once, in 30 cycles",
        ),
    ):
        own = structs.replace(shipped, instruction_cache=cache_)
        monkeypatch.setattr(prices, "load_table", lambda _, own=own: own)
        assert prices_of(MACHINE).refill_note(MACHINE) == expected
