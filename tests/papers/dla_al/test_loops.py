"""The tile loops of the paper: their closed forms, and what the text says of their overlaps."""

from __future__ import annotations

import pytest

from tilewright.papers.dla_al.loops import TIMES, Tiles, cycles, overlaps, timed_loop

TILES = Tiles(count=6, inputs=16, outputs=16)
LOAD, WEIGHTS, PRODUCT, SUM = 3, 8, 6, 2


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("naive", 6 * (LOAD + WEIGHTS + PRODUCT) + SUM),
        ("prefetched", 6 * (LOAD + WEIGHTS) + PRODUCT + SUM),
    ],
)
def test_the_time_of_a_loop(order: str, expected: int) -> None:
    assert cycles(timed_loop(TILES, order, "dla-al", TIMES)) == expected


def test_the_overlaps_that_the_text_describes() -> None:
    naive, prefetched = (timed_loop(TILES, o, "dla-al", TIMES) for o in ("naive", "prefetched"))
    assert overlaps(naive) == "transfer and vector"
    assert overlaps(prefetched) == "matrix and transfer, matrix and vector, transfer and vector"


def test_on_the_machine_of_the_isa_paper_the_order_does_not_matter() -> None:
    times = {cycles(timed_loop(TILES, o, "cambricon-acc", TIMES)) for o in ("naive", "prefetched")}
    assert len(times) == 1
