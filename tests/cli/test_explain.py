"""One layer of a network is explained as it is computed there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tilewright.cli.explain import _one_layer
from tilewright.cli.options import SearchOptions
from tilewright.cli.output import UsageProblem
from tilewright.common.errors import GraphError
from tilewright.compiler.settings import Workload
from tilewright.graph.builder import NetworkBuilder
from tilewright.ops import gemm


def products() -> Workload:
    """A product with weights, and one of two results."""
    net = NetworkBuilder("products", "f32")
    x, w = net.input("x", (4, 4)), net.weight("w", (4, 4))
    y = net.apply(gemm(4, 4, 4, dtype="f32"), x, w, name="first")
    return Workload.of(net.build((net.apply(gemm(4, 4, 4, dtype="f32"), y, x, name="second"),)))


@pytest.mark.parametrize(
    ("layer", "here", "given", "algorithm"),
    [
        ("first", True, None, "prepacked"),
        ("first", False, None, None),
        ("first", True, "gemm", "gemm"),
        ("second", True, None, None),
    ],
)
def test_a_product_with_weights_takes_them_packed_on_this_computer(layer, here, given, algorithm):
    chain, search = SimpleNamespace(executes_here=here), SearchOptions(algorithm=given)
    workload, found = _one_layer(products(), layer, chain, search)
    assert ([name for name, _ in workload.layers], found.algorithm) == ([layer], algorithm)


def test_a_layer_is_one_of_a_network():
    chain, search = SimpleNamespace(executes_here=True), SearchOptions()
    with pytest.raises(GraphError, match="third"):
        _one_layer(products(), "third", chain, search)
    alone = Workload("gemm", (("gemm", gemm(4, 4, 4)),))
    with pytest.raises(UsageProblem, match=r"^gemm is one operator: leave --layer$"):
        _one_layer(alone, "first", chain, search)
