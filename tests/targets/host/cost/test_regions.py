"""What operands in place touch, by enumerating all their elements; borders between the caches."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.expr import Const, Var
from tilewright.cost.chain import Prepared, take_apart
from tilewright.ir.nodes import Program, Range, Tensor, Tile
from tilewright.ir.parser import parse
from tilewright.ir.primitives import MatrixProduct
from tilewright.ir.visit import calls_of
from tilewright.machine import load_machine
from tilewright.targets.host.cost.caches import (
    TouchedRows,
    _Operand,
    _page_cycles,
    _region,
    _touched,
    _traffic,
)
from tilewright.targets.host.cost.stores import (
    is_far,
    is_fetched_ahead,
    passes_caches,
    whole_bytes,
)
from tilewright.targets.host.cost.threads import crowding, has_own, meeting_cycles, memory_cycles
from tilewright.targets.host.sections import Caches, Pages

HOST = load_machine("host_avx2")
CACHES = HOST.section(Caches)


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 2)), min_size=1,
             max_size=3)
)  # fmt: skip
def test_a_region_is_its_longest_runs_and_the_distance_of_two(axes) -> None:
    """Counts, steps and rests of the extents: addresses of all elements, side by side or apart."""
    counts, steps, _ = map(list, zip(*axes, strict=True))
    shape = [(c - 1) * s + r for c, s, r in axes]
    tensor = Tensor("x", "f32", "input", tuple("rcp"[: len(shape)]), tuple(map(Const, shape)))
    found = _region(tensor, counts, steps, shape)
    strides = [int(np.prod(shape[d + 1 :])) for d in range(len(shape))]
    places = np.array(
        [
            4 * sum(i * step * stride for i, step, stride in zip(at, steps, strides, strict=True))
            for at in product(*map(range, counts))
        ]
    )
    assert found.bytes == 4 * len(places)
    gaps = np.diff(places)
    begins = np.flatnonzero(gaps != 4) + 1
    run = 4 * (begins[0] if len(begins) else len(places))
    assert found.run == run
    assert found.pitch == (places[begins[0]] - places[0] if len(begins) else 0)
    packed = _region(replace(tensor, kind="constant"), counts, steps, shape)
    assert (packed.bytes, packed.run, packed.pitch) == (found.bytes, found.run, 0)


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=3),
    st.data(),
)
def test_indices_that_loops_touch_are_counted_once(extent, loops, data) -> None:
    """Windows that follow each other without a gap, or move by less than their extent."""
    named = [(f"i{n}", count) for n, (count, _) in enumerate(loops)]
    start, span, parts = Const(0), extent, [0] * len(loops)
    for n, (count, moves) in reversed(list(enumerate(loops))):
        if moves:
            parts[n] = data.draw(st.integers(1, span))
            start = start + parts[n] * Var(f"i{n}")
            span += (count - 1) * parts[n]
    depths = data.draw(st.integers(0, len(loops)))
    found = _touched(Range(start, Const(extent)), named, depths, {})
    for depth, row in enumerate(found):
        inside = [range(count) if n >= depth else [0] for n, (_, count) in enumerate(named)]
        touched = {
            sum(part * i for part, i in zip(parts, at, strict=True)) + own
            for at in product(*inside)
            for own in range(extent)
        }
        assert row.item() == len(touched)
    assert len(found) == depths + 1


def program(kind: str = "input", width: int = 32) -> Program:
    return parse(
        f"""\
