"""Bytes that transforms stream through, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.common.expr import Const, evaluate
from tilewright.cost.calls import PricedCall, call_cycles
from tilewright.cost.chain import take_apart
from tilewright.cost.prices import call_costs
from tilewright.cost.timing import TransferShape, transfer_cycles
from tilewright.ir.parser import parse
from tilewright.ir.primitives import WinogradInput
from tilewright.machine import load_machine
from tilewright.ops import Conv2d
from tilewright.seeds.space import bindings, seeds_for
from tilewright.targets.host.prices import PRICES, copied_cycles, streamed_cycles
from tilewright.targets.host.sections import Caches
from tilewright.tune.prepared import prepared_of, ready_structures

BLOCKS = """\
def input(blocks):
    v: tensor("f32", "scratch", points=16, tile_cols=8, channels=16)
    x: tensor("f32", "input", rows=2 * blocks + 2, cols=18, channels=16)
    for block in range(blocks):
        winograd_input(
            v[at(0, 16), at(0, 8), at(0, 16)]("xtp"),
            x[at(2 * block, 4), at(0, 18), at(0, 16)]("rcp"),
            output_tile=2,
        )
"""
V, X_ROW = 16 * 8 * 16 * 4, 18 * 16 * 4
BLOCK_COUNT = 10
X = (2 * BLOCK_COUNT + 2) * X_ROW
BLOCK = V + 4 * X_ROW
PRODUCTS = 16 * 16 * 8 * 4
"""Bytes that the products of a block touch beside it."""
FILL = 4


def cycles(l2_bytes: int, beside: int = 0) -> float:
    """With a quarter of a cycle for each byte that is read from behind the cache, and two for one
    that is written.
    """
    machine = load_machine(
        "host",
        {
            "clock_hz": "1000000000",
            "dma.put.peak_bytes_per_second": "5e8",
            "memory.caches.l2.capacity_bytes": str(l2_bytes),
            "memory.caches.l2.fill_bytes_per_cycle": str(FILL),
        },
    )
    nest = replace(take_apart(parse(BLOCKS)), beside=Const(beside // 4))
    return streamed_cycles(nest, machine, {"blocks": BLOCK_COUNT})


def test_what_fits_a_cache_does_not_move() -> None:
    assert cycles(X + V) == 0
    assert cycles(X + V + PRODUCTS, PRODUCTS) == 0


def test_products_displace_what_fits_a_cache_without_them() -> None:
    pixels = (1 - (X + V) / (X + V + PRODUCTS)) * BLOCK_COUNT * 4 * X_ROW
    assert BLOCK + PRODUCTS < X + V
    assert cycles(X + V, PRODUCTS) == pytest.approx(pixels / FILL)
    points = (1 - BLOCK / (BLOCK + PRODUCTS)) * BLOCK_COUNT * V
    pixels = (1 - BLOCK / (X + V + PRODUCTS)) * BLOCK_COUNT * 4 * X_ROW
    assert cycles(BLOCK, PRODUCTS) == pytest.approx(2 * points + pixels / FILL)


def test_points_stay_where_a_block_fits_and_pixels_where_the_image_does() -> None:
    """The points are used again in the next block, the pixels in the next call of the kernel."""
    gone = 1 - BLOCK / (X + V)
    assert cycles(BLOCK) == pytest.approx(gone * BLOCK_COUNT * 4 * X_ROW / FILL)


def test_what_exceeds_the_cache_is_the_part_that_is_gone() -> None:
    points = 0.5 * BLOCK_COUNT * V * 2
    pixels = (1 - BLOCK / 2 / (X + V)) * BLOCK_COUNT * 4 * X_ROW / FILL
    assert cycles(BLOCK // 2) == pytest.approx(points + pixels)


def test_products_touch_the_other_tensors_of_their_turn() -> None:
    """64 channels of 28 x 28 pixels to 128 in groups of 32, 7 tiles by 2: an input transform's
    products read all kernels, an output's find their points behind those of the input alone.
    """
    op, machine = Conv2d(1, 64, 128, 30, 30, (3, 3), dtype="f32"), load_machine("host")
    (seed,) = seeds_for(op, "winograd4", addressed=True)
    sizes = {"block_rows": 2, "group_channels": 32, "in_pitch": 64}
    values = next(v for v in bindings(op, seed) if sizes.items() <= v.items())
    found = {
        space.nest.name: evaluate(prepared_of(structure, seed, machine).beside, values)
        for space in seed.spaces
        for structure in ready_structures(machine, seed, space, "f32")[:1]
    }
    tiles = 2 * 7
    assert found["input"] == 36 * (64 * 128 + tiles * 32)
    assert found["output"] == 36 * tiles * 64


@pytest.mark.parametrize(("pixels", "whole"), [(8, 4), (7, 1), (6, 1), (5, 1)])
@pytest.mark.parametrize("direction", ["input", "output"])
def test_tiles_beyond_the_image_are_copied(direction: str, pixels: int, whole: int) -> None:
    """Two tiles by two of two lines of channels, in two vectors each: 6 x 6 pixels are zeroed and
    moved to a copy, 4 x 4 moved from one.
    """
    is_input = direction == "input"
    side, size = (6, pixels + 2) if is_input else (4, pixels)
    x = f'x[at(4 * row, {side}), at(0, {size}), at(0, 32)]("rcp")'
    v = 'v[at(0, 36), at(0, 2), at(0, 32)]("xtp")'
    text = f"""\
