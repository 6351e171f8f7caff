"""Models mean here what they mean to onnxruntime, which reads the same bytes.

The reference is compared model by model; generated code for many models at a time.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import onnxruntime
import pytest

from support.native import NATIVE_HOSTS
from support.onnx_backend import host_results
from support.onnx_cases import Case, every_case
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.network.search import Search

CASES = {case.name: case for case in every_case()}
NAMES = list(CASES)
TOGETHER = 46
DIRECT = Search("direct", keep=1)
"""The search is not what is tried here."""
ATOL = 1e-6


@cache
def expected(name: str) -> np.ndarray:
    """What onnxruntime computes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    content = CASES[name].proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
    (result,) = session.run(None, CASES[name].inputs)
    return result


def read(case: Case, folder):
    path = folder / "model.onnx"
    path.write_bytes(case.proto.SerializeToString())
    return load_onnx(path)


def assert_alike(found: np.ndarray, name: str, bound: float) -> None:
    assert (found.dtype, found.shape) == (expected(name).dtype, expected(name).shape), name
    np.testing.assert_allclose(found, expected(name), bound, ATOL, err_msg=name)


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_equals_onnxruntime(tmp_path, name):
    network = read(CASES[name], tmp_path)
    assert_alike(network.evaluate(CASES[name].inputs)["y"], name, CASES[name].bound)


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
@pytest.mark.parametrize("first", range(0, len(NAMES), TOGETHER))
def test_generated_code_equals_onnxruntime(tmp_path, first):
    names = NAMES[first : first + TOGETHER]
    networks = [read(CASES[name], tmp_path) for name in names]
    results = host_results(networks, [[CASES[name].inputs] for name in names], DIRECT)
    for name, (found,) in zip(names, results, strict=True):
        assert_alike(found["y"], name, 2 * CASES[name].bound)
