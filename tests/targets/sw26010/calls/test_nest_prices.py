"""Prices of elementwise calls, against the emitted call on the emitted routine."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from math import prod

import numpy as np
import pytest

from support.examples import one_in
from support.routines import assembled
from tilewright.codegen.c.elementwise_calls import CallContext
from tilewright.codegen.c.expression import Scope
from tilewright.codegen.c.names import Naming
from tilewright.codegen.c.writer import CWriter
from tilewright.common.expr import Const, Expr, Var, ceil_div, evaluate, minimum
from tilewright.cost.calls import PricedCall, call_cycles
from tilewright.cost.prices import call_costs
from tilewright.cost.timing import call_dims
from tilewright.ir.nodes import Buffer, Call, Program, View, at
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import (
    Copy,
    Fill,
    Map,
    MultiplyAccumulate,
    Reduce,
    ScaleAdd,
    Windows,
    WinogradFilter,
    WinogradInput,
    WinogradOutput,
)
from tilewright.machine import load_machine
from tilewright.simulate.instruction_level import simulate_core
from tilewright.simulate.program import AssembledProgram as CoreProgram
from tilewright.targets.sw26010.calls.expressions import map_calls, routine_of_reduce
from tilewright.targets.sw26010.calls.nest_rows import rows_of
from tilewright.targets.sw26010.calls.prices import map_rows
from tilewright.targets.sw26010.elementwise.maps import MapRoutine
from tilewright.targets.sw26010.elementwise.reduce import ReduceRoutine
from tilewright.targets.sw26010.elementwise.routines import Routine, routine_of
from tilewright.targets.sw26010.emit.slave import emit_call

pytestmark = one_in(3)


MACHINES = ("sw26010", "sw26010_cg", "sw26010_measured")
COUNT_AT, MOVES_AT, OTHERS_AT, STACK_AT = 60_000, 60_064, 60_384, 59_392
PLACES_AT, REDUCE_MOVES_AT = 60_512, 60_160
ELEMENTS = 7000
NAMES = ("y", "x0", "x1", "x2", "x3")


def view(number: int, roles: str, shape: tuple[int, ...], ranges: object = None) -> View:
    """Of a buffer; without `ranges` all of it, else (start, extent) or (start, extent, step)."""
    given = ranges if isinstance(ranges, list) else [(0, size) for size in shape]
    return View(
        NAMES[number], Const(0), tuple(map(Const, shape)), tuple(at(*r) for r in given), roles
    )


def written(call: Call, dtype: str) -> str:
    """The call in C."""
    names = [o.buffer for o in call.operands if isinstance(o, View)]
    buffers = tuple(Buffer(n, dtype, Const(ELEMENTS)) for n in dict.fromkeys(names))
    program = Program("calls", (), (), buffers, (call,))
    naming = Naming("calls", {}, {n: n for n in names}, {})
    context = CallContext(program, naming, Scope(), CWriter())
    emit_call(call, context)
    return context.writer.text()


def arrays(text: str, name: str) -> list[list[int]]:
    """The values of each array of that name, in their order."""
    found = re.findall(rf"{name}\[[^]]*\] = {{([^}}]*)}}", text)
    return [[int(eval(n)) for n in one.split(",")] for one in found]


def emitted_cycles(call: Call, dtype: str, table: str) -> int:
    """Cycles of the routine's text for the arrays that the emitted call passes."""
    text = " ".join(written(call, dtype).split())
    size = 8 if dtype == "f64" else 4
    views = [o for o in call.operands if isinstance(o, View)]
    starts = [size * int(evaluate(offset_of(v), {})) for v in views]
    if maps := map_calls(call.primitive, tuple(views), dtype):
        cycles = 0
        for made, count, moves in zip(
            maps, arrays(text, "count"), arrays(text, "tw_move"), strict=True
        ):
            to, *sources = (size * int(evaluate(offset_of(v), {})) for v in made.views)
            words = {COUNT_AT: count, MOVES_AT: moves, PLACES_AT: sources}
            registers = {"$16": to, "$17": PLACES_AT, "$18": COUNT_AT, "$19": MOVES_AT}
            program = assembled_once(made.routine, table)
            cycles += run(program, made.routine.name, registers, words)
        factors = [int(n) for n in re.findall(r"tw_at\d < (\d+)", text)]
        return cycles * int(np.prod(factors, dtype=int))
    if isinstance(call.primitive, Reduce):
        (count,), (moves,) = arrays(text, "count"), arrays(text, "tw_move")
        reduction = routine_of_reduce(call.primitive, (views[0], views[1]), dtype)
        assert reduction is not None
        words = {COUNT_AT: count, REDUCE_MOVES_AT: moves}
        registers = {"$16": starts[0], "$17": starts[1], "$18": COUNT_AT, "$19": REDUCE_MOVES_AT}
        return run(assembled_once(reduction, table), reduction.name, registers, words)
    plain = routine_of(call.primitive, dtype)
    assert plain is not None
    program = assembled_once(plain, table)
    (count,), (y,), (x,) = (arrays(text, name) for name in ("count", "y_stride", "x_stride"))
    words = {COUNT_AT: count, MOVES_AT: y, OTHERS_AT: x, STACK_AT: [0, 0, 0]}
    registers = {"$16": starts[0], "$17": starts[1]}
    registers |= {"$18": COUNT_AT, "$19": MOVES_AT, "$20": OTHERS_AT}
    return run(program, plain.name, registers, words)


