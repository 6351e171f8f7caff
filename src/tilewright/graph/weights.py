"""Numbers for the weights of networks that come without them, and for their inputs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.common.dtypes import dtype
from tilewright.graph.graph import Network
from tilewright.ops import BatchNorm


def random_weights(network: Network, seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    """Numbers for the weights that have none, such that activations neither grow nor vanish."""
    generator = np.random.default_rng(seed)
    norms = [node for node in network.nodes if isinstance(node.op, BatchNorm)]
    scales = {node.inputs[1] for node in norms}
    variances = {node.inputs[4] for node in norms}
    found: dict[str, npt.NDArray[Any]] = {}
    for tensor in network.weights:
        if tensor.name in network.values:
            continue
        if tensor.name in scales | variances:
            numbers = generator.uniform(0.5, 1.0, tensor.shape)
        elif len(tensor.shape) > 1:
            terms = math.prod(tensor.shape[1:])
            numbers = generator.standard_normal(tensor.shape) / math.sqrt(terms)
        else:
            numbers = generator.standard_normal(tensor.shape) / 8
        found[tensor.name] = numbers.astype(dtype(tensor.dtype).numpy)
    return found


def random_inputs(network: Network, seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    """Numbers for the inputs, from a normal distribution."""
    generator = np.random.default_rng(seed)
    return {
        t.name: generator.standard_normal(t.shape).astype(dtype(t.dtype).numpy)
        for t in network.inputs
    }
