"""Models mean here what they mean to onnxruntime, which reads the same bytes.

The reference is compared model by model; generated code for many models at a time.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import onnxruntime
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from onnx.reference import ReferenceEvaluator

from support.examples import one_in
from support.native import NATIVE_HOSTS
from support.onnx_backend import host_results
from support.onnx_cases import RECENT, Case, every_case
from support.onnx_models import model, node
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.network.plans import Search

pytestmark = one_in(3)


CASES = {case.name: case for case in every_case()}
NAMES = list(CASES)
COMPILED = [name for name in NAMES if not CASES[name].elsewhere]
TOGETHER = 46
DIRECT = Search("direct", keep=1)
"""The search is not what is tried here."""
ATOL = 1e-6


@cache
def expected(name: str) -> np.ndarray:
    """onnxruntime's result for a case, shared by all tests."""
    return run_by_onnxruntime(CASES[name])


def run_by_onnxruntime(case: Case) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    content = case.proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
    (result,) = session.run(None, case.inputs)
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
@pytest.mark.parametrize("first", range(0, len(COMPILED), TOGETHER))
def test_generated_code_equals_onnxruntime(tmp_path, first):
    names = COMPILED[first : first + TOGETHER]
    networks = [read(CASES[name], tmp_path) for name in names]
    results = host_results(networks, [[CASES[name].inputs] for name in names], DIRECT)
    for name, (found,) in zip(names, results, strict=True):
        assert_alike(found["y"], name, 2 * CASES[name].bound)


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
def test_a_largest_number_skips_what_is_none(tmp_path):
    """Of ONNX's two implementations the standard's own skips NaN, and so do ours. onnxruntime
    keeps it or not by its place in the window, so it has a say only in windows without any.
    """
    x = np.random.default_rng(3).uniform(-2, 2, (1, 2, 9, 8)).astype(np.float32)
    x[..., 1::4, ::2] = np.nan
    nodes = [node("MaxPool", "x", "y", kernel_shape=[3, 2])]
    case = Case("NaN", model(nodes, {"x": x.shape}, opset=RECENT), {"x": x})
    (defined,) = ReferenceEvaluator(case.proto).run(None, case.inputs)
    network = read(case, tmp_path)
    ((host,),) = host_results([network], [[case.inputs]], DIRECT)
    assert np.array_equal(network.evaluate(case.inputs)["y"], defined)
    assert np.array_equal(host["y"], defined)
    whole = ~np.isnan(sliding_window_view(x, (3, 2), (2, 3))).any(axis=(-2, -1))
    assert whole.any()
    assert not whole.all()
    assert np.array_equal(run_by_onnxruntime(case)[whole], defined[whole])