def transform():
    v: tensor("f32", "scratch", points=36, tile_cols=2, channels=32)
    x: tensor("f32", "{direction}", rows={size}, cols={size}, channels=32)
    for row in range(2):
        winograd_{direction}({f"{v}, {x}" if is_input else f"{x}, {v}"}, output_tile=4)
"""
    prices = {f"primitives.vector.{name}_cycles": "1" for name in ("load", "loop")}
    found = copied_cycles(take_apart(parse(text)), load_machine("host_avx2", prices), {})
    each = 6 * 6 * (3 + 2) if is_input else 4 * 4 * 3
    assert found == (4 - whole) * 2 * 2 * each


ROWS = """\
def sums():
    y: tensor("f32", "output", rows=7, cols=7, channels=64)
    x: tensor("f32", "input", rows=11, cols=11, channels=64)
    w: tensor("f32", "constant", kernel_rows=5, kernel_cols=5, channels=64)
    for row in range(7):
        window_sums(
            y[at(row, 1), at(0, 7), at(0, 64)](".tg"),
            x[at(row, 5), at(0, 11), at(0, 64)]("rcg"),
            w[at(0, 5), at(0, 5), at(0, 64)]("xxg"),
            rows=5,
            cols=5,
        )
"""


LOADING = {"primitives.vector.load_cycles": "9"}
"""Loads that take longer than multiply-adds: nothing comes meanwhile."""
SMALL = {"memory.caches.l1.capacity_bytes": "10240", "memory.caches.l1.fill_bytes_per_cycle": "2"}


@pytest.mark.parametrize(("streams", "capacity"), [(79, 10_240), (79, 40_960), (80, 10_240)])
def test_rows_come_again_where_more_lines_are_read_than_are_fetched_ahead(
    streams: int, capacity: int
) -> None:
    """5 x (7 + 4) pixels and 5 x 5 factors, a line of each, which is 80: twice, once otherwise."""
    sizes = {"streams": str(streams), "l1.capacity_bytes": str(capacity)}
    given = {f"memory.caches.{key}": value for key, value in sizes.items()}
    machine = load_machine("host_avx2", {**given, **LOADING})
    read, written = (5 * 11 + 5 * 5) * 64 * 4, 7 * 64 * 4
    times = (2 if streams < 80 else 1) if capacity < read + written else 0
    expected = 7 * times * read / machine.section(Caches).l1.fill_bytes_per_cycle
    assert streamed_cycles(take_apart(parse(ROWS)), machine, {}) == pytest.approx(expected)


@pytest.mark.parametrize(("lines", "kept", "rows"), [(7, 19 * 19, 7), (1, 19 * 21, 3)])
def test_a_border_of_zeros_is_neither_multiplied_nor_read_where_no_loop_moves_it(
    lines: int, kept: int, rows: int
) -> None:
    """Of 21 points of 7 windows side by side 19 are in the image, and 7 of 9 pixels."""
    text = f"""\