@cache
def assembled_once(routine: Routine | MapRoutine | ReduceRoutine, table: str) -> CoreProgram:
    """The routine's program."""
    return assembled(routine.text(), table)


def offset_of(given: View) -> Expr:
    """Elements in front of the first one."""
    strides = np.cumprod([1, *(s.value for s in reversed(given.shape))])[-2::-1]  # type: ignore[union-attr]
    offset: Expr = Const(0)
    for r, stride in zip(given.ranges, strides, strict=True):
        offset = offset + r.start * int(stride)
    return offset


def run(
    program: CoreProgram, name: str, registers: dict[str, int], words: dict[int, list[int]]
) -> int:
    """Cycles of one call."""
    memory = np.zeros(65536 // 8, np.int64)
    for place, values in words.items():
        memory[place // 8 : place // 8 + len(values)] = values
    given = {**registers, "$30": STACK_AT}
    return simulate_core(
        program, entry=name, registers=given, local_memory=memory, trace=False
    ).cycles


def priced_cycles(call: Call, dtype: str, name: str) -> float:
    """The call's price."""
    machine = load_machine(name)
    dims = {key: evaluate(e, {}) for key, e in call_dims(call, ()).items()}
    priced = PricedCall(call.primitive, dims, dtype)
    return float(call_cycles(machine, priced, call_costs(machine)))


def drawn(primitive: Primitive, rng: np.random.Generator) -> Call:
    """Operands of one to four axes of few indices, whole or parts of larger tiles, in one order or
    two, of which further ones may lack some.
    """
    rank = int(rng.integers(1, 5))
    letters = [str(letter) for letter in rng.permutation(list("abde"))[:rank]]
    extents = {a: int(rng.choice((1, 2, 3, 4, 5, 8))) for a in letters}
    extents[letters[-1]] = int(rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 12, 16)))
    while np.prod(list(extents.values())) > 600:
        extents[max(extents, key=lambda a: extents[a])] //= 2
    counts = {Fill: 1, Copy: 2, ScaleAdd: 3, MultiplyAccumulate: 3}
    operands = []
    for number in range(counts.get(type(primitive), 3)):
        own = list(letters)
        if number and rng.random() < 0.2:
            own = [str(letter) for letter in rng.permutation(own)]
        broadcasts = isinstance(primitive, ScaleAdd | Map) or number == 2
        if number and broadcasts:
            own = [a for a in own if rng.random() < 0.7]
        if isinstance(primitive, MultiplyAccumulate) and number == 2:
            own = own[:1]
        larger = rng.random(len(own)) < 0.2
        more = [int(rng.choice((1, 4))) if large else 0 for large in larger]
        shape = tuple(extents[a] + m for a, m in zip(own, more, strict=True))
        ranges = [(int(rng.integers(0, m + 1)), extents[a]) for a, m in zip(own, more, strict=True)]
        operands.append(view(number, "".join(own), shape, ranges))
    return Call(primitive, tuple(operands))


PLAIN = (Fill(), Copy(), ScaleAdd(), ScaleAdd(0.5), MultiplyAccumulate(), Map("x0 + x1"))


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("primitive", PLAIN, ids=str)
def test_a_call_is_priced_at_what_its_code_takes(primitive: Primitive, name: str) -> None:
    rng, table = np.random.default_rng(7), load_machine(name).core.instruction_table
    assert table is not None
    for _ in range(40):
        call = drawn(primitive, rng)
        dtype = str(rng.choice(("f64", "f32")))
        assert priced_cycles(call, dtype, name) == emitted_cycles(call, dtype, table), call