def product(n, tile):
    c: tensor("f32", "output", rows=n, cols={width})
    a: tensor("f32", "{kind}", rows=n, depth=8)
    b: tensor("f64", "input", depth=24, cols={width})
    for row in range(ceil_div(n, tile)):
        for col in range(2):
            gemm(
                c[at(row * tile, tile), at({width // 2} * col, {width // 2})]("mn"),
                a[at(row * tile, tile), at(0, 4)]("mk"),
                b[at(0, 4), at({width // 2} * col, {width // 2})]("kn"),
                vector="n",
                dtype="f32",
            )
"""
    )


C, A, B = 64 * 32 * 4, 64 * 8 * 4, 24 * 32 * 8
ENV = {"n": 64, "tile": 8}


def prepared(*together: str) -> Prepared:
    """The nest, divided among threads, with the loops that it shares with others."""
    return take_apart(program(), together=together)


def host(**changes: float) -> object:
    return load_machine(
        "host_avx2", {key.replace("__", "."): str(value) for key, value in changes.items()}
    )


def test_a_tensor_is_far_where_it_exceeds_the_last_cache_and_ahead_where_half_of_the_second() -> (
    None
):
    a = program().tensor("a")
    assert whole_bytes(a, ENV) == A
    for bytes_, larger in ((A, False), (A - 1, True)):
        assert bool(is_far(a, host(memory__caches__l3__capacity_bytes=bytes_), ENV)) == larger
    for half, ahead in ((2 * A, False), (2 * A - 2, True)):
        caches = host(memory__caches__l2__capacity_bytes=half).section(Caches)
        assert bool(is_fetched_ahead(a, caches, ENV)) == ahead
        assert not is_fetched_ahead(replace(a, dtype="i32"), caches, ENV)
    assert not is_far(a, load_machine("sw26010"), ENV)


@pytest.mark.parametrize(("width", "whole"), [(32, True), (64, True), (48, False), (16, False)])
def test_results_go_past_the_caches_in_whole_lines_of_64_bytes(width: int, whole: bool) -> None:
    """Calls write halves of rows of c; all of a row is whole lines before its halves are."""
    own, small = program(width=width), host(memory__caches__l3__capacity_bytes=1024)
    ((call, _),) = calls_of(own.body, MatrixProduct)
    tile = call.operands[0]
    assert isinstance(tile, Tile)
    assert bool(passes_caches(tile, own, small, ENV)) == whole
    assert not passes_caches(tile, own, HOST, ENV)
    longer = replace(own.tensor("c"), shape=(Const(64), Const(width + 8)))
    cut = replace(own, tensors=(longer, *own.tensors[1:]))
    assert not passes_caches(tile, cut, small, ENV)


def test_main_memory_delivers_what_a_nest_touches_once_to_the_threads_that_divide_it() -> None:
    """4 of the 24 rows of B, half of A, C whole; with more threads faster until it is saturated."""
    small = host(
        memory__caches__l3__capacity_bytes=C + A + B - 1, threads__count=8, threads__saturating=3,
        memory__main__direct_bytes_per_second=1e9, clock_hz=2e9,
    )  # fmt: skip
    one, nest = 2 * (C + A // 2 + B // 6), prepared()
    for (row, col), faster in (
        ((1, 1), 1), ((2, 1), 2), ((1, 2), 2), ((2, 2), 3), ((4, 2), 3),
    ):  # fmt: skip
        env = {**ENV, "row_parts": row, "col_parts": col}
        assert memory_cycles(nest, small, env) == pytest.approx(one / faster)
    env = {**ENV, "row_parts": 2, "col_parts": 1}
    tiles = np.array([8, 64, 5])
    assert memory_cycles(nest, small, {**env, "tile": tiles}) == pytest.approx([one / 2] * 3)
    fits = host(memory__caches__l3__capacity_bytes=C + A + B, threads__count=8)
    assert memory_cycles(nest, fits, env) == 0
    assert memory_cycles(take_apart(program()), small, env) == 0


def test_a_barrier_waits_in_each_turn_of_shared_loops_that_are_not_divided() -> None:
    machine = host(threads__count=4, threads__meet_cycles=100)
    for row, col, times in ((1, 1, 16), (2, 1, 0), (1, 2, 0), (2, 2, 0)):
        env = {**ENV, "row_parts": row, "col_parts": col}
        assert meeting_cycles(prepared("row", "col"), machine, env) == 100 * times
        assert meeting_cycles(prepared("row"), machine, env) == (100 * 8 if row == 1 else 0)
        assert meeting_cycles(prepared(), machine, env) == 100
    assert meeting_cycles(take_apart(program()), machine, ENV) == 0


@pytest.mark.parametrize(
    ("row", "col", "moved_by", "own"),
    [
        (1, 1, (True, True), False),
        (2, 1, (True, False), True),
        (2, 1, (False, True), False),
        (1, 2, (False, True), True),
        (2, 2, (False, False), False),
    ],
)
def test_threads_have_what_the_loops_move_that_they_divide(row, col, moved_by, own) -> None:
    assert has_own(prepared(), {**ENV, "row_parts": row, "col_parts": col}, moved_by) == own
    assert has_own(take_apart(program()), ENV, moved_by)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize(
    ("apart", "together", "brought", "shared"),
    [(500, 200, 0, 0), (180, 200, 500, 200), (40, 40, 3 * 180, 3 * 200), (40, 39, 600, 600)],
)
def test_a_thread_brings_its_own_and_its_share_of_what_threads_read_together(
    threads, apart, together, brought, shared
):
    """Three times five calls; windows of its own overlap, what is shared moves in the inner loop.
    The cache just holds what lies apart for each thread, and together for all.
    """
    ((call, _),) = calls_of(program().body, MatrixProduct)
    operands = []
    for moved_by, own, sizes in (
        ((True, True), True, (500, 180, 40)),
        ((False, True), False, (200, 200, 40)),
    ):
        bytes_ = np.array(sizes)[:, None]
        reach = TouchedRows(bytes_, bytes_, 0 * bytes_)
        operands.append(_Operand(call.operands[0], reach, moved_by, own=own))
    held = threads * (apart + 1) + together
    caches = host(memory__caches__l3__capacity_bytes=held, memory__caches__l3__ways=1)
    found = _traffic(operands, [3, 5], caches.section(Caches).l3, 1, threads, 1)
    assert found == brought + shared / threads


@pytest.mark.parametrize(("count", "saturating", "slower"), [(8, 2, 4.0), (2, 2, 1.0), (2, 8, 1.0)])
def test_threads_beyond_those_that_saturate_main_memory_wait(count, saturating, slower) -> None:
    assert crowding(host(threads__count=count, threads__saturating=saturating)) == slower


def test_rows_on_more_pages_than_are_held_miss_each_of_them() -> None:
    """Ten rows on pages of their own, of which each takes part of another; or four to a page."""
    pages = Pages(count=20, page_bytes=4096, miss_cycles=7, row_miss_cycles=0)
    for run, pitch, swept, beside in (
        (1024, 4096, 10 * 1.25, 0), (4096, 8192, 20, 0), (1024, 4096, 10 * 1.25, 8),
        (512, 1024, 2.5, 0), (512, 1024, 2.5, 18),
    ):  # fmt: skip
        written = [TouchedRows(beside * 64, 64, 2**20)]
        expected = 7 * swept if swept + beside > 20 else 0
        assert _page_cycles(TouchedRows(10 * run, run, pitch), written, pages) == expected
    for columns, missed in ((4, 0), (5, 18)):
        near = [TouchedRows(64, 64, 2048)] * columns
        swept = TouchedRows(9 * 4096, 4096, 4096)
        assert _page_cycles(swept, near, pages) == 7 * missed
