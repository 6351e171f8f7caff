"""Products and sums over windows on a processor with caches, by hand: blocks of 2 vectors of 8 by
14 scalars or pixels.
"""

from __future__ import annotations

import pytest
from msgspec import structs

from tilewright.cost.calls import PricedCall
from tilewright.ir.primitives import MatrixProduct, WindowSums
from tilewright.machine import Machine, load_machine
from tilewright.targets.host.prices import product_cycles, window_sums_cycles
from tilewright.targets.host.sections import Caches

GEMM = {
    "f64.call_cycles": 100,
    "f64.row_cycles": 10,
    "f64.block_cycles": 20,
    "f64.cycles_per_k": 56,
    "switch_cycles": 3,
}
MULTIPLIED, FIXED, MISSED = 10 * 20 * 3 * 2, 100 + 2 * 10 + 2 * 2 * (20 + 3), (24 + 2 * 20) * 10 * 2
"""Three vectors by 20 scalars by k = 10, two cycles each; two rows of two blocks; a quarter of a
cycle for each byte of 24 elements, and of 20 for each row."""


BLOCK = {"m": 14, "n": 32, "k": 50}
"""One block of single precision."""


def machine(capacity_bytes: int, fill_bytes_per_cycle: float = 32.0) -> Machine:
    caches = {
        "capacity_bytes": capacity_bytes,
        "exposed_cycles_per_byte": 0.25,
        "fill_bytes_per_cycle": fill_bytes_per_cycle,
    }
    return load_machine(
        "host",
        {
            **{f"primitives.gemm.{key}": value for key, value in GEMM.items()},
            **{f"memory.caches.l1.{key}": value for key, value in caches.items()},
        },
    )


def cycles(on: Machine, dtype: str = "f64", *, packed: bool = False) -> float:
    dims = {"m": 20, "n": 24, "k": 10}
    return float(product_cycles(on, PricedCall(MatrixProduct("n"), dims, dtype, packed)))


def test_partial_blocks_take_their_vectors_and_whole_blocks_of_overhead():
    assert cycles(machine(32768)) == FIXED + MULTIPLIED + MISSED


@pytest.mark.parametrize(("capacity_bytes", "moved"), [(7680, 0), (7679, 2 * 3840 / 32)])
def test_a_result_of_more_than_half_the_cache_goes_in_and_out(capacity_bytes, moved):
    assert cycles(machine(capacity_bytes)) == FIXED + MULTIPLIED + MISSED + moved


@pytest.mark.parametrize(("capacity_bytes", "times"), [(2400, 1), (2399, 2)])
def test_a_block_beyond_the_cache_is_streamed_for_each_block_beside(capacity_bytes, times):
    """(16 + 14) x 10 elements are 2400 bytes; 24 x 10 elements come at 1 byte a cycle."""
    streamed, moved = times * 24 * 10 * 8, 2 * 3840
    assert cycles(machine(capacity_bytes, 1.0)) == FIXED + streamed + MISSED + moved


@pytest.mark.parametrize(("capacity_bytes", "share"), [(3520, 0.5), (3519, 1.0)])
def test_packed_factors_near_the_core_are_multiplied_at_the_peak(capacity_bytes, share):
    """(16 + 2 x 14) x 10 elements: 28 of the 56 cycles for each k are the peak's."""
    moved = 2 * 3840 / 32
    expected = FIXED + share * MULTIPLIED + MISSED + moved
    assert cycles(machine(capacity_bytes), packed=True) == expected


def test_a_rate_beyond_the_described_peak_is_kept():
    fast = load_machine("host", {"primitives.gemm.f64.cycles_per_k": 20})
    assert cycles(fast, packed=True) == cycles(fast)


def test_integers_take_the_time_of_floats_of_their_size_at_their_own_rate():
    """64-bit integers have a quarter of the rate: 4 operations a cycle, not 16."""
    assert cycles(machine(32768), "i64") == FIXED + 4 * MULTIPLIED + MISSED
    faster, dims = load_machine("host", {"core.arithmetic.i32.flops_per_cycle": 64}), BLOCK
    half, whole = (
        float(product_cycles(faster, PricedCall(MatrixProduct("n"), dims, kind)))
        for kind in ("i32", "f32")
    )
    assert whole - half == pytest.approx(50 * 28.3 / 2)


def windows_of(load_cycles: float, windows: WindowSums, terms: int, dtype: str) -> float:
    """Cycles of 20 pixels of 12 channels beside the call and the loops of two blocks by two."""
    given = {"load_cycles": load_cycles, "loop_cycles": 5.0}
    vector = {f"primitives.vector.{key}": value for key, value in given.items()}
    on = load_machine("host", {**vector, "primitives.gemm.f64.call_cycles": 100})
    dims = {"t": 20, "u": 1, "elements": 20 * 12, "k": terms}
    return float(window_sums_cycles(on, PricedCall(windows, dims, dtype))) - 100 - 2 * 2 * 5


