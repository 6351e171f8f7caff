"""Networks under the sanitizers, every value with forbidden memory around it, results compared."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.native import NATIVE_HOSTS
from support.networks import ANY, TOLERANCE, compiled_networks, joined_networks, numbers_for
from support.sanitized import have_sanitizers
from support.sanitized_networks import apart, sanitized_network
from tilewright.graph.graph import Network
from tilewright.targets.host.network.run import NetworkCode

pytestmark = [
    pytest.mark.hypothesis,
    pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known"),
    pytest.mark.skipif(not have_sanitizers(), reason="the compiler has no sanitizers"),
]


@pytest.mark.parametrize("networks", [ANY, joined_networks()], ids=["any", "joined"])
def test_no_stage_leaves_its_values(
    networks: st.SearchStrategy[Network], monkeypatch: pytest.MonkeyPatch
) -> None:
    arena = apart(monkeypatch.setattr)

    @examples(3)
    @given(compiled_networks(NATIVE_HOSTS, networks))
    def check(pair: tuple[Network, NetworkCode]) -> None:
        network, code = pair
        weights, inputs = numbers_for(network)
        expected = network.evaluate({**weights, **inputs})
        for results in sanitized_network(code, arena, weights, inputs):
            for name, found in results.items():
                scale = max(1.0, float(np.abs(expected[name]).max()))
                error = float(np.abs(found - expected[name]).max())
                assert error <= TOLERANCE[code.dtype] * scale, (name, network)

    check()
