"""A small CNS-1 of 2 x 8 nodes, a network for it, and what that computes by the reference."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.machine import Machine, load_machine
from tilewright.targets.cns1.kernels import reference
from tilewright.targets.cns1.nodes.network import Weights
from tilewright.targets.cns1.timing.layers import Layers

Array = NDArray[Any]
TABLE = np.round(127 / (1 + np.exp(-np.arange(-16384, 16384) / 3000))).astype(np.int8)
SHIFT, RATE = 8, 3


def small_machine(**changed: float) -> Machine:
    """2 rings of 8 nodes; 4 of a ring share a hidden vector."""
    sizes = {"mesh.rows": 2, "mesh.columns": 8, "messages.hidden_sharers": 4}
    fabric = {"fabrics.torrents.rows": 2, "fabrics.torrents.columns": 8}
    return load_machine("cns1-128", {**sizes, **fabric, **changed})


@dataclass(frozen=True)
class Drawn:
    """Weights and patterns."""

    weights: Weights
    inputs: Array
    wanted: Array


def drawn(layers: Layers, patterns: int, seed: int) -> Drawn:
    """Random numbers whose sums use the whole table."""
    random = np.random.default_rng(seed)

    def integers(high: int, *shape: int) -> Array:
        return random.integers(-high, high, shape)

    weights = Weights(
        integers(2000, layers.inputs, layers.hidden).astype("<i2"),
        integers(2000, layers.hidden, layers.outputs).astype("<i2"),
    )
    inputs, wanted = integers(100, patterns, layers.inputs), integers(100, layers.outputs)
    return Drawn(weights, inputs.astype("i1"), wanted.astype("i1"))


def recalled(given: Drawn) -> Array:
    """Outputs of all patterns."""
    hidden = reference.forward(given.weights.hidden, given.inputs, TABLE, SHIFT)
    return reference.forward(given.weights.outputs, hidden, TABLE, SHIFT)


def trained(given: Drawn) -> Weights:
    """Weights after the first pattern."""
    weights, (pattern, *_) = given.weights, given.inputs
    (hidden,) = reference.forward(weights.hidden, given.inputs[:1], TABLE, SHIFT)
    (outputs,) = reference.forward(weights.outputs, hidden[np.newaxis], TABLE, SHIFT)
    error = reference.errors(given.wanted, outputs, RATE)
    hidden_error = reference.backward(weights.outputs, error, hidden)
    return Weights(
        reference.update(weights.hidden, hidden_error, pattern),
        reference.update(weights.outputs, error, hidden),
    )
