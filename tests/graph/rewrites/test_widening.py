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


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("r[n] = a[n] + b[n]", "i16,i32:i32:i16:even:wrap"),
        ("r[n] = a[n] + b[n]", "i32,i16:i32:i16:even:wrap"),
        ("r[n] = a[n]", "i32:i32:i16:even:wrap"),
        ("r[n] = a[n]", "i16:i32:i8:even:wrap"),
        ("r[n] = a[n]", "i16"),
        ("r[n] = a[8 - n]", "u8:i32"),
    ],
)
def test_operands_of_several_types_keep_their_values_in_words(text, kinds):
    """Whichever operand is narrow, the result is what wraps into the narrow type."""
    op = operator_of(text, dtype=kinds, n=9)
    net = NetworkBuilder("mixed", "i32")
    inputs = [
        net.input(name, (9,), kind) for name, kind in zip("ab", op.operand_dtypes, strict=False)
    ]
    net.apply(op, *inputs, name="r")
    network = net.build(("r",))
    wide = widened(network)
    values = np.array([-(2**31), -70000, -32768, -1, 0, 5, 32767, 70000, 2**31 - 1])
    feeds = {t.name: values.astype(dtype(t.dtype).numpy) for t in network.inputs}
    wider = {name: own.astype(np.int32) for name, own in feeds.items()}
    assert {tensor.dtype for tensor in wide.tensors.values()} == {"i32"}
    assert wide.evaluate(wider)["r"].tolist() == network.evaluate(feeds)["r"].tolist()
