"""Networks as exporters write them compute what onnxruntime computes."""

import numpy as np
import onnxruntime
import pytest

from support.onnx_models import saved
from support.onnx_patterns import PATTERNS, feeds
from tilewright.graph.frontends.onnx import load_onnx


@pytest.mark.parametrize("name", PATTERNS)
def test_the_reference_agrees_with_onnxruntime(tmp_path, name):
    proto = PATTERNS[name]()
    path, inputs = saved(tmp_path, proto), feeds(proto)
    expected = onnxruntime.InferenceSession(str(path)).run(None, inputs)
    found = load_onnx(path).evaluate(inputs)
    for array, other in zip(found.values(), expected, strict=True):
        assert array.shape == other.shape
        assert np.abs(array - other).max() <= 1e-4 * np.abs(other).max()
