"""Tensors of generated code that it takes in another form, and how often routines run."""

from __future__ import annotations

import pytest

from tilewright.codegen.artifact import Panels, RoutineCycles, TensorInfo

PLAIN = TensorInfo("w", "w", "f32", "constant", (8, 6))


@pytest.mark.parametrize("panels", [None, Panels(0, 1, 4)])
@pytest.mark.parametrize("made", [None, PLAIN])
def test_a_tensor_is_packed_in_panels_or_by_computing_another_one(panels, made) -> None:
    found = TensorInfo("w", "w", "f32", "constant", (8, 6), panels, made)
    assert found.is_packed is (panels is not None or made is not None)


@pytest.mark.parametrize(("calls", "times"), [(None, 1), (1, 1), (7, 7)])
def test_a_routine_that_is_the_whole_runs_once(calls, times) -> None:
    assert RoutineCycles("gemm", "gemm(8)", 100, calls=calls).times == times