def drawn_reduction(primitive: Reduce, rng: np.random.Generator) -> Call:
    """Results of up to three axes, gathered along up to three that lie anywhere among those of the
    elements; both operands whole or parts of larger tiles, elements next to each other or two
    apart.
    """
    rank = int(rng.integers(0, 4))
    letters = [str(letter) for letter in rng.permutation(list("abde"))[:rank]]
    extents = {a: int(rng.choice((1, 2, 3, 4, 8))) for a in letters}
    if letters:
        extents[letters[-1]] = int(rng.choice((1, 2, 4, 5, 6, 8, 12, 16)))
    own = list(letters)
    while prod(extents.values()) > 60:
        extents[max(extents, key=lambda a: extents[a])] //= 2
    found = [*((a, extents[a]) for a in own)]
    for _ in range(int(rng.integers(0, 4))):
        found.insert(int(rng.integers(0, len(found) + 1)), ("k", int(rng.choice((1, 2, 3, 5, 9)))))
    step = int(rng.choice((1, 1, 2)))
    operands = []
    for number, axes in enumerate(([(a, extents[a]) for a in letters], found)):
        shape, ranges = [], []
        for place, (_, extent) in enumerate(axes):
            more = int(rng.choice((0, 0, 0, 1, 4)))
            apart = step if number and place == len(axes) - 1 else 1
            shape.append(extent * apart + more)
            ranges.append((int(rng.integers(0, more + 1)), extent, apart))
        operands.append(strided(number, "".join(a for a, _ in axes), tuple(shape), ranges))
    return Call(primitive, tuple(operands))


def strided(
    number: int, roles: str, shape: tuple[int, ...], ranges: list[tuple[int, int, int]]
) -> View:
    """Of a buffer, (start, extent, step) of each axis."""
    places = tuple(at(start, extent, step=step) for start, extent, step in ranges)
    return View(NAMES[number], Const(0), tuple(map(Const, shape)), places, roles)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("primitive", [Reduce("max"), Reduce("sum", "x0 * x0")], ids=str)
def test_a_reduction_is_priced_at_what_its_code_takes(primitive: Reduce, name: str) -> None:
    rng, table = np.random.default_rng(5), load_machine(name).core.instruction_table
    assert table is not None
    for _ in range(25):
        call = drawn_reduction(primitive, rng)
        dtype = str(rng.choice(("f64", "f32")))
        if "count[" not in written(call, dtype):
            continue
        assert priced_cycles(call, dtype, name) == emitted_cycles(call, dtype, table), call


def tiles(images: int, channels: int, extra: int) -> tuple[View, View, View]:
    """Points of 2 x 4 tiles of 4 x 4 pixels, the pixels and the results, channels or images
    innermost.
    """
    points = view(0, "xtks", (16, 8, channels, images))
    pixels = view(
        1,
        "rcks",
        (4, 18 + extra, channels, images),
        [(0, 4), (extra, 18), (0, channels), (0, images)],
    )
    results = view(1, "rcks", (2, 16, channels, images))
    return points, pixels, results


def special_calls() -> list[Call]:
    """Windows and transforms, with rows of one, two and more vectors and of single elements."""
    found = []
    for images, channels, extra in ((8, 2, 0), (1, 4, 0), (1, 3, 1), (4, 1, 1)):
        points, pixels, results = tiles(images, channels, extra)
        found.append(Call(WinogradInput(2), (points, pixels)))
        found.append(Call(WinogradOutput(2), (results, replace(points, buffer="x1"))))
        kernel = view(1, "rcks", (3, 3, channels, images))
        found.append(Call(WinogradFilter(2), (view(0, "xks", (16, channels, images)), kernel)))
        for stride, rows in ((1, 3), (2, 1), (2, 3)):
            wide = 6 * stride + 3
            taken = view(0, "xtks", (3 * rows, 6, channels, images))
            source = view(1, "rcks", (rows, wide, channels, images))
            found.append(Call(Windows(rows, 3, stride), (taken, source)))
    found.append(Call(ScaleAdd(0.5), (view(0, "ab", (3, 8)),)))
    found.append(Call(Copy(), (view(0, "aab", (4, 2, 8)), view(1, "ba", (8, 8)))))
    return found


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_windows_and_transforms_are_priced_at_what_their_code_takes(dtype: str, name: str) -> None:
    table = load_machine(name).core.instruction_table
    assert table is not None
    for call in special_calls():
        assert priced_cycles(call, dtype, name) == emitted_cycles(call, dtype, table), call


