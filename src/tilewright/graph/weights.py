"""Generated numbers for the weights of networks that lack them, and for their inputs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.common.dtypes import converted, dtype
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.fixed_point import in_reals

_NARROW_BYTES, _SUMMED = 2, 8


def initial_weights(network: Network, seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    """Initial weights for training: the network's own, else biases of zero, and weights that keep
    the scale of activations through rectifiers (He et al. 2015).
    """
    if any(dtype(t.dtype).kind == "fixed" for t in network.weights):
        real = initial_weights(in_reals(network), seed)
        return {t.name: converted(real[t.name], dtype(t.dtype)) for t in network.weights}
    found = random_weights(network, seed)
    norms = [node for node in network.nodes if node.op.normalisation is not None]
    ones = {node.inputs[i] for node in norms for i in (1, 4)}
    for name, numbers in found.items():
        if numbers.ndim > 1:
            numbers *= math.sqrt(2)
        else:
            numbers[...] = name in ones
    return {t.name: found[t.name] if t.name in found else network.values[t.name]
            for t in network.weights}  # fmt: skip


def random_weights(network: Network, seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    """Random numbers for weights without any, scaled so that activations neither grow nor vanish;
    narrow integers are kept small.
    """
    generator = np.random.default_rng(seed)
    norms = [node for node in network.nodes if node.op.normalisation is not None]
    scales = {node.inputs[1] for node in norms}
    variances = {node.inputs[4] for node in norms}
    found: dict[str, npt.NDArray[Any]] = {}
    for tensor in network.weights:
        if tensor.name in network.values:
            continue
        kind = dtype(tensor.dtype)
        if kind.kind == "integer" and kind.size_bytes <= _NARROW_BYTES:
            most = kind.limits[1] // _SUMMED
            found[tensor.name] = generator.integers(-most, most, tensor.shape, kind.numpy)
            continue
        if tensor.name in scales | variances:
            numbers = generator.uniform(0.5, 1.0, tensor.shape)
        elif len(tensor.shape) > 1:
            terms = math.prod(tensor.shape[1:])
            numbers = generator.standard_normal(tensor.shape)
            numbers /= math.sqrt(terms)  # in place: a layer's weights may take a gigabyte
        else:
            numbers = generator.standard_normal(tensor.shape) / 8
        found[tensor.name] = converted(numbers, dtype(tensor.dtype))
    return found


def random_inputs(network: Network, seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    """Normally distributed inputs; integers are 0 or 1, which are valid indices in most tables."""
    generator = np.random.default_rng(seed)
    found = {}
    for t in network.inputs:
        kind = dtype(t.dtype)
        normal = generator.standard_normal(t.shape)
        whole = kind.kind == "integer"
        found[t.name] = (normal > 0).astype(kind.numpy) if whole else converted(normal, kind)
    return found
