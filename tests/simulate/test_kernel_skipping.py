"""Skipping is exact: on random programs it changes no cycle, cause, traffic or refusal."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.meshes import small_mesh
from tilewright.common.errors import SimulationError
from tilewright.common.expr import Const, Expr, Var, binary, evaluate, minimum
from tilewright.ir.nodes import (
    Barrier,
    Buffer,
    Call,
    For,
    If,
    Program,
    Stmt,
    Tensor,
    Transfer,
    View,
    Wait,
    at,
)
from tilewright.ir.primitives import Copy, Fill, MatrixProduct
from tilewright.simulate.kernel import level
from tilewright.simulate.kernel.account import Timeline
from tilewright.simulate.kernel.cost import KernelCosts
from tilewright.simulate.kernel.level import KernelRun, simulate
from tilewright.simulate.kernel.program import prepare
from tilewright.simulate.kernel.signature import (
    CACHED_ITERATIONS,
    Periods,
    Signatures,
    Timed,
    _table,
)
from tilewright.simulate.kernel.state import Statements
from tilewright.simulate.trace import CoreEvent

MACHINE = small_mesh("sw26010_cg", 2, 2)

TENSORS = (
    Tensor("x", "f64", "input", ("r", "c"), (Const(64), Const(64))),
    Tensor("y", "f64", "output", ("r", "c"), (Const(64), Const(64))),
)
BUFFERS = tuple(Buffer(name, "f64", Const(64), Const(2)) for name in ("t", "u", "v"))

Draw = Any


def _index(draw: Draw, loops: tuple[str, ...]) -> Expr:
    """A sum of loop variables, as slots and starts are."""
    total: Expr = Const(draw(st.integers(0, 2)))
    for var in loops:
        total = total + Var(var) * draw(st.sampled_from([0, 0, 1, 1, 2, 3]))
    return total


def _slot(draw: Draw, loops: tuple[str, ...]) -> Expr:
    return _index(draw, loops) % 2 if draw(st.booleans()) else Const(draw(st.integers(0, 1)))


def _extent(draw: Draw, loops: tuple[str, ...]) -> Expr:
    size: Expr = Const(draw(st.sampled_from([1, 4, 8])))
    if loops and draw(st.integers(0, 2)) == 0:
        size = minimum(size, binary("max", 12 - _index(draw, loops) * 2, 0))
    return minimum(size, 9 - Var("rid") * 4) if draw(st.integers(0, 4)) == 0 else size


def _condition(draw: Draw, loops: tuple[str, ...]) -> Expr:
    left, limit = _index(draw, loops), draw(st.integers(0, 6))
    if draw(st.booleans()):
        return binary("==", left % draw(st.integers(2, 3)), 0)
    return binary(draw(st.sampled_from(["<", "=="])), left, limit)


def _transfer(draw: Draw, loops: tuple[str, ...]) -> list[Stmt]:
    direction = draw(st.sampled_from(["get", "get", "put"]))
    buffer, slot = draw(st.sampled_from("tuv")), _slot(draw, loops)
    tensor = "x" if direction == "get" else "y"
    ranges = (at(Var("rid") * 8, _extent(draw, loops)), at(0, _extent(draw, loops)))
    move = Transfer(direction, tensor, ranges, buffer, slot)
    careless = draw(st.integers(0, 30)) == 0
    return [move] if careless else [Wait(buffer, slot), move]


def _call(draw: Draw, loops: tuple[str, ...]) -> list[Stmt]:
    product = MatrixProduct(), ("mn", "mk", "kn")
    others = (Copy(), ("mn", "mn")), (Fill(), ("mn",))
    primitive, roles = draw(st.sampled_from([product, product, *others]))
    slots = [_slot(draw, loops) for _ in roles]
    whole = (at(0, 8), at(0, 8))
    places = list(zip("tuv", slots, strict=False))
    views = tuple(
        View(name, slot, (Const(8), Const(8)), whole, letters)
        for (name, slot), letters in zip(places, roles, strict=True)
    )
    careless = draw(st.integers(0, 30)) == 0
    waits: list[Stmt] = [] if careless else [Wait(name, slot) for name, slot in places]
    return [*waits, Call(primitive, views)]


def _body(draw: Draw, loops: tuple[str, ...], depth: int) -> list[Stmt]:
    body: list[Stmt] = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["move", "move", "call", "call", "if", "for", "barrier"]))
        if kind == "move":
            body += _transfer(draw, loops)
        elif kind == "call":
            body += _call(draw, loops)
        elif kind == "barrier":
            body.append(Barrier())
        elif kind == "if" and loops:
            then = tuple(_body(draw, loops, 0))
            orelse = tuple(_body(draw, loops, 0)) if draw(st.booleans()) else ()
            body.append(If(_condition(draw, loops), then, orelse))
        elif depth:
            body.append(_loop(draw, loops, depth))
    return body


def _loop(draw: Draw, loops: tuple[str, ...], depth: int) -> For:
    var = f"i{len(loops)}"
    extent: Expr = Const(draw(st.integers(0, 30 if depth == 1 else 7)))
    if loops and draw(st.integers(0, 3)) == 0:
        extent = minimum(extent, _index(draw, loops))
    return For(var, extent, tuple(_body(draw, (*loops, var), depth - 1)))


@st.composite
def programs(draw: Draw) -> Program:
    """Loop nests over transfers and calls, nearly always with the waits they need."""
    body: list[Stmt] = []
    for _ in range(draw(st.integers(1, 2))):
        body.append(_loop(draw, (), draw(st.integers(1, 3))))
    end = [Wait(b.name, Const(slot)) for b in BUFFERS for slot in range(2)]
    return Program("random", (), TENSORS, BUFFERS, (*body, *end))


def _outcome(program: Program, **options: Any) -> KernelRun | str:
    try:
        return simulate(program, MACHINE, barrier_cycles=3, **options)
    except SimulationError as error:
        return str(error)


@examples(150)
@given(programs())
def test_skipping_gives_what_plain_execution_gives(program: Program) -> None:
    plain = _outcome(program, skip=False)
    skipped = _outcome(program)
    if isinstance(plain, str) or isinstance(skipped, str):
        assert skipped == plain
        return
    assert skipped.cycles == plain.cycles
    assert skipped.causes == plain.causes
    assert skipped.tensors == plain.tensors
    assert skipped.useful_flops == plain.useful_flops
    assert skipped.peak_bytes == plain.peak_bytes
    assert skipped.statements == plain.statements == plain.simulated_statements
    assert skipped.simulated_statements <= plain.simulated_statements
    assert sum(cause.cycles for cause in skipped.causes) == skipped.cycles


class _Contents:
    """A cache of five contents, whatever its lines."""

    def cycles(self, content: int, call: int, dims: tuple[int, ...]) -> tuple[int, int]:
        return content, (31 * content + 7 * call + sum(dims) + 1) % 5


@examples(100)
@given(programs(), st.integers(0, 4))
def test_what_a_run_leaves_in_the_instruction_cache_is_known_without_it(
    program: Program, code: int
) -> None:
    prepared = prepare(program, MACHINE)
    statements = Statements(prepared, KernelCosts(MACHINE))
    fetches: Any = _Contents()
    executor = level._Executor(
        prepared, MACHINE, statements, Timeline(0),
        skip=False, barrier_cycles=0, fetches=fetches, code=code,
    )  # fmt: skip
    with suppress(SimulationError):
        executor.run()
        assert level._CodeBehind(fetches)(prepared.body, {}, code) == executor.state.code


@examples(60)
@given(programs(), st.booleans(), st.integers(1, 40))
def test_the_trace_covers_every_cycle_once(program: Program, skip: bool, limit: int) -> None:
    run = _outcome(program, skip=skip, trace_limit=limit)
    if isinstance(run, str):
        return
    assert run.trace is not None
    cycle = 0
    for event in (e for e in run.trace.events if isinstance(e, CoreEvent)):
        assert event.start_cycle == cycle
        cycle += event.cycles
    assert cycle == run.cycles


@given(st.data())
def test_equal_signatures_mean_equal_values_inside(data: st.DataObject) -> None:
    """Iterations share a number only if the expression agrees throughout the loops inside."""
    expr = _index(data.draw, ("a", "b", "c"))
    expr = data.draw(
        st.sampled_from([expr % 3, expr // 2, minimum(expr, 4), binary("<", expr, 5)]), label="e"
    )
    outer, inner, count = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 4)), 9
    timed = Timed(expr).inside("c", Const(inner))
    numbers = Signatures((timed,), "b")(count, {"a": outer})
    values = [
        tuple(evaluate(expr, {"a": outer, "b": b, "c": c}) for c in range(inner))
        for b in range(count)
    ]
    for i in range(count):
        for j in range(i):
            if numbers[i] == numbers[j]:
                assert values[i] == values[j]


@given(st.lists(st.integers(0, 1), min_size=6, max_size=30), st.integers(0, 3), st.integers(1, 3))
def test_periods(numbers: list[int], first: int, period: int) -> None:
    """The pattern at 0 <= first < first + period <= length, and how often it follows itself."""
    times = Periods(np.array(numbers)).repeats(first, period)
    pattern, rest = numbers[first : first + period], numbers[first + period :]
    expected = 0
    while rest[:period] == pattern:
        rest, expected = rest[period:], expected + 1
    assert times == expected


def test_iterations_have_one_number_if_all_of_their_values_are_equal() -> None:
    inside = Timed(Var("b") % 2 + Var("c")).inside("c", Const(2))
    for count in (3, 2 * CACHED_ITERATIONS):
        one, two, three, *_ = Signatures((inside,), "b")(count, {})
        assert one == three != two


def test_a_slot_is_seen_from_outside_without_a_loop_that_it_adds_to_alone() -> None:
    a, b = Var("a"), Var("b")
    assert Timed((a * 3 + b * 2) % 4).inside("b", Const(5)) == Timed(a * 3 % 4)
    assert Timed((a // 2 + b) % 4).inside("b", Const(5)) == Timed(a // 2 % 4)
    divided = Timed((a + b // 2) % 4)
    assert divided.inside("b", Const(5)) == Timed(divided.expr, (("b", Const(5)),))


def test_rounds_of_a_loop_are_told_apart_by_what_does_not_change_in_it() -> None:
    signatures = Signatures((Timed(Var("a") + Var("c")).inside("c", Const(2)),), "b")
    (one, two), (other, _) = (signatures(2, {"a": a}) for a in (0, 1))
    assert one == two != other


def test_a_loop_whose_time_depends_on_nothing_has_one_number() -> None:
    assert Signatures((), "b")(3, {}).tolist() == [0, 0, 0]


def test_the_only_iteration_of_a_loop_is_its_first() -> None:
    assert _table(Timed(Var("i") + 5), "i", 1, {}).values.tolist() == [[5]]
