"""A training step of a network of integers: matrix products, each followed by a table.

In: such a network, a rate and numbers of fraction bits. Out: the network of one step, with
its weights as states. The table is a sigmoid function and the loss its cross-entropy, so the error
of the outputs is what is wanted less what is there (ICSI TR-93-046, chapter 6, steps 5 to 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from tilewright.common.errors import GraphError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.notation import define
from tilewright.graph.graph import Network, Node, State
from tilewright.ops import gemm
from tilewright.ops.lookup import is_table
from tilewright.ops.op import Op

LARGEST = (1 << 14) - 1
"""Largest signed 15-bit integer; shifted numbers are clipped to its range, like table indices."""


@dataclass(frozen=True)
class Scaling:
    """Fraction bits. A product with more of them is shifted, rounded, and clipped to 15 bits.
    Activations and errors have at most two bytes, so sums are exact.
    """

    weight_bits: int
    activation_bits: int
    error_bits: int

    @property
    def update_shift(self) -> int:
        """The right shift of an error times an activation before it is added to a weight."""
        return self.error_bits + self.activation_bits - self.weight_bits


SCALING = Scaling(weight_bits=12, activation_bits=7, error_bits=11)
RATE = 3


def rounded_expression(value: str, shift: int) -> str:
    """The expression for a value over 2 ** `shift`, rounded and clipped to 15 bits."""
    return f"clip({value} + {1 << shift >> 1} >> {shift}, {-LARGEST - 1}, {LARGEST})"


def looks_up(network: Network) -> bool:
    """True for a network with tables."""
    return any(is_table(node.op) for node in network.nodes)


def table_step(network: Network, scaling: Scaling | None = SCALING) -> Network:
    """One training step. Inputs are the network's own, then `labels`, the desired outputs; outputs
    are `RATE` times the errors, then the weights' next values. Without `scaling`, weights and
    errors wrap, and the 1 in the sigmoid's derivative is an integer, as in the report.

    Raises GraphError for a network that is no chain of products with a table after each.
    """
    chain = _chain(network)
    builder = NetworkBuilder(f"{network.name}_step", "i8")
    for tensor in network.inputs:
        builder.input(tensor.name, tensor.shape, tensor.dtype)
    (output,), held = network.outputs, [product.inputs[1] for product, _ in chain]
    labels = builder.input("labels", network.tensors[output].shape, "i8")
    for tensor in network.weights:
        add = builder.input if tensor.name in held else builder.weight
        add(tensor.name, tensor.shape, tensor.dtype)
    for node in network.nodes:
        builder.apply(node.op, *node.inputs, name=node.name, output=node.output)
    step = _Step(builder, scaling)
    error = errors = step.mapped(
        f"{-RATE} * (x[i,j] - y[i,j])", (output, labels), "i8:i32:i16:even:wrap", "errors"
    )
    states = []
    for product, _ in reversed(chain):
        activations, weights = product.inputs
        before = error
        if product is not chain[0][0]:
            error = step.backwards(product, error)
        states.append(State(weights, step.updated(product.name, activations, before, weights)))
    outputs = (errors, *(state.next for state in reversed(states)))
    made = builder.build(outputs, network.values)
    return Network(made.name, made.inputs, made.weights, made.nodes, outputs, made.values,
                   states=tuple(reversed(states)))  # fmt: skip


def _chain(network: Network) -> list[tuple[Node, Node]]:
    """The products, each paired with its table; raises GraphError for any other network."""
    found = list(zip(network.nodes[::2], network.nodes[1::2], strict=False))
    before = network.inputs[0].name if network.inputs else ""
    for product, table in found:
        op = product.op.matrix_product
        plain = op is not None and not (op.transpose_a or op.transpose_b or op.beta)
        chained = product.inputs[0] == before and table.inputs[0] == product.output
        if not plain or not is_table(table.op) or not chained:
            raise GraphError(
                f"{network.name}: {product.op.describe()}, then {table.op.describe()}: a step of "
                "integers is that of a chain of matrix products with a table behind each",
                fix="take such a network, or one of floats",
            )
        before = table.output
    if len(network.nodes) % 2 or network.outputs != (before,):
        raise GraphError(f"{network.name} does not end in its only output, a table's")
    return found


@dataclass(frozen=True)
class _Step:
    """Appends backward nodes to those of the network."""

    builder: NetworkBuilder
    scaling: Scaling | None

    def mapped(self, expression: str, reads: Sequence[str], types: str, name: str) -> str:
        """Append a map of matrices `x` and `y`; returns its result."""
        shape = self.builder.shape(reads[0])
        sizes = dict(zip("ij", shape, strict=True))
        op = cast("Op", define(f"r[i,j] = {expression}", dtype=types, **cast("Any", sizes)))
        return self.builder.apply(op, *reads, name=name, output=name)

    def backwards(self, product: Node, error: str) -> str:
        """Append the error of a product's activations, which are results of a sigmoid."""
        m, n = self.builder.shape(error)
        activations, weights = product.inputs
        k, name = self.builder.shape(weights)[0], f"{product.name}_back"
        op = gemm(m, k, n, transpose_b=True, dtype="i16:i32")
        sums = self.builder.apply(op, error, weights, name=name)
        if self.scaling is None:
            derivative, types = "x[i,j] * y[i,j] * (y[i,j] - 1)", "i32,i8:i32:i16:even:wrap"
        else:
            own = self.scaling
            scaled = rounded_expression("x[i,j]", own.weight_bits)
            sums = self.mapped(scaled, (sums,), "i32:i32:i16:even:wrap", f"{name}_scaled")
            slope = f"x[i,j] * y[i,j] * ({1 << own.activation_bits} - y[i,j])"
            derivative, types = (
                rounded_expression(slope, 2 * own.activation_bits),
                "i16,i8:i32:i16:even:wrap",
            )
        return self.mapped(derivative, (sums, activations), types, f"{name}_errors")

    def updated(self, name: str, activations: str, error: str, weights: str) -> str:
        """Append the new weights: the old, plus activations times errors, summed over patterns."""
        m, n = self.builder.shape(error)
        k = self.builder.shape(weights)[0]
        op = gemm(k, n, m, transpose_a=True, dtype="i8,i16:i32")
        change = self.builder.apply(op, activations, error, name=f"{name}_change")
        shifted = (
            rounded_expression("x[i,j]", self.scaling.update_shift) if self.scaling else "x[i,j]"
        )
        types = "i32,i16:i32:i16:even:wrap"
        return self.mapped(f"{shifted} + y[i,j]", (change, weights), types, f"{name}_next")
