"""Weights in parts: the next tile's come beside the products on the present one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from support.cambricon_operators import KINDS
from tilewright.common.errors import ScheduleError
from tilewright.compiler.checking import program_inputs
from tilewright.ir.interpret import interpret
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.machine import load_machine
from tilewright.ops import Conv2d, conv2d
from tilewright.papers.dla_al.loops import PAPER_MACHINE
from tilewright.schedule.structures import Structure
from tilewright.seeds.space import Seed, seeds_for, with_epilogue
from tilewright.seeds.steps import IN_PARTS, Stage
from tilewright.targets.cambricon.code import CODE
from tilewright.targets.cambricon.finish_beside import FetchInParts
from tilewright.tune.candidate import Candidate
from tilewright.tune.legal import structures_on
from tilewright.tune.search import _Case, _price

MACHINE = load_machine(PAPER_MACHINE)


def pointwise(channels: int, features: int, height: int, width: int, batch: int = 1) -> Conv2d:
    return conv2d(batch=batch, in_channels=channels, out_channels=features, height=height,
                  width=width, kernel=1, dtype=KINDS)  # fmt: skip


@cache
def in_parts(op: Conv2d) -> tuple[Seed, Structure]:
    """The algorithm and the schedule of it that has weights in parts."""
    (seed,) = (s for s in seeds_for(op, None, whole=True) if s.name == "whole_pixels")
    every = structures_on(MACHINE, seed, seed.spaces[0], op.dtype)
    (own,) = (s for s in every if Stage("w", IN_PARTS) in s.steps)
    return seed, own


def candidates(op: Conv2d, count: int) -> list[Candidate]:
    seed, own = in_parts(op)
    ((priced,),) = _price([own], [_Case(op, {})], MACHINE, seed, count)
    return [Candidate(op, seed, (best,), {}) for best in priced.top(count)]


def test_a_part_of_the_next_tile_comes_beside_every_other_product() -> None:
    """Of 160 rows of weights in two tiles, in 24 turns of 49: four rows each, the last ones again
    where fewer are left.
    """
    found = (print_program(c.program(MACHINE)) for c in candidates(pointwise(32, 160, 7, 7), 40))
    text = next(t for t in found if "for out_channel in range(2)" in t and "range(49)" in t)
    inner = text[text.index("in range(49)") :]
    get, product, put = (inner.index(s) for s in ("get(", "rounded_product(", "put("))
    assert get < product < put
    rows = "min(4, 160 - (out_channel + 1) * 80)"
    assert f"first=min(vector // 2 * {rows}, 160 - (out_channel + 1) * 80 - {rows}) * 32" in inner
    assert "w_tile[1 - out_channel % 2]" in inner
    assert "vector % 2 == 1" in inner


@pytest.mark.parametrize(
    "op",
    [
        pointwise(32, 160, 7, 7),
        pointwise(24, 250, 5, 9, batch=2),
        pointwise(300, 1000, 5, 3),
        pointwise(1200, 1000, 2, 5),
        pointwise(40, 37, 1, 1),
        pointwise(7, 300, 1, 5),
    ],
    ids=lambda op: op.describe(),
)
def test_tiles_of_all_sizes_have_the_bits_and_the_cycles_of_their_meaning(op: Conv2d) -> None:
    """Ragged last tiles of weights and of pixels, more parts than rows, single pixels."""
    rng = np.random.default_rng(3)
    given = tuple(rng.integers(-200, 201, s).astype(np.int16) for s in op.input_shapes)
    for candidate in candidates(op, 12)[::3]:
        program = candidate.program(MACHINE)
        inputs = program_inputs(op, candidate.seed, program, given)
        found = CODE.run(CODE.emit(program, MACHINE), MACHINE, inputs)
        meant = interpret(program, inputs, (1, 1))
        assert np.array_equal(found["y"], meant["y"]), candidate.nests[0].factors
        cycles = CODE.simulate(program, MACHINE).cycles
        assert candidate.cycles == pytest.approx(cycles, rel=0.02, abs=20)


def test_results_that_maps_take_are_left_to_other_schedules() -> None:
    """A bias and a maximum stand behind the products: no schedule has weights in parts there."""
    op = pointwise(32, 64, 7, 7)
    (plain,) = (s for s in seeds_for(op, None, whole=True) if s.name == "whole_pixels")
    seed = with_epilogue(plain, "max(x0 + x1, 0.0)", (("group", "channels"),))
    every = structures_on(MACHINE, seed, seed.spaces[0], op.dtype)
    assert every
    assert not [s for s in every if Stage("w", IN_PARTS) in s.steps]


def test_a_product_on_one_vector_is_refused() -> None:
    program = parse("""\
def dot():
    w: tensor("i16", "input", m=32, k=32)
    x: tensor("i16", "input", k=32)
    y: tensor("i16", "output", m=32)
    w_tile: buffer("i16", 1024)
    x_tile: buffer("i16", 32)
    y_tile: buffer("i16", 32)
    get(x[at(0, 32)], x_tile[0])
    wait(x_tile[0])
    get(w[at(0, 32), at(0, 32)], w_tile[0])
    wait(w_tile[0])
    put(y_tile[0], y[at(0, 32)])
""")
    with pytest.raises(ScheduleError) as refused:
        FetchInParts({"w": IN_PARTS}).apply(program)
    assert str(refused.value) == (
        "stage(w, in_parts): parts come beside a product whose loop over vectors is inside the "
        "tiles of w and whose results are stored unchanged; name a loop instead"
    )