def test_an_extent_that_is_known_only_at_run_time_joins_no_loop_around_it() -> None:
    """Its value makes whole rows, of which the code cannot know."""
    part = minimum(8, Const(20) - Var("cid") * 8)
    whole = View("y", Const(0), (Const(3), Const(8)), (at(0, 3), at(0, part)), "ab")
    packed = View("y", Const(0), (Const(3), part), (at(0, 3), at(0, part)), "ab")
    found = []
    for each in (whole, packed):
        dims = call_dims(Call(Fill(), (each,)), ())
        rows = rows_of({key: evaluate(e, {"cid": 0}) for key, e in dims.items()}, (0,))
        found.append((int(rows.row), int(rows.rows)))
    assert found == [(8, 3), (24, 1)]


def test_an_extent_that_is_the_same_in_all_turns_is_known() -> None:
    n, part = Var("n"), minimum(8, Var("n") - Var("i") * 8)
    whole = View("y", Const(0), (Const(3), Const(8)), (at(0, 3), at(0, part)), "ab")
    dims = call_dims(Call(Fill(), (whole,)), ("n",), {"i": ceil_div(n, 8)})
    env = {"n": np.array([12, 16]), "i": 0}
    rows = rows_of({key: evaluate(e, env) for key, e in dims.items()}, (0,))
    assert (rows.row.tolist(), rows.rows.tolist()) == ([8, 24], [3, 1])


def test_candidates_are_priced_together_as_one_by_one() -> None:
    """Loops vanish in some of them, and join in others."""
    n, m = Var("n"), Var("m")
    result = View("y", Const(0), (Const(3), n, m), (at(0, 3), at(0, n), at(0, m)), "abc")
    other = View("x0", Const(0), (Const(3), m), (at(0, 3), at(0, m)), "ac")
    call = Call(Map("x0 + x1"), (result, result, other))
    values = np.array([[1, 8], [4, 1], [5, 4], [1, 1], [2, 6]])
    dims, machine = call_dims(call, ("n", "m")), load_machine("sw26010")
    price = call_costs(machine)[Map]
    env = {"n": values[:, 0], "m": values[:, 1]}
    together = price(
        machine, PricedCall(call.primitive, {key: evaluate(e, env) for key, e in dims.items()})
    )
    alone = [
        price(
            machine,
            PricedCall(
                call.primitive,
                {k: evaluate(e, {"n": int(a), "m": int(b)}) for k, e in dims.items()},
            ),
        )
        for a, b in values
    ]
    assert together.tolist() == [float(one) for one in alone]


def test_the_rows_of_a_map_join_while_every_operand_walks_over_them_as_over_one() -> None:
    """(row, bits of the operands that stay the same, by vectors)."""
    cases = [
        (((0, "ab", (6, 16)), (1, "ab", (6, 16))), (96, 0, True)),
        (((0, "ab", (6, 16), (6, 8)), (1, "ab", (6, 8))), (8, 0, True)),
        (((0, "ab", (6, 18), (6, 8)), (1, "ab", (6, 8))), (8, 0, False)),
        (((0, "ab", (7, 9)), (1, "ab", (7, 9))), (63, 0, False)),
        (((0, "ab", (8, 16)), (1, "ba", (16, 8))), (16, 0, False)),
        (((0, "cs", (5, 32)), (1, "cs", (5, 32)), (2, "c", (5,))), (32, 2, True)),
        (((0, "chw", (5, 4, 3)), (1, "chw", (5, 4, 3)), (2, "c", (5,))), (12, 2, True)),
        (((0, "sc", (5, 32)), (1, "sc", (5, 32)), (2, "c", (32,))), (32, 0, True)),
        (((0, "sci", (5, 8, 1)), (1, "sci", (5, 8, 1)), (2, "c", (8,))), (8, 0, True)),
        (((0, "ab", (1, 1)), (1, "ab", (1, 1))), (1, 0, False)),
    ]
    for given, expected in cases:
        views = []
        for number, roles, shape, *extents in given:
            ranges = [(0, e) for e in (extents[0] if extents else shape)]
            views.append(view(number, roles, shape, ranges))
        call = Call(Map("x0"), tuple(views))
        dims = {key: evaluate(e, {}) for key, e in call_dims(call).items()}
        rows = map_rows(PricedCall(call.primitive, dims))
        assert (int(rows.row), int(rows.still), bool(rows.by_vectors)) == expected, given
