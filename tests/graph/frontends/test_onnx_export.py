"""What is exported to ONNX and read back computes the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from support.examples import examples
from support.networks import networks, numbers_for
from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.frontends.onnx.export import export_onnx
from tilewright.graph.graph import Network
from tilewright.graph.zoo import network as zoo_network


def test_networks_come_back(tmp_path) -> None:
    @examples(15)
    @given(networks())
    def check(network: Network) -> None:
        weights, inputs = numbers_for(network)
        path = tmp_path / "m.onnx"
        path.write_bytes(export_onnx(network, weights).SerializeToString())
        found = load_onnx(path).evaluate(inputs)
        expected = network.evaluate({**weights, **inputs})
        assert list(found) == list(expected)
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)

    check()


def test_numbers_are_needed() -> None:
    with pytest.raises(GraphError) as caught:
        export_onnx(zoo_network("lenet5", 1), {})
    assert str(caught.value) == "no numbers are given for the weight 'c1_weight'"
