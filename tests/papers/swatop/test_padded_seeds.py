"""The library's matrix product: what it copies, and that its one schedule is that of large
squares.
"""

from __future__ import annotations

import pytest

from tilewright.machine import load_machine
from tilewright.ops import Gemm, gemm
from tilewright.papers.swatop.seeds import LIBRARY_BLOCK
from tilewright.seeds.space import seeds_for
from tilewright.simulate.kernel.level import simulate
from tilewright.tune.choose import choose

MACHINE = load_machine("sw26010")


@pytest.mark.parametrize(
    ("extents", "nests"),
    [
        ((256, 256, 256), ["product"]),
        ((224, 384, 128), ["product"]),
        ((200, 256, 256), ["pad_a", "product", "crop_c"]),
        ((256, 200, 256), ["pad_b", "product", "crop_c"]),
        ((256, 256, 200), ["pad_a", "pad_b", "product"]),
        ((200, 200, 200), ["pad_a", "pad_b", "product", "crop_c"]),
    ],
)
def test_what_is_no_whole_multiple_is_copied(
    extents: tuple[int, int, int], nests: list[str]
) -> None:
    (seed,) = seeds_for(gemm(*extents), "library")
    assert [space.nest.name for space in seed.spaces] == nests


def test_padded_copies_all() -> None:
    (seed,) = seeds_for(gemm(256, 256, 256), "padded")
    names = [space.nest.name for space in seed.spaces]
    assert names == ["pad_a", "pad_b", "product", "crop_c"]


def tiles(op: Gemm) -> list[int]:
    (choice,) = choose([op], MACHINE, algorithm="library", partition="m", keep=1)
    product = next(n for n in choice.best.candidate.nests if "depth_tile" in n.factors)
    return [product.factors[name] for name in ("row_tile", "col_tile", "depth_tile")]


def test_blocks_of_one_size_are_evened_out() -> None:
    assert tiles(gemm(8192, 8192, 8192)) == [LIBRARY_BLOCK] * 3
    assert tiles(gemm(1024, 640, 300)) == [256, 256, 192]


def test_large_squares_run_near_the_peak_that_the_library_is_known_for() -> None:
    """94 % of the cores' peak, within a percent of the best of all schedules."""
    op = gemm(8192, 8192, 8192)
    speeds = {}
    for algorithm in ("library", "gemm"):
        (choice,) = choose([op], MACHINE, algorithm=algorithm, keep=1)
        run = simulate(choice.best.candidate.program(MACHINE), MACHINE)
        speeds[algorithm] = op.flops / run.seconds / MACHINE.peak_flops
    assert speeds["library"] == pytest.approx(0.94, abs=0.005)
    assert speeds["library"] > 0.99 * speeds["gemm"]
