"""The operators that an algorithm is for: those at its limits, and none beyond."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.common.errors import ScheduleError
from tilewright.ops import conv2d
from tilewright.seeds.space import seeds_for
from tilewright.seeds.steps import Stage

Sizes = dict[str, Any]
ADDRESSED, WHOLE = {"addressed": True}, {"whole": True}
FUSED: Sizes = {"in_channels": 128, "out_channels": 128, "kernel": 3}
PAIRS: Sizes = {"in_channels": 16, "out_channels": 16, "groups": 2, "kernel": 3}
SUMS: Sizes = {"in_channels": 32, "kernel": 3}
ROWS: Sizes = {"batch": 31, "kernel": (1, 2), "stride": (2, 1)}
GRADIENT: Sizes = {"batch": 8, "height": 8, "width": 8, "kernel": 7}
NARROW: Sizes = {"height": 3, "width": 5, "kernel": (2, 4)}
WIDE: Sizes = {"height": 17, "width": 17, "kernel": 11}
IMAGES: Sizes = {"height": 6, "width": 6, "kernel": 4}


@pytest.mark.parametrize(
    ("algorithm", "where", "within", "beyond"),
    [
        ("winograd2_fused", {}, FUSED, {"in_channels": 129}),
        ("winograd2_fused", {}, FUSED, {"out_channels": 129}),
        ("winograd2_fused", {}, FUSED, {"kernel": (3, 2)}),
        ("winograd2_fused", {}, FUSED, {"stride": (1, 2)}),
        ("winograd2_fused", {}, FUSED, {"dilation": (2, 1)}),
        ("winograd2_fused", {}, FUSED, {"dtype": "i8:i32"}),
        ("winograd2_fused", {}, {**FUSED, "in_channels": 256, "groups": 2}, {"in_channels": 258}),
        ("winograd2_fours", {}, {**FUSED, "batch": 32}, {"batch": 16}),
        ("winograd2_fours", {}, {**FUSED, "batch": 64}, {"in_channels": 129}),
        ("direct_vectors", {}, PAIRS, {"out_channels": 18}),
        ("direct_vectors", {}, {**PAIRS, "groups": 1, "in_channels": 4}, {"in_channels": 5}),
        ("depthwise", ADDRESSED, PAIRS, {"in_channels": 18}),
        ("depthwise", ADDRESSED, PAIRS, {"in_channels": 2, "out_channels": 2, "groups": 1}),
        ("depthwise", ADDRESSED, PAIRS, {"dtype": "i8:i32"}),
        ("explicit_fused", {}, SUMS, {"in_channels": 33}),
        ("explicit_fused", {}, SUMS, {"kernel": 1}),
        ("explicit_fused", {}, {**SUMS, "in_channels": 64, "groups": 2}, {"in_channels": 66}),
        ("implicit_rows", {}, ROWS, {"batch": 32}),
        ("implicit_rows", {}, ROWS, {"kernel": 1}),
        ("implicit_rows", {}, ROWS, {"stride": (1, 2)}),
        ("weight_gradient", {}, GRADIENT, {"height": 7, "kernel": (7, 7)}),
        ("weight_gradient", {}, NARROW, {"height": 2, "width": 8, "kernel": (1, 7)}),
        ("weight_gradient", {}, WIDE, {"height": 15, "width": 20}),
        ("weight_gradient_taps", {}, GRADIENT, {"batch": 9}),
        ("weight_gradient_taps", {}, GRADIENT, {"height": 7}),
        ("weight_gradient_taps", {}, {**GRADIENT, "batch": 128}, {"batch": 136}),
        ("whole_windows", WHOLE, IMAGES, {"dilation": (1, 2), "kernel": 3}),
        ("turned_windows", WHOLE, IMAGES, {"kernel": (4, 1)}),
        ("turned_windows", WHOLE, {**IMAGES, "kernel": 1}, {"kernel": (1, 2)}),
        ("turned_windows", WHOLE, IMAGES, {"dilation": (2, 1), "kernel": 2}),
        ("whole_pixels", WHOLE, {"kernel": 1}, {"kernel": (1, 2)}),
        ("loading_order", WHOLE, {**IMAGES, "kernel": (1, 2)}, {"kernel": (2, 1)}),
        ("loading_order", WHOLE, {**IMAGES, "kernel": (1, 2)}, {"dilation": (2, 1)}),
        ("whole_sums", WHOLE, {**IMAGES, "kernel": (3, 4)}, {"kernel": (3, 3)}),
        ("whole_sums", WHOLE, {"height": 1, "width": 2, "kernel": (1, 2)}, {"kernel": 1}),
    ],
)
def test_limits(algorithm: str, where: dict[str, bool], within: Sizes, beyond: Sizes) -> None:
    usual: Sizes = {"batch": 1, "in_channels": 8, "out_channels": 8, "height": 9, "width": 9}
    (found,) = seeds_for(conv2d(**(usual | within)), algorithm, **where)
    assert found.name == algorithm
    refused = conv2d(**(usual | within | beyond))
    with pytest.raises(ScheduleError) as error:
        seeds_for(refused, algorithm, **where)
    assert str(error.value) == f"{algorithm} does not apply to {refused.describe()}"


@pytest.mark.parametrize(("rows", "staged"), [(1, False), (2, True)])
def test_operands_of_several_kernel_rows_alone_are_fetched_by_rows_too(
    rows: int, staged: bool
) -> None:
    op = conv2d(batch=8, in_channels=8, out_channels=8, height=8, width=8, kernel=(rows, 3))
    (seed,) = seeds_for(op, "implicit")
    every = (step for steps in seed.spaces[0].combinations() for step in steps)
    loops = {step.at for step in every if isinstance(step, Stage) and step.tensor == "w"}
    assert loops >= {"kernel_col"}
    assert ("kernel_row" in loops) is staged
