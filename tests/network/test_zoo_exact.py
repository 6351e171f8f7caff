"""The plan of a known network on integers: the last bit of what its operators mean."""

import numpy as np
import pytest

from support.plans import GROUP, quick_search
from support.shrunk import SIZES, integers, shrunk
from tilewright.graph.zoo import network
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan


@pytest.mark.parametrize("name", ["alexnet", "vgg16"])
def test_a_plan_of_a_known_network_is_exact_on_integers(name):
    """All layers in their order, with fewer channels and pixels; `make exact-networks` has more."""
    net = shrunk(network(name, 1), *SIZES[name])
    weights, inputs = integers(net)
    found = interpret_plan(build_plan(net, GROUP, quick_search(net)), inputs, weights)
    for output, expected in net.evaluate({**weights, **inputs}).items():
        assert len(np.unique(expected)) > 5, "numbers that say little"
        np.testing.assert_array_equal(found[output], expected)
