"""Algorithms that are left out on this computer are behind others by the model."""

from __future__ import annotations

import pytest

from tilewright.machine import load_machine
from tilewright.ops import Conv2d, conv2d
from tilewright.passes.lowering import lowering_of
from tilewright.tune.choose import choose
from tilewright.tune.ways import ways

HOST = load_machine("host_avx2")


def image(channels: int, results: int, *, kernel: int = 3, groups: int = 1) -> Conv2d:
    return conv2d(
        batch=1, in_channels=channels, out_channels=results, groups=groups, height=14, width=14,
        kernel=kernel, padding=kernel // 2, dtype="f32",
    )  # fmt: skip


def test_what_is_left_out_is_slower() -> None:
    op, left_out = image(32, 24, kernel=1), {"explicit", "implicit"}
    assert lowering_of(HOST).outdone(op, HOST) == left_out
    (best,) = choose([op], HOST)
    assert not left_out & {option.algorithm for option in best.options}
    (other,) = choose([op], HOST, algorithm="implicit")
    assert other.best.cycles > best.best.cycles


def test_depthwise_layers_are_summed_by_windows_alone() -> None:
    (found,) = ways([image(32, 32, groups=32)], HOST)
    names = {seed.name for _, seed in found}
    assert {name for name in names if not name.startswith("winograd")} == {"depthwise"}


@pytest.mark.parametrize(
    "op", [image(32, 17), image(32, 1, kernel=1), image(64, 64, groups=32)], ids=str
)
def test_results_that_are_no_whole_vectors_keep_every_algorithm(op: Conv2d) -> None:
    assert not lowering_of(HOST).outdone(op, HOST)


def test_a_depthwise_layer_larger_than_the_cache_goes_row_by_row_through_all_channels() -> None:
    op = conv2d(
        batch=1, in_channels=96, out_channels=96, groups=96, height=112, width=112, kernel=3,
        stride=2, padding=1, dtype="f32",
    )  # fmt: skip
    (found,) = choose([op], HOST, algorithm="depthwise")
    (loops,) = found.best.candidate.nests
    assert "reorder(image, out_row, group, out_channel)" in str(loops.schedule)
