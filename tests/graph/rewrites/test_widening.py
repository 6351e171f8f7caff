"""Narrow integers held in words: the same values, and no tensor that is narrower."""

import numpy as np
import pytest

from tilewright.common.dtypes import dtype
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.rewrites.widening import widened
from tilewright.ops.notation import operator_of


@pytest.mark.parametrize("narrow", ["i8", "u8", "i16", "u16"])
def test_a_network_has_the_same_values_in_words(narrow):
    """What a definition computes wraps as it does in the narrow type, beside wider tensors."""
    net = NetworkBuilder("sums", narrow)
    for name, kind in (("x", narrow), ("v", "i32")):
        op = operator_of(f"two_{name}[n] = {name}[n] + {name}[n]", dtype=kind, n=9)
        net.apply(op, net.input(name, (9,), kind), name=f"two_{name}")
    network = net.build(("two_x", "two_v"))
    wide = widened(network)
    assert all(dtype(tensor.dtype).size_bytes >= 4 for tensor in wide.tensors.values())
    low, high = dtype(narrow).limits
    values = np.linspace(low, high, 9).astype(np.int64)

    def results(own):
        feeds = {t.name: values.astype(dtype(t.dtype).numpy) for t in own.inputs}
        return [own.evaluate(feeds)[name].tolist() for name in own.outputs]

    assert results(wide) == results(network)
