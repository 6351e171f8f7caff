"""The windows of a kernel, gathered as swATOP's im2col has them."""

from __future__ import annotations

import numpy as np

from tilewright.ir.primitives import Windows, WindowSums, make_primitive


def gathered(windows: Windows, tiles: int, pixels: np.ndarray) -> list[list[float]]:
    """Of one core and one channel: a row for each point, a column for each window."""
    out = np.zeros((1, 1, windows.rows * windows.cols, tiles))
    return windows.meaning((out, pixels[np.newaxis, np.newaxis]))[0, 0].tolist()


def test_points_are_counted_row_by_row_and_windows_overlap() -> None:
    pixels = np.array([[1.0, 2, 3], [4, 5, 6]])
    assert gathered(Windows(2, 2), 2, pixels) == [[1, 2], [2, 3], [4, 5], [5, 6]]


def test_windows_stand_a_stride_apart_and_points_their_steps() -> None:
    pixels = np.arange(18.0).reshape(3, 6)
    windows = Windows(2, 2, stride=2, row_step=2, col_step=3)
    assert gathered(windows, 2, pixels) == [[0, 2], [3, 5], [12, 14], [15, 17]]


def test_steps_are_one_where_nothing_is_said() -> None:
    assert make_primitive("windows", {"rows": 3, "cols": 1}) == Windows(3, 1, 1, 1, 1)


def test_window_sums_multiply_and_add_for_each_point_of_each_term() -> None:
    """Of ones each element of the result is the number of its products."""
    sums = WindowSums(2, 3)
    pixels, factors = np.ones((1, 1, 2, 6, 7, 5)), np.ones((1, 1, 6, 7, 5))
    found = sums.meaning((np.zeros((1, 1, 1, 4, 5)), pixels, factors))
    assert sums.flops({"elements": 4 * 5, "k": 7}, 8) == 2 * found.sum()
