"""Networks that this computer cannot run: each refusal is one message, tested whole."""

from __future__ import annotations

import pytest

from support.native import NATIVE_HOSTS
from tilewright.common.errors import CapacityError
from tilewright.graph.builder import NetworkBuilder
from tilewright.ops import relu
from tilewright.targets.host.network.native import compile_network

pytestmark = pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor")


def test_a_tensor_that_no_process_addresses() -> None:
    net = NetworkBuilder("net", "f32")
    shape = (2**23, 2**23)
    y = net.apply(relu(shape, dtype="f32"), net.input("x", shape), name="r")
    with pytest.raises(CapacityError) as caught:
        compile_network(net.build((y,)), NATIVE_HOSTS[0])
    assert str(caught.value) == (
        "net: the tensor 'x', 8388608x8388608, takes 281,474,976,710,656 bytes, more than a "
        "process addresses; a smaller --batch or --shape"
    )
