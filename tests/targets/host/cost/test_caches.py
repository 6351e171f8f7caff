"""Operands in place: bytes by hand, and what that does to estimates."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import ops
from tilewright.cost.calls import PricedCall, call_cycles
from tilewright.cost.chain import take_apart
from tilewright.cost.estimate import estimate
from tilewright.cost.prices import call_costs
from tilewright.ir.chains import ANY_CHAIN
from tilewright.ir.parser import parse
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import GemmPrimitive, load_machine
from tilewright.targets.host.cost.caches import TouchedRows, _anew, exposed_cycles
from tilewright.targets.host.sections import Caches
from tilewright.tune.choose import choose

PRODUCT = """\
def product(m, n, k, m_tile, n_tile):
    c: tensor("f32", "output", rows=m, cols=n)
    a: tensor("f32", "input", rows=m, depth=k)
    b: tensor("f32", "input", depth=k, cols=n)
    for row in range(ceil_div(m, m_tile)):
        for col in range(ceil_div(n, n_tile)):
            gemm(
                c[at(row * m_tile, m_tile), at(col * n_tile, n_tile)]("mn"),
                a[at(row * m_tile, m_tile), at(0, k)]("mk"),
                b[at(0, k), at(col * n_tile, n_tile)]("kn"),
                vector="n",
                dtype="f32",
            )
"""
OVERWRITTEN = """\
def product(m, n, k, m_tile, k_tile):
    c: tensor("f32", "output", rows=m, cols=n)
    a: tensor("f32", "input", rows=m, depth=k)
    b: tensor("f32", "input", depth=k, cols=n)
    for row in range(ceil_div(m, m_tile)):
        for depth in range(ceil_div(k, k_tile)):
            if depth == 0:
                fill(c[at(row * m_tile, m_tile), at(0, n)]("mn"), value=0.0)
            gemm(
                c[at(row * m_tile, m_tile), at(0, n)]("mn"),
                a[at(row * m_tile, m_tile), at(depth * k_tile, k_tile)]("mk"),
                b[at(depth * k_tile, k_tile), at(0, n)]("kn"),
                vector="n",
                dtype="f32",
            )
"""
EXTENTS = {"m": 64, "n": 64, "k": 128}
A, B, C = 64 * 128 * 4, 128 * 64 * 4, 64 * 64 * 4


def machine(l2: int, l3: int = 2**30, block_bytes: int = 1):
    """With a first cache that keeps everything, and no sets in the second one: a byte that this one
    lacks costs a cycle, one from main memory 11, which are 10 more.
    """
    return load_machine(
        "host",
        {
            "memory.caches.l2.capacity_bytes": str(l2),
            "memory.caches.l2.ways": str(l2),
            "memory.caches.l1.capacity_bytes": str(2**40),
            "memory.caches.l2.fill_bytes_per_cycle": "1e9",
            "memory.caches.l3.fill_bytes_per_cycle": "1e9",
            "memory.caches.l1.exposed_cycles_per_byte": "0",
            "memory.caches.l2.exposed_cycles_per_byte": "1",
            "memory.caches.l3.capacity_bytes": str(l3),
            "memory.caches.l3.ways": "1",
            "memory.caches.l3.exposed_cycles_per_byte": "11",
            "memory.caches.fetched_bytes": str(block_bytes),
        },
    )


def waiting(l2: int, l3: int = 2**30, *, buffers: int = 0, tiles=(16, 32)) -> float:
    values = {**EXTENTS, "m_tile": tiles[0], "n_tile": tiles[1]}
    return np.round(exposed_cycles(take_apart(parse(PRODUCT)), machine(l2, l3), values, buffers))


def test_nothing_comes_where_everything_fits():
    assert waiting(A + B + C) == 0


def test_buffers_take_room():
    assert waiting(A + B + C, buffers=1) > 0


def test_b_comes_once_for_each_row_of_tiles_where_one_row_fits():
    """A row: 16 x 128 of a, all of b, 16 x 64 of c. Inside it b is used once, so that all of it
    comes again for each of the four rows.
    """
    row = (A + C) // 4 + B
    assert waiting(row) == A + C + B
    tile = A // 4 + B // 2 + C // 8
    assert waiting(tile) == A + 4 * B + C
    assert waiting(row - 1) == A + 4 * B + C


def test_where_not_even_a_tile_fits_each_tile_comes_anew():
    """Eight calls, each with a quarter of a, half of b and an eighth of c."""
    assert waiting(1) == 2 * A + 4 * B + C


def test_what_comes_from_beyond_the_second_cache_comes_in_whole_blocks():
    """Half of the rows of b and c, 128 bytes each, come in blocks of 256 of which the next turn
    touches the rest; rows of a follow each other.
    """
    tiled, values = take_apart(parse(PRODUCT)), {**EXTENTS, "m_tile": 16, "n_tile": 32}

    def waiting_for(block_bytes: int) -> float:
        on = machine(1, block_bytes=block_bytes)
        return float(np.round(exposed_cycles(tiled, on, values, 0)))

    assert waiting_for(128) == waiting(1) == 2 * A + 4 * B + C
    assert waiting_for(256) == 2 * A + 8 * B + 2 * C
    assert waiting_for(1024) == waiting_for(256)


def test_what_the_last_cache_cannot_hold_comes_from_memory():
    """It is not charged for the nearer caches that it comes through again."""
    assert waiting(1, 1) == 11 * (2 * A + 4 * B + C)


def test_arrays_price_every_candidate_at_once():
    tiles = np.array([[16, 32], [64, 64], [16, 64], [32, 32]])
    together = waiting(A // 4 + B // 2 + C // 8, tiles=(tiles[:, 0], tiles[:, 1]))
    alone = [waiting(A // 4 + B // 2 + C // 8, tiles=tuple(t)) for t in tiles.tolist()]
    np.testing.assert_array_equal(together, alone)


def test_an_overlapping_window_is_counted_once():
    """Three rows of x for each row of y: next to each other they share two."""
    program = parse(
        """\
