"""Plans of the known networks on integers: the last bit of what their operators mean."""

import numpy as np
import pytest

from support.plans import GROUP, quick_search
from support.shrunk import integers, shrunk
from tilewright.graph.zoo import network
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan


@pytest.mark.parametrize(
    ("name", "side", "fewer"),
    [("alexnet", 67, 16), ("vgg16", 32, 64), ("resnet50", 64, 32), ("yolov2", 64, 64)],
)
def test_a_plan_is_exact_on_integers(name, side, fewer):
    """All layers of the network in their order, with fewer channels and pixels."""
    net = shrunk(network(name, 1), side, fewer)
    weights, inputs = integers(net)
    found = interpret_plan(build_plan(net, GROUP, quick_search(net)), inputs, weights)
    for output, expected in net.evaluate({**weights, **inputs}).items():
        assert len(np.unique(expected)) > 5, "numbers that say little"
        np.testing.assert_array_equal(found[output], expected)
