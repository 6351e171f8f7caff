"""A training step of integers is the back-propagation of errors, in integers of NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.common.errors import GraphError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.graph.tables import SCALING, Scaling, table_step
from tilewright.ops import gemm
from tilewright.ops.lookup import Lookup

Integers = npt.NDArray[np.int64]
SIZES = (6, 5, 3)
RATE = 3


def perceptron(patterns: int, *sizes: int) -> Network:
    net = NetworkBuilder("perceptron", "i8")
    x, table = net.input("x", (patterns, sizes[0])), net.weight("table", (1 << 15,))
    for i, (k, n) in enumerate(pairwise(sizes)):
        weight = net.weight(f"w{i}", (k, n), "i16")
        x = net.apply(gemm(patterns, n, k, dtype="i8,i16:i32"), x, weight, name=f"product{i}")
        x = net.apply(Lookup((patterns, n), shift=8), x, table, name=f"sigmoid{i}")
    return net.build((x,))


def given(patterns: int) -> dict[str, Integers]:
    draw = np.random.default_rng(1).integers
    found = {f"w{i}": draw(-9000, 9000, own) for i, own in enumerate(pairwise(SIZES))}
    found["x"], found["labels"] = draw(0, 128, (patterns, 6)), draw(0, 128, (patterns, 3))
    found["table"] = np.round(127 / (1 + np.exp(-np.arange(-16384, 16384) / 3000)))
    return found


def shifted(values: Integers, shift: int) -> Integers:
    return np.clip((values + (1 << shift >> 1)) >> shift, -(1 << 14), (1 << 14) - 1)


def wrapped(values: Integers) -> Integers:
    return values.astype(np.int16).astype(np.int64)


@pytest.mark.parametrize("scaling", [SCALING, Scaling(10, 7, 9), None])
@pytest.mark.parametrize("patterns", [1, 4])
def test_errors_go_back_through_the_weights_before_they_change(patterns, scaling) -> None:
    numbers = given(patterns)
    typed = {
        name: values.astype(np.int16 if name.startswith("w") else np.int8)
        for name, values in numbers.items()
    }
    inner = {name: typed[name] for name in ("x", "table", "w0")}
    (hidden,) = perceptron(patterns, 6, 5).evaluate(inner).values()
    whole = {name: own for name, own in typed.items() if name != "labels"}
    (output,) = perceptron(patterns, *SIZES).evaluate(whole).values()
    hidden, output = hidden.astype(np.int64), output.astype(np.int64)
    errors = RATE * (numbers["labels"] - output)
    back = errors @ numbers["w1"].T
    if scaling is None:
        inner_errors = wrapped(back * hidden * (hidden - 1))
        changes = hidden.T @ errors, numbers["x"].T @ inner_errors
    else:
        slopes = shifted(back, scaling.weight_bits) * hidden * (128 - hidden)
        inner_errors = shifted(slopes, 2 * scaling.activation_bits)
        by = scaling.error_bits + scaling.activation_bits - scaling.weight_bits
        changes = shifted(hidden.T @ errors, by), shifted(numbers["x"].T @ inner_errors, by)
    step = table_step(perceptron(patterns, *SIZES), scaling)
    found = step.evaluate(typed)
    expected = errors, *(wrapped(numbers[f"w{i}"] + changes[1 - i]) for i in (0, 1))
    for values, wanted in zip(found.values(), expected, strict=True):
        np.testing.assert_array_equal(values, wanted)
    assert [state.tensor for state in step.states] == ["w0", "w1"]


def test_a_chain_of_products_with_a_table_behind_each_is_trained() -> None:
    net = NetworkBuilder("turned", "i8")
    x, table = net.input("x", (2, 6)), net.weight("table", (1 << 15,))
    weight = net.weight("w", (5, 6), "i16")
    op = gemm(2, 5, 6, transpose_b=True, dtype="i8,i16:i32")
    x = net.apply(
        Lookup((2, 5), shift=8), net.apply(op, x, weight, name="product"), table, name="y"
    )
    with pytest.raises(GraphError, match="is that of a chain of matrix products with a table "):
        table_step(net.build((x,)))
