"""Named operators on integers are taken apart, look-ups become products."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.common.errors import GraphError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.notation import network_of
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.definitions import by_definitions
from tilewright.graph.rewrites.look_ups import with_look_ups
from tilewright.graph.rewriting import simplified
from tilewright.ops import gemm
from tilewright.ops.notation import operator_of


def product(dtype: str, of: str) -> Network:
    net = NetworkBuilder("product", of)
    x, w = net.input("x", (4, 6)), net.weight("w", (6, 5))
    return net.build((net.apply(gemm(4, 5, 6, dtype=dtype), x, w, name="y"),))


def test_a_product_of_integers_is_one_of_floats_between_conversions() -> None:
    network = product("i8:i32", "i8")
    found = by_definitions(network)
    kinds = [node.op.kind for node in found.nodes]
    assert kinds == ["map", "map", "gemm", "map", "map"]
    assert found.nodes[2].op.numerics.is_float
    draw = np.random.default_rng(0).integers
    given = {"x": draw(-128, 128, (4, 6)), "w": draw(-128, 128, (6, 5))}
    given = {name: values.astype(np.int8) for name, values in given.items()}
    np.testing.assert_array_equal(found.evaluate(given)["y"], network.evaluate(given)["y"])


def test_a_product_of_floats_stays_whole() -> None:
    network = product("f32", "f32")
    assert by_definitions(network).nodes == network.nodes


@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "f32", "f64"])
def test_a_look_up_is_a_product_with_rows_of_ones(kind: str) -> None:
    op = operator_of(
        "y[b,d] = table[idx[b], d]", b=6, d=8, table=(7, 8), dtype=f"i32,{kind}:{kind}"
    )
    network = simplified(network_of(op))
    found = with_look_ups(network)
    assert len(found.nodes) > len(network.nodes)
    table = np.arange(56).reshape(7, 8).astype(op.numerics.result.numpy)
    given = {"table": table, "idx": np.array([6, 0, 3, 3, 1, 5], np.int32)}
    (values,) = found.evaluate({**given, **found.values}).values()
    np.testing.assert_array_equal(values, table[given["idx"]])


def test_doubles_lack_some_integers_of_64_bits() -> None:
    op = operator_of("y[b,d] = table[idx[b], d]", b=6, d=8, table=(7, 8), dtype="i32,i64:i64")
    with pytest.raises(
        GraphError, match="a look-up of i64 is computed in doubles, which lack some"
    ):
        with_look_ups(simplified(network_of(op)))
