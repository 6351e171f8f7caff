"""Generated kernels err by no more than is expected of them, and by less with better points."""

from __future__ import annotations

import numpy as np
import pytest

from support.compiled import kernel_of
from support.native import NATIVE_HOSTS
from tilewright.compiler.checking import relative_error
from tilewright.ops import conv2d
from tilewright.tune.accuracy import expected_error

LAYER = conv2d(
    batch=1, in_channels=48, out_channels=16, height=13, width=14, kernel=3, padding=1, dtype="f32"
)


@pytest.mark.parametrize(
    "algorithm", ["implicit", *(f"winograd{size}" for size in (2, 3, 4, 5, 6))]
)
def test_measured_errors_are_within_the_expected(algorithm):
    kernel = kernel_of(LAYER, NATIVE_HOSTS[0], algorithm=algorithm, measure=False)
    generator = np.random.default_rng(5)
    x, w = (2 * generator.random(s, np.float32) - 1 for s in LAYER.input_shapes)
    expected = expected_error(LAYER, kernel.option.candidate.seed)
    found = relative_error(LAYER, (x, w), kernel.run(x=x, w=w)["y"])
    assert expected / 8 < found <= expected
    assert kernel.result.expected_error == expected
