"""The numbers of a nest in all kinds of iterations at once are those of one iteration after the
other.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.common.expr import BinaryExpr, Const, Expr, Value, Var, binary, evaluate
from tilewright.cost.chain import Prepared, take_apart
from tilewright.cost.moments import Edges, edges_of, kind_indices
from tilewright.cost.pipeline_types import Ints
from tilewright.cost.steps import CallStep, first_core
from tilewright.ir.nodes import For
from tilewright.machine.load import load_machine
from tilewright.ops import Conv2d, Op, gemm
from tilewright.schedule.factors import blocks_of, factor_grid
from tilewright.seeds.space import parameters, seeds_for
from tilewright.tune.legal import structures_on
from tilewright.tune.search import sharing

MACHINE = load_machine("sw26010")
CONV = Conv2d(4, 6, 10, 9, 9, (3, 3), (2, 1), (1, 1, 1, 1))


def expressions(prepared: Prepared, number: int) -> list[Expr]:
    """An item's condition, then the expressions that its cost depends on."""
    item = prepared.items[number]
    if isinstance(item.step, CallStep):
        return [item.condition, *item.step.dims.values()]
    return [item.condition, *item.step.tensor_shape, *item.step.numbers]


def iteration(prepared: Prepared, kinds: tuple[int, ...], env: dict[str, int]) -> dict[str, int]:
    """The loops' indices in an iteration of these kinds: one of the first, one of the last, or the
    first one between.
    """
    for loop, (front, back, _), kind in zip(prepared.loops, prepared.edges, kinds, strict=True):
        count = int(evaluate(loop.extent, env))
        at = min(kind, count - 1) if kind <= front else count - back + kind - front - 1
        env = {**env, loop.var: 0 if kind == 0 else max(at, 0) if kind > front else at}
    return env


def over_kinds(numbers: Value, kinds: tuple[int, ...], tiles: int) -> Ints:
    """Numbers in every kind of iteration, (kinds, tiles)."""
    return np.broadcast_to(numbers, (*kinds, tiles)).reshape(-1, tiles)


@pytest.mark.parametrize(
    ("op", "algorithm"),
    [(CONV, "implicit"), (CONV, "explicit"), (gemm(70, 90, 50), "gemm")],
    ids=["implicit", "explicit", "gemm"],
)
@given(st.data())
@examples(6)
def test_numbers_of_every_kind(op: Op, algorithm: str, data: st.DataObject) -> None:
    (seed,) = seeds_for(op, algorithm)
    space = data.draw(st.sampled_from(seed.spaces))
    structure = data.draw(st.sampled_from(structures_on(MACHINE, seed, space, op.dtype)))
    values, prepared = dict(parameters(op)), take_apart(structure.staged)
    grid = factor_grid(structure, values, blocks_of(MACHINE, op.dtype))
    tiles = data.draw(st.lists(st.integers(0, grid.tile_count - 1), min_size=1, max_size=3))
    columns = {name: column[tiles] for name, column in grid.tiles.items()}
    fixed = {**values, **first_core(MACHINE)}
    found, extents = prepared.moments.numbers(prepared.moments.bind({**fixed, **columns}))
    for t in range(len(tiles)):
        env = {**fixed, **{name: int(column[t]) for name, column in columns.items()}}
        for number, (item, own) in enumerate(zip(prepared.moments.items, found, strict=True)):
            every = [iteration(prepared, k, env) for k in product(*map(range, item.kinds))]
            for e, numbers in zip(expressions(prepared, number), own, strict=True):
                rows = over_kinds(numbers, item.kinds, len(tiles))[:, t]
                assert rows.tolist() == [evaluate(e, at) for at in every], str(e)
        for loop, kinds, numbers in zip(
            prepared.loops, prepared.moments.counts, extents, strict=True
        ):
            every = [iteration(prepared, k, env) for k in product(*map(range, kinds))]
            rows = over_kinds(numbers, kinds, len(tiles))[:, t]
            assert rows.tolist() == [evaluate(loop.extent, at) for at in every]


def test_a_program_with_shared_tensors_is_prepared_from_the_plain_one() -> None:
    op = gemm(70, 90, 50)
    (seed,) = seeds_for(op, "gemm")
    plain = structures_on(MACHINE, seed, seed.spaces[0], op.dtype)[0]
    program = sharing(plain, frozenset(seed.operands[:1])).staged
    assert [t.shared for t in program.tensors].count(True) == 1

    def said(prepared: Prepared) -> list[object]:
        steps = [(item.step, item.level, item.after, item.buffer) for item in prepared.items]
        steps += [
            (number.step, number.kinds, number.places, 0) for number in prepared.moments.items
        ]
        return [(getattr(step, "shared", None), str(step.stmt), *rest) for step, *rest in steps]

    assert said(take_apart(plain.staged).marked(program)) == said(take_apart(program))


PLACE, COUNT = Var("place"), Var("count")


@examples(200)
@given(
    st.booleans(),
    st.integers(0, 3),
    st.lists(st.integers(2, 4), max_size=2, unique=True),
    st.integers(1, 40),
)
def test_a_condition_holds_in_an_iteration_if_it_holds_in_its_kind(
    begins: bool, last: int, turns: list[int], count: int
) -> None:
    """Conditions on the first iteration, each of the last ones, and every second to fourth one."""
    tested = [Const(0)] * begins + [COUNT - 1 - n for n in range(last)]
    compared = [BinaryExpr("==", PLACE, value) for value in tested]
    repeated = [BinaryExpr("==", PLACE % n, Const(0)) for n in turns]
    conditions = [*compared, *repeated]
    loop = For("place", COUNT, ())
    items = [(e.symbols, e) for e in conditions]
    front, back, period = edges = edges_of(loop, [loop], items)
    assert (front > 0, back > 0) == (begins or turns != [], conditions != [])
    between = range(front, count - back)
    if len(between) >= period:
        kinds = [i if i < front else front + (i - front) % period for i in range(count - back)]
        kinds += range(front + period, front + period + back)
        like = np.atleast_1d(kind_indices(edges, count, (-1,)))[kinds]
        for condition in conditions:
            holds = [evaluate(condition, {"place": i, "count": count}) for i in range(count)]
            assert holds == [evaluate(condition, {"place": i, "count": count}) for i in like]


@examples(100)
@given(st.integers(0, 2), st.integers(1, 12), st.integers(0, 3))
def test_the_last_iteration_that_asks_for_a_later_one_is_a_kind(
    ahead: int, count: int, missing: int
) -> None:
    """As that one may be shorter."""
    tile, condition = 4, binary("<", PLACE + ahead, COUNT)
    size = binary("min", Const(tile), count * tile - missing - (PLACE + ahead) * tile)
    loop = For("place", COUNT, ())
    front, back, period = edges = edges_of(loop, [loop], [(condition.symbols, condition)])
    assert (front, back, period) == (0, 1 + ahead, 1)
    kinds = [0] * (count - back) + [*range(edges.kinds)][-min(back, count) :]
    places = np.broadcast_to(kind_indices(edges, count, (-1,)), edges.kinds)[kinds]
    for place, like in enumerate(places.tolist()):
        env = {"place": place, "count": count}
        if evaluate(condition, env):
            assert evaluate(size, env) == evaluate(size, {**env, "place": like})


def test_a_loop_that_runs_once_for_every_tile_has_one_kind() -> None:
    edges = Edges(1, 1)
    assert kind_indices(edges, np.array([1, 1]), (-1, 1)) == 0
    assert kind_indices(edges, np.array([1, 4]), (-1, 1)).tolist() == [[0, 0], [0, 1], [0, 3]]