def conv(rows):
    y: tensor("f32", "output", rows=rows, cols=32)
    x: tensor("f32", "input", rows=rows + 2, cols=32)
    w: tensor("f32", "input", taps=3, depth=32, cols=32)
    for row in range(rows):
        for tap in range(3):
            gemm(
                y[row, at(0, 32)]("mn"),
                x[row + tap, at(0, 32)]("mk"),
                w[tap, at(0, 32), at(0, 32)](".kn"),
                vector="n",
                dtype="f32",
            )
"""
    )
    one_row = 4 * (32 + 3 * 32 + 3 * 32 * 32)
    found = exposed_cycles(take_apart(program), machine(one_row), {"rows": 100}, 0)
    assert found == 4 * (100 * 32 + 102 * 32 + 3 * 32 * 32)


def test_machines_without_caches_wait_for_nothing_in_place():
    values = {**EXTENTS, "m_tile": 16, "n_tile": 32}
    assert exposed_cycles(take_apart(parse(PRODUCT)), load_machine("sw26010"), values, 0) == 0


def test_an_estimate_adds_what_is_waited_for():
    values = {**EXTENTS, "m_tile": 16, "n_tile": 32}
    program = parse(PRODUCT)
    fits, spills = (estimate(program, machine(size), values).cycles.item() for size in (2**30, 1))
    assert spills - fits == pytest.approx(2 * A + 4 * B + C)


def test_rows_that_share_sets_take_the_room_of_whole_sets():
    """32 KiB, 8 ways: rows of 512 bytes 2048 bytes apart lie in a quarter of the sets."""
    l1 = load_machine("host").find_section(Caches).l1
    assert TouchedRows(16384, 512, 2048).room(l1) == 4 * 16384
    assert TouchedRows(16384, 512, 2048 + 512).room(l1) == 16384
    assert TouchedRows(16384, 512, 0).room(l1) == 16384


def test_no_level_delivers_faster_than_it_can():
    slow = {f"memory.caches.{level}.exposed_cycles_per_byte": "0" for level in ("l1", "l2", "l3")}
    slow |= {"memory.caches.l1.capacity_bytes": str(2**40)}
    slow |= {"memory.caches.l2.fill_bytes_per_cycle": "1e12"}
    slow |= {"memory.caches.l3.capacity_bytes": "1024"}
    slow |= {"memory.caches.l3.fill_bytes_per_cycle": "2"}
    values = {**EXTENTS, "m_tile": 16, "n_tile": 32}
    prepared, moved = take_apart(parse(PRODUCT)), 2 * A + 4 * B + C
    host = load_machine("host", slow)
    assert exposed_cycles(prepared, host, values, 0) == pytest.approx(moved / 2)
    assert exposed_cycles(prepared, host, values, 0, 1000.0) == pytest.approx(moved / 2 - 1000)


def test_nobody_waits_for_results_that_go_past_the_caches():
    """Results that the last cache cannot keep, in whole lines, complete at once."""
    prepared = take_apart(parse(OVERWRITTEN), chains=ANY_CHAIN)

    def cycles(l3: int, m: int = 64, n: int = 64, k_tile: int = 128) -> float:
        values = {"m": m, "n": n, "k": 128, "m_tile": 16, "k_tile": k_tile}
        return float(np.round(exposed_cycles(prepared, machine(2**30, l3), values, 0)))

    assert cycles(C) == 10 * (A + 4 * B + C)
    assert cycles(C - 1) == 10 * (A + 4 * B)
    assert cycles(C - 1, k_tile=64) == 10 * (A + 4 * B + 2 * C)
    narrow = 128 * 17 * 4
    assert cycles(1, n=17) == 10 * (A + 4 * narrow + 64 * 17 * 4)


def test_results_past_the_caches_take_the_time_of_main_memory():
    values = {"m": 64, "n": 64, "k": 128, "m_tile": 16, "k_tile": 128}
    prepared = take_apart(parse(OVERWRITTEN), chains=ANY_CHAIN)
    slow = {f"memory.caches.{level}.exposed_cycles_per_byte": "0" for level in ("l1", "l2", "l3")}
    slow |= {"memory.caches.l1.capacity_bytes": str(2**40)}
    slow |= {"memory.caches.l2.fill_bytes_per_cycle": "1e12"}
    slow |= {"memory.caches.l3.capacity_bytes": "1024"}
    slow |= {"memory.caches.l3.fill_bytes_per_cycle": "2"}
    found = exposed_cycles(prepared, load_machine("host", slow), values, 0)
    assert found == pytest.approx((A + 4 * B + C) / 2)


def test_a_partial_block_costs_its_part():
    host = load_machine("host", {"memory.caches.l1.exposed_cycles_per_byte": "0"})
    timing = host.section(GemmPrimitive).timing("f32")

    def cycles(m: int, n: int, k: int = 100) -> float:
        call = PricedCall(MatrixProduct("n"), {"m": m, "n": n, "k": k}, "f32")
        return float(call_cycles(host, call, call_costs(host)))

    fixed = timing.call_cycles + timing.row_cycles
    assert cycles(14, 32) == pytest.approx(fixed + timing.block_cycles + 100 * timing.cycles_per_k)
    assert cycles(7, 32) - fixed - timing.block_cycles == pytest.approx(50 * timing.cycles_per_k)
    assert cycles(14, 16) == cycles(7, 32)
    assert cycles(14, 25) == cycles(14, 32)
    assert cycles(14, 17) == cycles(14, 24) == pytest.approx((cycles(14, 16) + cycles(14, 32)) / 2)
    assert cycles(15, 32) > cycles(14, 32) + timing.block_cycles


def test_a_block_that_is_crowded_out_comes_again_at_the_rate_of_the_next_cache():
    """Rows that begin in few sets fill a cache before its bytes do."""
    caches = load_machine("host").section(Caches)
    l1, l2 = caches.l1, caches.l2
    loose = TouchedRows(16 * 64, 64, 64)
    crowded = TouchedRows(64 * 64, 64, l1.capacity_bytes // l1.ways)
    far = TouchedRows(2**12 * 64, 64, l2.capacity_bytes // l2.ways)
    expected = [0.0, 1 / l1.fill_bytes_per_cycle, 1 / l2.fill_bytes_per_cycle]
    assert [float(_anew(block, caches, 4)) for block in (loose, crowded, far)] == expected


def test_rows_that_share_sets_cost_nothing_where_they_are_fetched_ahead() -> None:
    """Those of a B larger than half the level 2 cache, however far apart its rows are."""

    def cycles_per_column(columns: int, k: int) -> float:
        product = ops.gemm(m=32, n=columns, k=k, dtype="f32")
        (choice,) = choose([product], load_machine("host"))
        return choice.best.candidate.cycles / columns

    near, far = 96, 1024
    assert cycles_per_column(1024, far) == pytest.approx(cycles_per_column(1040, far), rel=0.01)
    assert cycles_per_column(1024, near) > 1.04 * cycles_per_column(1040, near)


def test_a_short_step_has_no_time_for_lines_that_come_twice() -> None:
    """Of 64 rows by 1024 columns there are 11 x 64 blocks of 6 x 16 with AVX2. Each of 128 steps
    loads 6 elements and 2 vectors and fetches a line ahead; two lines come meanwhile. Blocks of
    14 x 32 with AVX-512 multiply and add for longer than that.
    """
    prepared = take_apart(parse(PRODUCT))
    values = {"m": 64, "n": 1024, "k": 128, "m_tile": 64, "n_tile": 1024}

    def waits(name: str, load_cycles: float) -> float:
        host = load_machine(name, {"primitives.vector.load_cycles": str(load_cycles)})
        return float(exposed_cycles(prepared, host, values, 0, 1e9))

    avx2 = load_machine("host_avx2")
    step = 9 * 1.0 + 2 * 64 / avx2.section(Caches).l1.fill_bytes_per_cycle
    late = step - avx2.section(GemmPrimitive).given_timing("f32").cycles_per_k
    assert waits("host_avx2", 1.0) - waits("host_avx2", 0.0) == pytest.approx(11 * 64 * 128 * late)
    assert waits("host", 1.0) == waits("host", 0.0)


def test_rows_on_pages_of_their_own_cost_each_block_that_loads_them() -> None:
    """Blocks of 14 rows and 32 columns: each of 5 x 32 loads 128 rows of B, 4 KB apart."""
    prepared = take_apart(parse(PRODUCT))

    def waits(columns: int, cycles: int) -> float:
        numbers = {"memory.caches.pages.row_miss_cycles": str(cycles)}
        values = {"m": 64, "n": columns, "k": 128, "m_tile": 64, "n_tile": columns}
        return float(exposed_cycles(prepared, load_machine("host", numbers), values, 0))

    assert waits(1024, 3) - waits(1024, 0) == pytest.approx(5 * 32 * 128 * 3)
    assert waits(992, 3) == waits(992, 0)
