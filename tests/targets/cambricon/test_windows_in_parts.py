"""Windows in parts: the rows of the next ones come beside instructions on the present ones."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest

from tilewright.common.errors import ScheduleError
from tilewright.compiler.checking import operator_result, program_inputs
from tilewright.ir.interpret import interpret
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.machine import load_machine
from tilewright.ops.access import straight
from tilewright.ops.mapping import InMemory
from tilewright.ops.numerics import real_types
from tilewright.papers.dla_al.loops import PAPER_MACHINE
from tilewright.seeds.space import seeds_for
from tilewright.seeds.steps import IN_PARTS
from tilewright.targets.cambricon.code import CODE
from tilewright.targets.cambricon.windows_in_parts import WindowsInParts
from tilewright.tune.candidate import Candidate
from tilewright.tune.legal import structures_on
from tilewright.tune.search import _Case, _price

MACHINE = load_machine(PAPER_MACHINE)


def windows(rows: int, cols: int, channels: int, kernel: tuple[int, int]) -> InMemory:
    """The largest of windows that share no place, channels last."""
    height, width = kernel
    x = straight((rows, height, cols, width, channels), (0, 3, 1, 4, 2))
    y = straight((rows, cols, channels))
    return InMemory((rows, cols, channels, *kernel), y, (x,), "x0", "max", dtype=real_types("q8.8"))


def candidates(op: InMemory, count: int) -> list[Candidate]:
    (seed,) = (s for s in seeds_for(op, None, whole=True) if s.name == "windows_in_parts")
    own = structures_on(MACHINE, seed, seed.spaces[0], op.dtype)[0]
    ((priced,),) = _price([own], [_Case(op, {})], MACHINE, seed, count)
    return [Candidate(op, seed, (best,), {}) for best in priced.top(count)]


def test_a_fetch_the_store_and_a_fetch_stand_apart() -> None:
    """Half of a row is a tile: the store is between the instruction on rows and two windows."""
    text = print_program(candidates(windows(14, 14, 512, (2, 2)), 1)[0].program(MACHINE))
    turn = text[text.index("for i1 in range(2)") :]
    named = (line.strip().partition("(")[0] for line in turn.splitlines())
    order = [name for name, _ in groupby(n for n in named if n in {"get", "put", "rounded_map"})]
    assert order == ["get", "rounded_map", "put", "rounded_map", "get", "rounded_map", "put"]
    assert "y_tile" not in text


@pytest.mark.parametrize(
    "op",
    [windows(5, 7, 33, (2, 2)), windows(3, 6, 27, (3, 2)), windows(1, 1, 8, (4, 2))],
    ids=lambda op: op.describe(),
)
def test_tiles_of_all_sizes_have_the_bits_and_the_cycles_of_their_meaning(op: InMemory) -> None:
    """Several rows of windows in a tile, three rows and four in a window, single windows."""
    rng = np.random.default_rng(3)
    given = tuple(rng.integers(-200, 201, s).astype(np.int16) for s in op.input_shapes)
    for candidate in candidates(op, 12)[::3]:
        program = candidate.program(MACHINE)
        inputs = program_inputs(op, candidate.seed, program, given)
        found = CODE.run(CODE.emit(program, MACHINE), MACHINE, inputs)
        meant = interpret(program, inputs, (1, 1))
        assert np.array_equal(found["y"], meant["y"]), candidate.nests[0].factors
        result = operator_result(op, candidate.seed, program, found)
        assert np.array_equal(result, op.reference(*given))
        cycles = CODE.simulate(program, MACHINE).cycles
        assert candidate.cycles == pytest.approx(cycles, rel=0.02, abs=20)


@pytest.mark.parametrize("kernel", [(2, 3), (1, 2), (2, 1)])
def test_other_windows_are_left_to_other_schedules(kernel: tuple[int, int]) -> None:
    names = [s.name for s in seeds_for(windows(4, 4, 8, kernel), None, whole=True)]
    assert names == ["reduce"]


def test_a_copy_is_refused() -> None:
    program = parse("""\
def copy():
    x: tensor("i16", "input", k=32)
    x_tile: buffer("i16", 32)
    get(x[at(0, 32)], x_tile[0])
    wait(x_tile[0])
""")
    with pytest.raises(ScheduleError) as refused:
        WindowsInParts({"x": IN_PARTS}).apply(program)
    assert str(refused.value) == (
        "stage(x, in_parts): parts come of windows whose rows and columns are dimensions, the "
        "largest elements of which are stored; name a loop instead"
    )
