"""Prices of several threads: loops as long as their longest run, barriers, main memory."""

from __future__ import annotations

import pytest

from tilewright import ops
from tilewright.ir.nodes import For
from tilewright.ir.visit import walk
from tilewright.machine import Machine, load_machine
from tilewright.ops import Op
from tilewright.passes.pipeline import ALONE
from tilewright.tune.choose import choose

FREE = {
    "threads.meet_cycles": "0",
    "threads.saturating": "1000",
    "memory.caches.l3.fill_bytes_per_cycle": "1000",
    "memory.caches.handed_cycles_per_byte": "0",
}


def host(threads: int, **changes: str) -> Machine:
    settings = {key.replace("__", "."): value for key, value in changes.items()}
    return load_machine("host_avx2", {**FREE, "threads.count": str(threads), **settings})


def cycles(op: Op, machine: Machine, algorithm: str) -> float:
    (choice,) = choose([op], machine, algorithm=algorithm)
    return choice.best.candidate.cycles


def conv(rows: int) -> Op:
    return ops.conv2d(
        batch=1, in_channels=64, out_channels=64, height=rows, width=56, kernel=3, padding=1,
        dtype="f32",
    )  # fmt: skip


@pytest.mark.parametrize("algorithm", ["direct", "winograd4"])
@pytest.mark.parametrize("threads", [2, 4])
def test_free_threads_are_nearly_so_many_times_as_fast(algorithm: str, threads: int) -> None:
    """Or more, where what one works on fits its cache, and all of it did not."""
    one = cycles(conv(56), host(1), algorithm)
    assert 0.9 < one / cycles(conv(56), host(threads), algorithm) / threads < 1.2


def test_a_barrier_costs_what_the_machine_says() -> None:
    free = cycles(conv(56), host(2), "direct")
    assert cycles(conv(56), host(2, threads__meet_cycles="5000"), "direct") == free + 5000


def test_what_is_beyond_the_caches_does_not_come_faster_than_main_memory_delivers() -> None:
    product = ops.gemm(m=1, n=8192, k=8192, dtype="f32")
    machine = host(16, threads__saturating="1.5")
    weights = 4 * 8192 * 8192
    least = weights / (1.5 * machine.direct_bytes_per_second) * machine.clock_hz
    assert least < cycles(product, machine, "gemm") < 1.01 * least


def test_a_nest_is_charged_for_what_it_touches_of_a_tensor_beyond_the_caches() -> None:
    """Tiles that the edge of an image cuts have four products, each of other transform points."""
    layer = ops.conv2d(
        batch=1, in_channels=512, out_channels=512, height=14, width=14, kernel=3, padding=1,
        dtype="f32",
    )  # fmt: skip
    machine = host(2, threads__saturating="0.1")
    (choice,) = choose([layer], machine, algorithm="winograd4")
    products = choice.best.candidate.nests[2:-1]
    kernels = 4 * 36 * 512 * 512
    least = kernels / (0.1 * machine.direct_bytes_per_second) * machine.clock_hz
    assert len(products) == 4
    assert least < sum(nest.cycles for nest in products) < 1.3 * least


def test_weights_beyond_the_caches_are_read_by_as_many_threads_as_bring_more() -> None:
    """A schedule in which one thread reads them all is not as fast as one that divides them."""
    product = ops.gemm(m=1, n=4096, k=25088, transpose_b=True, dtype="f32")
    machine = load_machine("host", {"threads.count": "2"})
    (choice,) = choose([product], machine, algorithm="prepacked")
    body = choice.best.candidate.program(machine).body
    assert ALONE not in {loop.var for loop in walk(body) if isinstance(loop, For)}


def test_threads_do_not_both_read_transformed_kernels() -> None:
    """17 MB of them for few pixels, which other stages of a network displace between two runs: each
    thread takes half of the channels of all pixels, not all channels of half of them.
    """
    op = ops.conv2d(
        batch=1, in_channels=512, out_channels=512, height=7, width=7, kernel=3, padding=1,
        dtype="f32",
    )  # fmt: skip
    machine = load_machine("host_zen5", {"threads.count": 2})
    (choice,) = choose([op], machine, algorithm="winograd2")
    values = choice.best.candidate.values
    assert (values["blocks"], values["channel_groups"] % 2) == (1, 0)


def test_threads_have_transformed_images_of_their_own_where_these_are_many() -> None:
    """9 MB of kernels for 196 tiles: half of the tiles each, of which no other thread reads what it
    has transformed, and not half of the channels of all tiles, which come from the other's cache.
    """
    op = ops.conv2d(
        batch=1, in_channels=256, out_channels=256, height=56, width=56, kernel=3, padding=1,
        dtype="f32",
    )  # fmt: skip
    machine = load_machine("host_zen5", {"threads.count": 2})
    (choice,) = choose([op], machine, algorithm="winograd4")
    assert choice.best.candidate.values["blocks"] % 2 == 0


def divided(op: Op, algorithm: str, **changes: str) -> set[str]:
    """The loops that two threads of a Zen 4 divide."""
    settings = {key.replace("__", "."): value for key, value in changes.items()}
    machine = load_machine("host", {"threads.count": "2", **settings})
    (choice,) = choose([op], machine, algorithm=algorithm)
    body = choice.best.candidate.program(machine).body
    return {loop.var for loop in walk(body) if isinstance(loop, For) and loop.threads > 1}


def test_threads_have_the_same_rows_stage_after_stage() -> None:
    """And channels only where few pixels would have both read many weights."""
    image = {"batch": 1, "height": 14, "width": 14, "dtype": "f32"}
    wide = ops.conv2d(in_channels=96, out_channels=576, kernel=1, **image)
    windows = ops.conv2d(
        in_channels=576, out_channels=576, groups=576, kernel=3, padding=1, **image
    )  # fmt: skip
    few = ops.conv2d(
        batch=1, in_channels=320, out_channels=1280, height=7, width=7, kernel=1, dtype="f32"
    )  # fmt: skip
    assert divided(wide, "pointwise") == {"pixel"}
    assert divided(windows, "depthwise") == {"out_row"}
    assert divided(few, "pointwise") == {"out_channel"}


def test_what_is_handed_over_costs_what_the_machine_says() -> None:
    """Both threads read all of a vector, of which each has stored half."""
    product, k = ops.gemm(m=1, n=256, k=1024, transpose_b=True, dtype="f32"), 1024
    free = cycles(product, host(2), "prepacked")
    handed = cycles(product, host(2, memory__caches__handed_cycles_per_byte="1"), "prepacked")
    assert handed == free + 4 * k / 2
