"""The node tests of the onnx package: what is read computes what the standard says, here and there.

Every operator is read with each set of its attributes and inputs; models in which the standard
writes one as several others, and code for this computer, are tried here and there.
`make onnx-node-tests` prints the same with the reasons of the refusals.
"""

from __future__ import annotations

import pytest

from support.native import NATIVE_HOSTS
from support.onnx_backend import Outcome, Runnable, node_tests, on_host, on_reference, read

RIGHT = ("passed", "rounded")
EXPANDED, HERE = 8, 30
"""Of the models of several operators, and on this computer, every so many is tried."""


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """The networks of the models, or refusals."""
    folder = tmp_path_factory.mktemp("models")
    expanded = [case for case in node_tests() if "_expanded" in case.name]
    single = [case for case in node_tests() if "_expanded" not in case.name]
    return [read(case, folder) for case in (*single, *expanded[::EXPANDED])]


def test_the_reference_computes_what_the_standard_says(tried):
    refusals = [item for item in tried if isinstance(item, Outcome)]
    outcomes = [on_reference(item) for item in tried if isinstance(item, Runnable)]
    assert [o for o in outcomes if o.status not in RIGHT] == []
    assert len(outcomes) >= 0.7 * len(tried)
    assert all(item.detail for item in refusals)


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
def test_this_computer_computes_what_the_standard_says(tried):
    """Products of integers, and what gathers integers that doubles lack, are refused by name."""
    runnable = [item for item in tried if isinstance(item, Runnable)]
    outcomes = list(on_host(runnable[::HERE]))
    assert [o for o in outcomes if o.status == "wrong"] == []
    refused = [o for o in outcomes if o.status == "refused"]
    assert all("no stage on" in o.detail for o in refused)
    assert len(refused) <= 0.1 * len(outcomes)
