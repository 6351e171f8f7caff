"""Whole networks on this computer compute what the network's reference says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from support.examples import examples
from support.native import NATIVE_HOSTS
from support.networks import TOLERANCE, compiled_networks, numbers_for, quickly_loaded
from tilewright.graph.graph import Network
from tilewright.targets.host.network.run import NetworkCode

pytestmark = pytest.mark.hypothesis


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
def test_random_networks_compute_their_reference() -> None:
    @examples(10)
    @given(compiled_networks(NATIVE_HOSTS))
    def check(pair: tuple[Network, NetworkCode]) -> None:
        network, code = pair
        weights, inputs = numbers_for(network)
        loaded = quickly_loaded(code)
        bound = loaded.bind(loaded.constants(weights))
        bound.give(inputs)
        bound.repeat(2)
        expected = network.evaluate({**weights, **inputs})
        for name, found in bound.outputs().items():
            scale = max(1.0, float(np.abs(expected[name]).max()))
            error = float(np.abs(found - expected[name]).max())
            assert error <= TOLERANCE[code.dtype] * scale, (name, network)

    check()
