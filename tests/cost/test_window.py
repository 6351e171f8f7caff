"""The window of operations of a nest: which buffers its items write and read."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.cambricon_operators import KINDS, MACHINE
from support.uncompiled import pipeline_state, uncompiled
from tilewright.common.expr import Const
from tilewright.common.expr_parser import parse_expr
from tilewright.cost import window as compiled_window
from tilewright.cost.chain import take_apart
from tilewright.cost.estimate import estimate
from tilewright.cost.prices import prices_of
from tilewright.cost.steps import CallStep
from tilewright.cost.window import AHEAD
from tilewright.cost.window_uses import UNITS, _in_most_turns, _in_other_slot, operation_window
from tilewright.ir.nodes import Call, For, Range, View
from tilewright.ir.primitives import Map, MatrixProduct
from tilewright.machine import Machine, load_machine
from tilewright.ops import Op, conv2d, gemm
from tilewright.ops.access import Access, straight
from tilewright.ops.mapping import InMemory
from tilewright.ops.numerics import real_types
from tilewright.schedule.factors import blocks_of, factor_grid
from tilewright.seeds.space import parameters, seeds_for
from tilewright.targets.cambricon.code import CODE
from tilewright.tune.legal import structures_on
from tilewright.tune.measure import EVERYTHING
from tilewright.tune.search import rank

SUMS = InMemory(
    (12, 5), straight((12,)), (straight((12, 5)),), "x0", "max", dtype=real_types("q8.8")
)
ROW = InMemory(
    (11, 11, 12),
    straight((11, 11, 12)),
    (straight((11, 11, 12)), Access((12,), (((2, 1),),), (0,))),
    "x0 - 0.25 * x1",
    dtype=real_types("q8.8"),
)
PIXELS = conv2d(batch=1, in_channels=13, out_channels=5, height=2, width=7, kernel=2, stride=2,
                padding=1, dtype=KINDS)  # fmt: skip
WEIGHTS = conv2d(batch=1, in_channels=1, out_channels=17, height=7, width=5, kernel=(7, 5),
                 padding=1, dtype=KINDS)  # fmt: skip


def windows(rows: int, columns: int, channels: int, kernel: tuple[int, int]) -> InMemory:
    """The largest of each of windows that share no place, channel after channel."""
    extents, order = (rows, columns, channels, *kernel), (2, 0, 3, 1, 4)
    x = straight(tuple(extents[axis] for axis in order), order)
    y = straight((channels, rows, columns), (2, 0, 1))
    return InMemory(extents, y, (x,), "x0", "max", dtype=real_types("q8.8"))


@pytest.mark.parametrize("algorithm", ["gemm", "whole_depth"])
def test_a_transfer_reads_or_writes_its_buffer_and_a_call_those_of_its_operands(algorithm) -> None:
    """No transfer is done with what it reads before its end. Each buffer has two slots in which
    ends are kept.
    """
    op = gemm(4, 96, 128, transpose_b=True, dtype=KINDS)
    (seed,) = seeds_for(op, algorithm, whole=True)
    structure = structures_on(MACHINE, seed, seed.spaces[0], op.dtype)[0]
    grid = factor_grid(structure, parameters(op), blocks_of(MACHINE, op.numerics.sums.name))
    prepared = take_apart(structure.staged)
    env = {**parameters(op), **grid.chosen(0, 0)}
    window = operation_window(prepared, env, MACHINE, prices_of(MACHINE))
    buffers = [b.name for b in structure.staged.buffers]
    kinds = set()
    for number, item in enumerate(prepared.items):
        stmt = item.step.stmt
        reads = [buffers[b] for b in window.reads[number] if b >= 0]
        writes = [buffers[b] for b in window.writes[number : number + 1] if b >= 0]
        if isinstance(item.step, CallStep):
            views = [o.buffer for o in stmt.operands if isinstance(o, View)]
            assert (writes, reads) == (views[:1], views[1:])
        else:
            kinds.add(stmt.direction)
            own = [stmt.buffer]
            assert (writes, reads) == ((own, []) if stmt.direction == "get" else ([], own))
            assert not window.early[number].any()
    assert kinds == {"get", "put"}
    in_flight = MACHINE.issue.in_flight
    sizes = [1, in_flight, UNITS, *[2 * len(buffers)] * 4]
    assert (window.first[1:] - window.first[:-1]).tolist() == sizes
    assert window.state.size == sum(sizes)


@pytest.mark.parametrize(
    ("op", "algorithm", "factors"),
    [
        (gemm(7, 115, 171, dtype=KINDS), "whole_depth", {"row_tile": 3, "col_tile": 115}),
        (gemm(8, 12, 134, transpose_b=True, dtype=KINDS), "whole_depth", {"row_tile": 3}),
        (SUMS, "reduce", {"i0_tile": 1, "i1_tile": 5}),
        (ROW, "map", {"i0_tile": 11, "i1_tile": 11, "i2_tile": 12}),
        (PIXELS, "loading_order", {"out_channel_tile": 1, "out_row_tile": 2}),
        (WEIGHTS, "gathered_windows", {"out_channel_tile": 17, "out_row_tile": 2}),
        (windows(1, 2, 13, (2, 2)), "windows_in_parts", {"i2_tile": 4}),
        (windows(8, 1, 1, (2, 2)), "reduce", {"i0_tile": 3, "i3_tile": 2, "i4_tile": 2}),
        (windows(4, 8, 2, (3, 2)), "reduce", {"i0_tile": 1, "i1_tile": 8, "i3_tile": 1}),
    ],
    ids=["shorter tile", "shorter columns", "loop of one turn", "unread operand", "two turns",
         "many constants", "shorter part ahead", "first operation waits", "turns written apart"],
)  # fmt: skip
def test_each_schedule_has_the_cycles_of_its_code(op, algorithm, factors) -> None:
    """The fetch of a shorter last tile waits for the rows that it overwrites; slots turn with a
    loop through one of one turn; a map begins without what its first instruction leaves unread; two
    turns of the innermost loop are written out. Constants pass beside the first transfers; a part
    that is fetched ahead is a shorter one before the last iteration; a loop's statements hold up no
    operations that wait anyway; turns that fetch nothing ahead stand apart.
    """
    agree(op, algorithm, factors, MACHINE)


@pytest.mark.parametrize("in_flight", [1, 3])
def test_operations_wait_for_a_place_among_those_in_flight(in_flight) -> None:
    machine = load_machine(MACHINE.name, {"issue.in_flight": in_flight})
    agree(PIXELS, "loading_order", {"out_channel_tile": 1, "out_row_tile": 2}, machine)


@pytest.mark.parametrize("in_flight", [1, 2, 5])
@pytest.mark.parametrize("op", [PIXELS, gemm(8, 12, 134, transpose_b=True, dtype=KINDS)])
def test_candidates_that_are_not_played_are_slower(op, in_flight) -> None:
    """Operations that run alone, and the others of the busiest unit, follow one another."""
    machine = load_machine(MACHINE.name, {"issue.in_flight": in_flight})
    cases = [(op, seed) for seed in seeds_for(op, whole=True)]
    some, every = (rank(cases, machine, keep=keep) for keep in (2, EVERYTHING))
    for few, all_played in zip(some, every, strict=True):
        best = [c.cycles for c in all_played.best]
        assert [c.cycles for c in few.best[:2]] == best[:2]
    assert sum(r.counts.played for r in some) < sum(r.counts.played for r in every)


@pytest.mark.parametrize(
    ("op", "algorithm"),
    [(PIXELS, "loading_order"), (SUMS, "reduce"), (gemm(8, 12, 134, dtype=KINDS), "gemm")],
)
def test_a_transfer_takes_as_long_wherever_it_lies(op: Op, algorithm: str) -> None:
    """The numbers that say how its place moves are left out, and prices are the same."""
    (seed,), told = seeds_for(op, algorithm, whole=True), prices_of(MACHINE).told_by_place
    lengths = []
    for structure in structures_on(MACHINE, seed, seed.spaces[0], op.dtype)[::5]:
        grid = factor_grid(structure, parameters(op), blocks_of(MACHINE, op.numerics.sums.name))
        values = {**parameters(op), **grid.tiles, **grid.copies}
        placed, fixed = (take_apart(structure.staged, places=own) for own in (True, told))
        found = [estimate(own, MACHINE, values) for own in (placed, fixed)]
        for name in ("cycles", "compute_cycles", "dma_cycles"):
            np.testing.assert_array_equal(*(getattr(own, name) for own in found))
        lengths.append([len(own.moments.code.expressions) for own in (placed, fixed)])
    assert all(fewer < length for length, fewer in lengths)


TILE = View("tile", Const(0), (Const(8),), (Range(Const(0), Const(8)),), "a")
PRODUCT = CallStep(Call(MatrixProduct("n"), (TILE, TILE, TILE)), {})
MAP = CallStep(Call(Map("x0"), (TILE, TILE)), {})
FETCH = SimpleNamespace(stmt=SimpleNamespace(direction="get", buffer="tile", slot=Const(1)))


@pytest.mark.parametrize(
    ("condition", "step", "most"),
    [
        ("1", MAP, True),
        ("1", FETCH, True),
        ("n < 5", MAP, True),
        ("0 < i", PRODUCT, True),
        ("0 < i", MAP, False),
        ("0 < i", FETCH, False),
        ("i < 1", PRODUCT, False),
    ],
)
def test_a_product_that_adds_to_sums_runs_in_most_turns(condition, step, most) -> None:
    """So does what is under no condition on loops."""
    item = SimpleNamespace(condition=parse_expr(condition), step=step)
    prepared = SimpleNamespace(loops=(For("i", Const(3), ()),))
    assert _in_most_turns(item, prepared) is most


@pytest.mark.parametrize(
    ("slot", "direction", "turning", "other"),
    [
        (1, "get", True, True),
        (0, "get", True, False),
        (1, "get", False, False),
        (1, "put", True, True),
    ],
)
def test_a_transfer_works_on_the_other_slot_where_calls_turn_with_the_loop(
    slot, direction, turning, other
) -> None:
    step = SimpleNamespace(
        stmt=SimpleNamespace(direction=direction, buffer="tile", slot=Const(slot))
    )
    items = (SimpleNamespace(step=MAP, buffer=-1), SimpleNamespace(step=step, buffer=0))
    prepared = SimpleNamespace(items=items, turning={0} if turning else set())
    assert _in_other_slot(items[1], prepared) is other
    assert _in_other_slot(items[0], prepared) is False


def agree(op: Op, algorithm: str, factors: Mapping[str, int], machine: Machine) -> None:
    """Prices are within 2 % of the simulated code."""
    (seed,) = seeds_for(op, algorithm, whole=True)
    (ranking,) = rank([(op, seed)], machine, keep=EVERYTHING)
    found = [c for c in ranking.best if factors.items() <= c.nests[0].factors.items()]
    assert found
    for candidate in found:
        cycles = CODE.simulate(candidate.program(machine), machine).cycles
        assert candidate.cycles == pytest.approx(cycles, rel=0.02)


PIECES = uncompiled(compiled_window)
BUFFERS, IN_FLIGHT, FIRST_UNIT = 3, 8, 2
COST = {"issue": 1.0, "own": 1.0, "first": 0.0, "last": 0.0, "before": 0.0, "behind": 0.0}


def empty_window(writes: list[int], reads: list[int], **others: object) -> SimpleNamespace:
    """A window of items that write and read one buffer each, -1 for none, each on its own unit."""
    sizes, items = [0, 1, IN_FLIGHT, len(writes), *[2 * BUFFERS] * 4], len(writes)
    given = {
        "state": np.zeros(sum(sizes)), "first": np.cumsum(sizes), "slots": [0] * BUFFERS,
        "unit": range(items), "writes": writes, "reads": np.array(reads).reshape(-1, 1),
        "held": [0.0] * 2 * BUFFERS, "readings": [0.0] * 2 * BUFFERS, "beside": [0] * items,
        "begun": [0.0], "clock": [0.0], "last_freed": [0.0], "in_order": 0,
    }  # fmt: skip
    flags = ("unread", "early", "turn", "parts", "pieces", "other")
    none = {name: np.zeros((items, 1), bool) for name in flags}
    return SimpleNamespace(**{**given, **none, **others})


def end_of(w: SimpleNamespace, number: int, cycles: float = 10.0) -> float:
    """When an item of one operation is done that issues now."""
    PIECES._issue(w, number, -1, SimpleNamespace(service=cycles, **COST))
    return float(w.state[w.first[FIRST_UNIT] + number])


@pytest.mark.parametrize("used", range(BUFFERS))
@pytest.mark.parametrize("slot", [0, 1])
def test_operations_wait_for_those_before_on_the_same_slot(used: int, slot: int) -> None:
    """A reader for the writer before, a writer for that and for all readers; others for nothing."""
    other = (used + 1) % BUFFERS
    w = empty_window([used, -1, used, other], [-1, used, -1, other], slots=[slot] * BUFFERS)
    assert [end_of(w, number) for number in range(4)] == [10, 20, 30, 10]
    w.slots[used] = 1 - slot
    w.state[w.first[FIRST_UNIT] : w.first[FIRST_UNIT + 1]] = 0.0
    assert [end_of(w, number) for number in range(3)] == [10, 20, 30]


@pytest.mark.parametrize("written", range(BUFFERS))
def test_what_is_written_ahead_is_due_at_the_next_such_write(written: int) -> None:
    """It is done when all writes before are, of which a later one may end earlier."""
    other = (written + 1) % BUFFERS
    w = empty_window(
        [written, written, -1, -1, -1, written, -1],
        [-1, -1, written, written, other, -1, written],
        beside=[AHEAD, AHEAD, 0, 0, 0, 0, 0],
    )
    w.state[0] = 100.0
    assert end_of(w, 0, cycles=50.0) == 150
    assert end_of(w, 2) == 110  # reads what was there before
    w.state[0] = 105.0
    assert end_of(w, 1) == 115
    assert end_of(w, 3) == 160  # reads what the first one wrote
    assert end_of(w, 4) == 115
    assert end_of(w, 5, cycles=200.0) == 360  # waits for the last reader
    assert end_of(w, 1) == 125
    assert end_of(w, 6) == 370


@pytest.mark.parametrize(("turns", "moved"), [((4, 1, 1), 3), ((4, 1, 4), 2), ((4, 4, 1), 1)])
def test_places_move_with_a_loop_up_to_the_next_one_of_several_turns(turns, moved) -> None:
    """A place of two items counts once, and one of an item that there is not does not."""
    s = pipeline_state(levels=4, counts=3, items=2, costs=2)
    s.clock.loops, s.costs[0].service, s.items[1].base = 3, 1.0, 1
    for d, count in enumerate(turns):
        s.levels[d].base, s.levels[d].kinds, s.counts[d].iterations = d, 1, count
    places = [(0, 1, 0, 0), (0, 1, 0, 0), (0, 2, 0, 1), (0, 3, 0, 2), (1, 1, 0, 3), (0, 1, 1, 4)]
    w = SimpleNamespace(places=np.array(places), moved=[-1.0] * 3, apart=[-1.0] * 3)
    PIECES._count_moved(s, w)
    assert w.moved == [moved, 1, 0]


@given(
    st.lists(st.tuples(*[st.integers(0, n) for n in (20, 5, 1)]), min_size=1, max_size=9),
    st.integers(1, 3),
)
def test_what_may_be_among_the_best_of_its_contest_is_played(candidates, keep) -> None:
    """Candidates of so many cycles, so many fewer at least."""
    s = SimpleNamespace(clock=SimpleNamespace(buffers=0), played=[])
    names = PIECES.play_window.__globals__ | {
        "take_tile": lambda s, _, j: s.played.append(j),
        "_play_candidate": lambda s, _: candidates[s.played[-1]][0],
    }
    play = FunctionType(PIECES.play_window.__code__, names)
    total, fewer, contest = np.array(candidates, float).T
    tables = SimpleNamespace(contest=contest.astype(int), issue=np.empty((0, total.size)))
    best, cycles = np.full((2, keep), np.inf), np.full((1, total.size), np.inf)
    least = (total - fewer).reshape(1, -1)
    play(s, None, tables, range(total.size), least, best, cycles)
    for number in (0, 1):
        expected = [*sorted(total[contest == number]), *[np.inf] * keep][:keep]
        assert best[number].tolist() == expected
    played = [
        j
        for j in range(total.size)
        if sum(total[i] < least[0, j] for i in range(j) if contest[i] == contest[j]) < keep
    ]
    assert s.played == played
    assert cycles[0, played].tolist() == total[played].tolist()