def sums():
    y: tensor("f32", "output", rows=7, cols=7, channels=512)
    x: tensor("f32", "input", zeros(rows=(1, 1), cols=(1, 1)), rows=9, cols=9, channels=512)
    w: tensor("f32", "constant", kernel_rows=3, kernel_cols=3, channels=512)
    for turn in range({7 // lines}):
        window_sums(
            y[at({lines} * turn, {lines}), at(0, 7), at(0, 512)]("utg"),
            x[at({lines} * turn, {lines + 2}), at(0, 9), at(0, 512)]("rcg"),
            w[at(0, 3), at(0, 3), at(0, 512)]("xxg"),
            rows=3,
            cols=3,
        )
"""
    prepared, machine = take_apart(parse(text)), load_machine("host", LOADING)
    assert PRICES.kept_share(prepared, machine, {}) == pytest.approx(kept / (21 * 21))
    read = 7 // lines * (rows * 7 + 3 * 3) * 512 * 4
    expected = read / machine.section(Caches).l1.fill_bytes_per_cycle
    assert streamed_cycles(prepared, machine, {}) == pytest.approx(expected)


def test_pixels_come_while_a_block_multiplies_and_loads_nothing() -> None:
    """A line of 7 windows of 5 x 5 points loads 5 x 11 pixels and 25 factors and stores 7 results;
    of 4 vectors of channels, at 175 multiply-adds each.
    """
    fast, slow = (
        load_machine("host", {"primitives.vector.load_cycles": cycles, **SMALL})
        for cycles in ("1", "9")
    )
    idle = 7 * 4 * (175 - (55 + 25 + 7))
    found = [streamed_cycles(take_apart(parse(ROWS)), one, {}) for one in (fast, slow)]
    assert found == pytest.approx([found[1] - idle, 7 * (55 + 25) * 64 * 4 / 2])


def test_transforms_of_machines_with_caches_share_sums_and_hide_loads_and_stores() -> None:
    call = PricedCall(
        WinogradInput(4),
        {"x": 36, "t": 1, "p": 16, "r": 6, "c": 6, "common_run": 16, "inner": 16},
        "f32",
    )
    together, apart = (
        call_cycles(machine, call, call_costs(machine))
        for machine in map(load_machine, ("host", "sw26010_cg"))
    )
    assert together == max(2 * 36, 12 * 12) + 1
    assert apart > 4 * together


@pytest.mark.parametrize(("channels", "lines", "left"), [(16, 1, 0), (3, 1, 3), (40, 3, 8)])
def test_channels_that_fill_no_line_are_moved_one_by_one(
    channels: int, lines: int, left: int
) -> None:
    """To and from copies of two tiles: 36 pixels and 36 points of zeros and of what is moved."""
    dims = {"x": 36, "t": 2, "p": channels, "r": 6, "c": 10, "common_run": 16, "inner": 16}
    machine = load_machine("host")
    found = call_cycles(machine, PricedCall(WinogradInput(4), dims, "f32"), call_costs(machine))
    copied = 36 * 2 + (36 + 36) * left * 3 if left else 0
    assert found == 2 * (lines * (12 * 12 + 1) + copied)


@pytest.mark.parametrize(("direct", "slower"), [(1e10, 5.0), (4e10, 2.0), (8e10, 1.5)])
def test_copies_of_what_the_last_cache_cannot_keep_wait_for_main_memory_as_well(
    direct: float, slower: float
) -> None:
    machine = load_machine(
        "host",
        {
            "dma.get.peak_bytes_per_second": 4e10,
            "memory.main.direct_bytes_per_second": direct,
            "memory.caches.l3.capacity_bytes": 40_000_000,
        },
    )
    for way, size, times in (
        ("get", 40_000_000, 1.0), ("get", 40_000_001, slower), ("put", 40_000_001, 1.0),
    ):  # fmt: skip
        shape = TransferShape(4096, 8, 8)
        found = PRICES.service_cycles(machine, way, shape, size, shared=False)
        assert found == times * transfer_cycles(machine, way, shape)
