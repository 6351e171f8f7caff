"""Generated numbers for the weights of networks that lack them, and for their inputs."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping

import numpy as np

from tilewright.common.dtypes import converted, dtype
from tilewright.graph.graph import Network, Tensor
from tilewright.graph.rewrites.fixed_point import in_reals
from tilewright.ops.op import Array, Arrays

_NARROW_BYTES, _SUMMED = 2, 8
_PART_ELEMENTS = 1 << 17
"""Numbers drawn at once: a megabyte of buffer, which is reused and stays in a cache."""


class InParts(Mapping[str, Array]):
    """Arrays by name, which can also be read in parts, so that no large one need be in memory."""

    @abstractmethod
    def parts(self, name: str) -> Iterator[Array]:
        """The elements of an array in row-major order."""


def in_parts(arrays: Arrays, name: str) -> Iterator[Array]:
    """The elements of an array in row-major order, in one part where `arrays` knows no parts."""
    return arrays.parts(name) if isinstance(arrays, InParts) else iter([arrays[name].reshape(-1)])


class FirstOf(InParts):
    """Arrays by name, each from the first source that has it."""

    def __init__(self, *sources: Arrays) -> None:
        self._sources = sources

    def __getitem__(self, name: str) -> Array:
        return self._source(name)[name]

    def __contains__(self, name: object) -> bool:
        return any(name in source for source in self._sources)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for source in self._sources for name in source))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def parts(self, name: str) -> Iterator[Array]:
        return in_parts(self._source(name), name)

    def _source(self, name: str) -> Arrays:
        return next((source for source in self._sources if name in source), {})


def initial_weights(network: Network, seed: int = 0) -> dict[str, Array]:
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


def random_weights(network: Network, seed: int = 0) -> dict[str, Array]:
    """The numbers of `RandomWeights`, all in memory."""
    return dict(RandomWeights(network, seed))


class RandomWeights(InParts):
    """Random numbers for weights without any, scaled so that activations neither grow nor vanish;
    narrow integers are kept small. Each look-up draws the same numbers again.
    """

    def __init__(self, network: Network, seed: int = 0) -> None:
        norms = [node for node in network.nodes if node.op.normalisation is not None]
        self._factors = {node.inputs[i] for node in norms for i in (1, 4)}
        self._tensors = [t for t in network.weights if t.name not in network.values]
        self._places = {t.name: place for place, t in enumerate(self._tensors)}
        # The generator's state before each weight, of those drawn so far and the next one.
        self._states = [np.random.PCG64(seed).state]

    def __getitem__(self, name: str) -> Array:
        tensor = self._tensors[self._places[name]]
        found, filled = np.empty(math.prod(tensor.shape), dtype(tensor.dtype).numpy), 0
        for part in self.parts(name):
            found[filled : filled + part.size] = part
            filled += part.size
        return found.reshape(tensor.shape)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def parts(self, name: str) -> Iterator[Array]:
        place = self._places[name]
        while len(self._states) <= place:
            for _ in self._drawn(len(self._states) - 1):
                pass
        return self._drawn(place)

    def _drawn(self, place: int) -> Iterator[Array]:
        tensor, bits = self._tensors[place], np.random.PCG64()
        bits.state = self._states[place]
        generator, kind = np.random.Generator(bits), dtype(tensor.dtype)
        left = math.prod(tensor.shape)
        if kind.kind == "integer" and kind.size_bytes <= _NARROW_BYTES:
            most = kind.limits[1] // _SUMMED
            yield generator.integers(-most, most, left, kind.numpy)
            left = 0
        while left > 0:
            count = min(left, _PART_ELEMENTS)
            yield converted(self._reals(generator, tensor, count), kind)
            left -= count
        if len(self._states) == place + 1:
            self._states.append(bits.state)

    def _reals(self, generator: np.random.Generator, tensor: Tensor, count: int) -> Array:
        if tensor.name in self._factors:
            return generator.uniform(0.5, 1.0, count)
        numbers = generator.standard_normal(count)
        numbers /= math.sqrt(math.prod(tensor.shape[1:])) if len(tensor.shape) > 1 else 8
        return numbers


def random_inputs(network: Network, seed: int = 0) -> dict[str, Array]:
    """Normally distributed inputs; integers are 0 or 1, which are valid indices in most tables."""
    generator = np.random.default_rng(seed)
    found = {}
    for t in network.inputs:
        kind = dtype(t.dtype)
        normal = generator.standard_normal(t.shape)
        whole = kind.kind == "integer"
        found[t.name] = (normal > 0).astype(kind.numpy) if whole else converted(normal, kind)
    return found
