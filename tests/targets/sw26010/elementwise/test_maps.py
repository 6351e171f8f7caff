"""The routines of maps: what they compute bit by bit, keep and take, on the simulated core."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle, product

import numpy as np
import pytest

from support.examples import one_in
from support.expressions import TANGLED
from support.held_out import NOT_SAMPLED
from support.routines import assembled
from support.scalars import OF_FLOATS
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Var, evaluate
from tilewright.cost.calls import PricedCall
from tilewright.cost.elementwise import LoopForm, elementwise_costs
from tilewright.cost.prices import call_costs
from tilewright.cost.timing import call_dims
from tilewright.ir.nodes import Call, View, at
from tilewright.ir.primitives import Map
from tilewright.ir.scalar import FUNCTIONS as TABLE_OF_FUNCTIONS
from tilewright.ir.scalar import Apply, Element, parse_scalar
from tilewright.machine import load_machine
from tilewright.simulate.instruction_level import simulate_core
from tilewright.targets.sw26010.calls.expressions import map_calls
from tilewright.targets.sw26010.elementwise.code import MODES
from tilewright.targets.sw26010.elementwise.expression import ExpressionOperations
from tilewright.targets.sw26010.elementwise.maps import MapRoutine, map_routine
from tilewright.targets.sw26010.elementwise.sums import Sums
from tilewright.targets.sw26010.prices import compiled_map
from tilewright.targets.sw26010.timing.derived import SHIPPED_TABLES
from tilewright.targets.sw26010.timing.maps import FREQUENT, MAPS, UPDATES, map_terms
from tilewright.targets.sw26010.timing.nests import sampled_rows

pytestmark = one_in(3)


TABLE = "sw26010_cpe"
KEPT = (9, 10, 11, 12, 13, 14, 15)
PLACES_AT, COUNT_AT, STEPS_AT, STACK_AT = 57_344, 57_408, 57_472, 60_000
AREA_BYTES, AREAS = 6144, 9
SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 6.0, 1e-300)

FUNCTIONS = [(e, still) for e, still in FREQUENT if "exp" in e or "tanh" in e or "pow" in e]
OTHERS = [
    ("log(x0)", (False,)),
    ("log1p(exp(-abs(x0 + x1))) + (0.0 if x0 + x1 < 0.0 else x0 + x1)", (False, True)),
    ("x0 / pow(2.0 + 0.1 * x1, 0.6)", (False, False)),
    ("pow(x0, x1)", (False, False)),
    ("pow(x0 * x1 + x2, x3)", (False, True, True, True)),
    ("pow(x0 * x1 + x2, x3) * (x5 / x4)", (False, False, True, True, True, True)),
    ("log1p(exp(-abs(x0 + x1 + x2 + x3 + x4 + x5)))", (False, False, True, True, True, True)),
    ("1.0 / (1.0 + exp(-(x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7)))", (True,) * 4 + (False,) * 4),
]
"""Functions that no frequent expression has, some of them short of registers."""
EXPRESSIONS = [
    *(one for one in FREQUENT if one not in FUNCTIONS),
    ("x0 - x1 * x2", (False, False, True)),
    ("x0 if x0 > x1 or x0 != x0 else x1", (False, False)),
    ("x0 / 49.0", (False,)),
    ("x0 / x1", (False, True)),
    ("abs(x0) - sqrt(x1)", (False, False)),
    ("-x0", (False,)),
    ("x0 if x0 > 0.1 * x0 else 0.1 * x0", (False,)),
    ("x0 if x0 < x1 else x1", (False, False)),
    ("6.0 if x0 > 6.0 else (0.0 if x0 < 0.0 else x0)", (False,)),
    ("1.0 if x0 != x0 or x1 < 0.5 else -0.0", (False, False)),
    ("x0 if x0 != x1 else 0.5", (False, True)),
    ("0.1 if x0 else x1", (False, False)),
    ("floor(x0) - 0.25 * ceil(x1)", (False, False)),
    ("floor(1e16 * x0)", (False,)),
    ("ceil(x0)", (False,)),
    ("x0 * (x0 < 0.5)", (False,)),
    ("x1 * (x0 or x1 < 0.0) - x0 * (x0 != x1)", (False, False)),
    ("x1", (False, True)),
    ("-2.5", ()),
    ("x0 + x1 * x2 - x3 + x4", (False, False, True, False, False)),
    ("x0 - x1 + x4 * x3 - x5", (True, False, False, True, True, False)),
    (" + ".join(f"x{i}" for i in range(8)), (False,) * 7 + (True,)),
    ("(x0 - x4) / (x1 + x5) + x6 / x7", (False, False, True, True, False, True, False, False)),
]
SHAPES = [(1, 64, 0), (3, 52, 0), (3, 52, 4), (2, 5, 1), (4, 1, 3), (1, 16, 0), (2, 39, 1)]
"""Rows, elements of a row, elements between rows."""


def routine_of(expression: str, still: tuple[bool, ...], dtype: str) -> MapRoutine:
    found = map_routine(expression, still, dtype)
    assert found is not None
    return found


class Nest:
    """A call on local memory: two times `rows` rows of `extent` elements, `gap` elements apart.
    Operands that stay the same along a row have one element for each.
    """

    def __init__(self, routine: MapRoutine, rows: int, extent: int, gap: int) -> None:
        self.routine, self.size = routine, routine.precision.element_bytes
        self.counts = [1, 1, 1, 2, rows, extent]
        whole = [0, 0, 0, rows * (extent + gap), extent + gap, 1]
        each = [0, 0, 0, rows, 1, 0]
        self.strides = [whole, *(each if still else whole for still in routine.still)]
        self.places = [AREA_BYTES * i for i in range(1 + len(routine.still))]
        rng = np.random.default_rng(rows + extent)
        room = AREA_BYTES * AREAS // self.size
        self.memory = np.full(65536 // self.size, np.nan, f"f{self.size}")
        self.memory[:room] = rng.normal(size=room)
        where = rng.integers(0, room, room // 4)
        self.memory[where] = rng.choice(SPECIAL, len(where))

    def positions(self, operand: int) -> np.ndarray:
        """Of all its elements, outermost loop first."""
        pairs = zip(self.counts, self.strides[operand], strict=True)
        grids = np.meshgrid(*(np.arange(c) * s for c, s in pairs), indexing="ij")
        return self.places[operand] // self.size + sum(grids).ravel()

    def expected(self) -> np.ndarray:
        """The first area afterwards, by the meaning of the primitive."""
        after, y = self.memory.copy(), self.positions(0)
        inputs = [self.memory[self.positions(1 + i)] for i in range(len(self.routine.still))]
        after[y] = Map(self.routine.expression).meaning((after[y], *inputs))
        return after[: AREA_BYTES // self.size]

    def run(self) -> np.ndarray:
        """The first area; asserts that the kept registers are kept."""
        words = self.memory.view(np.int64)
        moves = [
            [s[d] - self.counts[d + 1] * s[d + 1] for d in range(5)] + s[5:] for s in self.strides
        ]
        put = {PLACES_AT: self.places[1:], COUNT_AT: self.counts, STEPS_AT: np.ravel(moves)}
        for place, values in put.items():
            words[place // 8 : place // 8 + len(values)] = values
        registers: dict[str, object] = {f"${r}": [r + lane / 8 for lane in range(4)] for r in KEPT}
        registers |= {"$16": self.places[0], "$17": PLACES_AT, "$18": COUNT_AT, "$19": STEPS_AT}
        done = simulate_core(
            assembled(self.routine.text(), TABLE),
            entry=self.routine.name,
            registers={**registers, "$30": STACK_AT},  # type: ignore[arg-type]
            local_memory=self.memory,
            trace=False,
        )
        for r in KEPT:
            assert np.array_equal(done.registers[r], r + np.arange(4) / 8), f"${r} is lost"
        assert done.integer_registers[30, 0] == STACK_AT
        return done.local_memory.view(self.memory.dtype)[: AREA_BYTES // self.size]


def same_bits(found: np.ndarray, expected: np.ndarray) -> bool:
    """Of whatever is a number."""
    kind = f"i{found.dtype.itemsize}"
    return bool(
        ((found.view(kind) == expected.view(kind)) | (np.isnan(found) & np.isnan(expected))).all()
    )


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize(("expression", "still"), EXPRESSIONS)
def test_what_a_routine_computes_is_the_primitives_meaning_to_the_bit(
    expression: str, still: tuple[bool, ...], dtype: str
) -> None:
    for rows, extent, gap in SHAPES:
        nest = Nest(routine_of(expression, still, dtype), rows, extent, gap)
        expected = nest.expected()
        assert same_bits(nest.run(), expected), (rows, extent, gap)


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize(("expression", "still"), [*FUNCTIONS, *OTHERS])
def test_functions_of_several_operands_are_the_primitives_meaning_but_for_the_last_places(
    expression: str, still: tuple[bool, ...], dtype: str
) -> None:
    close = {"f64": 1e-14, "f32": 2e-7}[dtype]
    for rows, extent, gap in SHAPES:
        nest = Nest(routine_of(expression, still, dtype), rows, extent, gap)
        expected = nest.expected()
        found = nest.run()
        same = np.isclose(found, expected, rtol=close, atol=close, equal_nan=True)
        assert same.all(), (rows, extent, gap)


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize(("expression", "still"), UPDATES)
def test_an_update_rounds_a_product_and_its_sum_once(
    expression: str, still: tuple[bool, ...], dtype: str
) -> None:
    """The first operand is the result; one that stays the same does so in the whole call."""
    routine = map_routine(expression, still, dtype, updates=True)
    assert routine is not None
    assert routine.name != routine_of(expression, still, dtype).name
    for rows, extent, gap in SHAPES:
        nest = Nest(routine, rows, extent, gap)
        nest.places[1] = 0
        for operand, same in enumerate(still, 1):
            if same:
                nest.strides[operand] = [0] * 6
        nest.memory[: AREA_BYTES * AREAS // nest.size] = np.arange(AREA_BYTES * AREAS // nest.size)
        expected = nest.expected()
        assert same_bits(nest.run(), expected), (rows, extent, gap)
    once = Nest(map_routine("x0 + x1 * x1", (False, False), "f64", updates=True), 1, 4, 0)
    once.places[1], once.memory[:4] = 0, -1.0
    once.memory[once.positions(2)] = 1.0 + 2.0**-30
    assert (once.run()[:4] == 2.0**-29 + 2.0**-60).all()


def test_moves_and_updates_of_one_row_take_few_cycles() -> None:
    """A row of one vector: the loops around it are not begun."""
    for expression, still, updates, most in (
        ("-inf", (), False, 31),
        ("x0", (False,), False, 37),
        ("x0 + x1 * x2", (False, False, True), True, 55),
    ):
        routine = map_routine(expression, still, "f32", updates=updates)
        assert routine is not None
        one, two = (MAPS.cycles(TABLE, routine, MODES[0], (rows, 1)) for rows in (1, 2))
        assert one <= most < two


def test_some_of_these_are_short_of_registers() -> None:
    assert [routine_of(*one, "f64").short for one in OTHERS].count(True) == 2


def test_a_result_may_lie_where_an_operand_lies() -> None:
    for rows, extent, gap in SHAPES:
        nest = Nest(
            routine_of("0.0 if x0 + x1 < 0.0 else x0 + x1", (False, False), "f64"),
            rows,
            extent,
            gap,
        )
        nest.places[1] = 0
        expected = nest.expected()
        assert same_bits(nest.run(), expected)


@pytest.mark.parametrize("counts", [[1, 1, 1, 2, 0, 8], [1, 1, 1, 2, 3, 0], [0, 1, 1, 1, 1, 8]])
@pytest.mark.parametrize("expression", ["x0", "0.0 if x0 < 0.0 else x0", "exp(x0)"])
def test_an_empty_loop_does_nothing(expression: str, counts: list[int]) -> None:
    nest = Nest(routine_of(expression, (False,), "f64"), 3, 8, 0)
    before = nest.memory[: AREA_BYTES // 8].copy()
    nest.counts = counts
    assert same_bits(nest.run(), before)


@pytest.mark.parametrize("name", OF_FLOATS)
def test_the_core_computes_every_function_of_floats(name: str) -> None:
    scalar = Apply(name, tuple(map(Element, range(TABLE_OF_FUNCTIONS[name].arity))))
    for still in product((False, True), repeat=TABLE_OF_FUNCTIONS[name].arity):
        assert map_routine(str(scalar), still, "f64") is not None, scalar


def test_a_function_that_the_core_does_not_compute() -> None:
    with pytest.raises(ProgramError) as caught:
        ExpressionOperations(Sums(count=2), [0, 1]).value(parse_scalar("x0 & x1"))
    assert str(caught.value) == "the core has no instruction for 'x0 & x1'"


def test_more_constants_operands_or_types_than_a_routine_takes() -> None:
    assert map_routine(TANGLED, (False,), "f64") is None
    assert map_routine("x0", (False,) * 9, "f64") is None
    assert map_routine("x0", (False,), "i32") is None


@pytest.mark.parametrize(
    ("expression", "still", "table"),
    [(*one, t) for one, t in zip([*EXPRESSIONS, *FUNCTIONS, *OTHERS], cycle(SHIPPED_TABLES))],
)
def test_every_price_is_the_simulated_cycles_also_where_it_was_not_sampled(
    expression: str, still: tuple[bool, ...], table: str
) -> None:
    routine = routine_of(expression, still, "f64")
    found = MAPS.derive(table, routine)
    for mode, fitted in found.items():
        assert fitted.worst_error == 0
        for counts in NOT_SAMPLED:
            terms = map_terms(routine, mode, sampled_rows(mode, counts))
            priced = float(fitted.cycles(terms))
            assert priced == MAPS.cycles(table, routine, mode, counts), counts


def view(roles: str, shape: tuple[int, ...], *extents: int) -> View:
    ranges = tuple(at(0, e) for e in extents or shape)
    return View("tile", Const(0), tuple(map(Const, shape)), ranges, roles)


CALLS = {
    "one row": ("x0", ("ab", (6, 16)), ("ab", (6, 16)), (MODES[0], 1, 24)),
    "rows of a larger tile": ("x0", ("ab", (6, 16), 6, 8), ("ab", (6, 16), 6, 8), (MODES[0], 6, 2)),
    "no whole vectors": ("x0", ("ab", (6, 10), 6, 9), ("ab", (6, 10), 6, 9), (MODES[1], 6, 9)),
    "transposed": ("x0", ("ab", (8, 16)), ("ba", (16, 8)), (MODES[1], 8, 16)),
    "bias of channels": ("x0 + x1", ("cs", (5, 32)), ("c", (5,)), (MODES[0], 5, 8)),
    "bias along a row": ("x0 + x1", ("sc", (5, 32)), ("c", (32,)), (MODES[0], 5, 8)),
    "one image": ("x0 + x1", ("sci", (5, 32, 1)), ("c", (32,)), (MODES[0], 5, 8)),
}


@pytest.mark.parametrize("case", CALLS)
@pytest.mark.parametrize("name", ["sw26010", "sw26010_measured"])
def test_a_call_is_priced_as_the_rows_that_its_code_runs(case: str, name: str) -> None:
    expression, y, last, (mode, rows, items) = CALLS[case]
    result, other = view(*y[:2], *y[2:]), view(*last[:2], *last[2:])
    views = (result, other) if expression == "x0" else (result, result, other)
    machine, call = load_machine(name), Call(Map(expression), views)
    dims = {key: evaluate(e, {}) for key, e in call_dims(call).items()}
    priced = call_costs(machine)[Map](machine, PricedCall(call.primitive, dims))
    (made,) = map_calls(Map(expression), views, "f64")
    routine = made.routine
    table = machine.core.instruction_table
    assert table is not None
    exact = MAPS.cycles(table, routine, mode, (rows, items))
    assert priced == exact


@pytest.mark.parametrize("axes", [5, 6, 7])
def test_more_loops_than_a_routine_has_are_priced_as_the_loops_of_c_that_they_are(
    axes: int,
) -> None:
    tile = view("abcdefg"[:axes], (3,) * axes, *(2,) * axes)
    machine, call = load_machine("sw26010"), Call(Map("-x0"), (tile, tile))
    dims = {key: evaluate(e, {}) for key, e in call_dims(call).items()}
    asked = PricedCall(call.primitive, dims)
    priced = call_costs(machine)[Map](machine, asked)
    calls = map_calls(Map("-x0"), (tile, tile), "f64")
    if not calls:
        assert axes == 7
        assert priced == compiled_map(elementwise_costs(LoopForm())[Map])(machine, asked)
        return
    loops = (2,) * axes
    assert priced == MAPS.cycles(TABLE, calls[0].routine, MODES[1], loops)


def test_candidates_that_differ_in_what_stays_the_same_have_each_its_routine() -> None:
    """Where an axis has one index, the row is that of the next one."""
    machine = load_machine("sw26010")
    n = Var("n")
    tile, bias = view("sci", (5, 8, 4)), view("c", (8,))
    tile = replace(tile, shape=(Const(5), Const(8), n), ranges=(*tile.ranges[:2], at(0, n)))
    dims = call_dims(Call(Map("x0 + x1"), (tile, tile, bias)), ("n",))
    price = call_costs(machine)[Map]

    def priced(images: object) -> object:
        values = {key: evaluate(e, {"n": images}) for key, e in dims.items()}
        return price(machine, PricedCall(Map("x0 + x1"), values))

    both = priced(np.array([1, 4]))
    assert np.asarray(both).tolist() == [priced(1), priced(4)]
