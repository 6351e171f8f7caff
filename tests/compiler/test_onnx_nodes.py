"""The node tests of the onnx package: what is read computes what the standard says, here and there.

`make onnx-node-tests` prints the same with the reasons of the refusals.
"""

from __future__ import annotations

import pytest

from support.native import NATIVE_HOSTS
from support.onnx_backend import Outcome, Runnable, node_tests, on_host, on_reference, read


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """What became of reading each test's model."""
    folder = tmp_path_factory.mktemp("models")
    return [read(case, folder) for case in node_tests()]


def test_the_reference_computes_what_the_standard_says(tried):
    refusals = [item for item in tried if isinstance(item, Outcome)]
    outcomes = [on_reference(item) for item in tried if isinstance(item, Runnable)]
    assert len(refusals) + len(outcomes) == len(node_tests()) > 1500
    assert [item for item in outcomes if item.status != "passed"] == []
    assert len(outcomes) >= 240
    assert all(item.detail for item in refusals)


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
def test_this_computer_computes_what_the_standard_says(tried):
    """Convolutions by weights that are an input, networks of integers, reductions of other axes
    than rows and columns and what is broadcast along them are refused, and nothing else.
    """
    outcomes = list(on_host([item for item in tried if isinstance(item, Runnable)]))
    assert [item for item in outcomes if item.status == "wrong"] == []
    refused = {item.name for item in outcomes if item.status == "refused"}
    reasons = ("by pooling", "not weights per channel")
    reduced = {item.name for item in outcomes if any(why in item.detail for why in reasons)}
    known = ("conv", "batchnorm", "integer", "test_shape")
    others = sorted(refused - reduced)
    assert [name for name in others if not any(part in name for part in known)] == []
    assert len(outcomes) - len(refused) >= 180