@pytest.mark.parametrize(
    ("load_cycles", "dtype", "longer"),
    [(1.0, "f64", 832), (0.5, "f64", 720), (1.0, "i64", 4 * 720)],
)
def test_windows_are_loaded_or_multiplied_whichever_takes_longer(load_cycles, dtype, longer):
    """20 pixels in two blocks, 12 channels in two vectors: each of 2 x 3 x 3 points and terms loads
    the pixels, and its factors once a block, and multiplies once a pixel; results are stored.
    """
    assert (2 * (18 * (20 + 2) + 20), 18 * 20 * 2) == (832, 720)
    assert windows_of(load_cycles, WindowSums(rows=2, cols=3), 3, dtype) == longer


def test_lines_that_are_summed_together_load_each_row_once():
    """Five lines of 14 windows of 3 x 3 points are two blocks: twice 7 rows of 9 pixels, 5 x 9
    factors, and 70 results for each of two vectors.
    """
    given = {"primitives.vector.load_cycles": 9.0, "primitives.vector.loop_cycles": 5.0}
    on = load_machine("host", {**given, "primitives.gemm.f64.call_cycles": 100})
    dims = {"t": 14, "u": 5, "elements": 5 * 14 * 16, "k": 1}
    call = PricedCall(WindowSums(rows=3, cols=3), dims, "f64")
    loads = 2 * (2 * (7 * 9 + 5 * 9) + 70)
    assert float(window_sums_cycles(on, call)) == 100 + 2 * 10 * 5 + loads * 9


def test_lines_that_are_summed_together_load_factors_that_no_register_holds_each_time() -> None:
    """Two lines of 7 windows of 5 x 5 points, two rows and columns apart: beside 21 sums and a
    pixel registers hold 10 factors, all of a row of pixels in two lines, not all 15 in three.
    """
    on = load_machine("host", {"primitives.vector.load_cycles": 9.0})
    dims = {"t": 7, "u": 2, "elements": 2 * 7 * 16, "k": 1}
    call = PricedCall(WindowSums(rows=5, cols=5, stride=2, row_stride=2), dims, "f32")
    loads = 7 * 17 + 2 * (20 + 5 * 7) + 14
    assert float(window_sums_cycles(on, call)) == 20 + 2 + loads * 9


def test_lines_whose_sums_exceed_the_registers_load_their_rows_each() -> None:
    """Five lines of 14 windows of 5 x 5 points: 18 pixels and 5 factors of each row of points."""
    on = load_machine("host", {"primitives.vector.load_cycles": 9.0})
    dims = {"t": 14, "u": 5, "elements": 5 * 14 * 16, "k": 1}
    call = PricedCall(WindowSums(rows=5, cols=5), dims, "f32")
    loads = 5 * (5 * (18 + 5) + 14)
    assert float(window_sums_cycles(on, call)) == 20 + 5 + loads * 9


def test_short_blocks_load_their_rows_and_all_factors_once_a_turn() -> None:
    """Five lines of 6 windows of 3 x 3 points with 16 registers: 3 lines and 2, by 2 windows each,
    read 5 rows and 4 of 4 pixels, and 9 factors; with stride 2, of 2 lines and 1 by 3 windows, 5, 5
    and 3 rows of 7 pixels.
    """
    given = {"primitives.vector.load_cycles": 9.0, "primitives.gemm.f32.call_cycles": 100}
    on, dims = load_machine("host_avx2", given), {"t": 6, "u": 5, "elements": 5 * 6 * 8, "k": 1}
    for stride, turns, pixels in ((1, 2 * 3, 3 * (5 + 4) * 4), (2, 3 * 2, 2 * (5 + 5 + 3) * 7)):
        windows = WindowSums(rows=3, cols=3, stride=stride, row_stride=stride)
        found = float(window_sums_cycles(on, PricedCall(windows, dims, "f32")))
        assert found == 100 + turns + (pixels + 9 * turns + 30) * 9


@pytest.mark.parametrize(("stride", "row"), [(1, 16 + 8), (2, 29 + 13)])
def test_windows_of_one_term_load_each_pixel_of_a_row_once_for_a_block(stride, row):
    """Of a block of 14 pixels and one of 6: the rest is as where each point loads its own."""
    windows = WindowSums(rows=2, cols=3, stride=stride)
    assert windows_of(4.0, windows, 1, "f64") == 4 * 2 * (2 * row + 6 * 2 + 20)


def test_a_product_of_a_machine_without_caches_waits_for_nothing():
    given = machine(32768)
    sections = tuple(one for one in given.sections if not isinstance(one, Caches))
    assert cycles(structs.replace(given, sections=sections)) == FIXED + MULTIPLIED
