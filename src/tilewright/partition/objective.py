"""Objectives of plans, and the values that move in a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.partition.core_model import CoreModel, Cycles


class GridLoads(Protocol):
    """Loads of a layer's grids: values of weights loaded, partial sums exchanged, and the part of
    the layer's operations that the busiest core computes.
    """

    @property
    def weights(self) -> NDArray[np.int64]: ...
    @property
    def sums(self) -> NDArray[np.int64]: ...
    @property
    def work(self) -> NDArray[np.float64]: ...


@dataclass(frozen=True)
class Weights:
    """Weights of an objective: of each value that moves, by its kind, and of each cycle of a plan
    that goes step by step. Cycles count nothing unless a machine is given.
    """

    activations: float = 1.0
    weights: float = 1.0
    sums: float = 1.0
    cycles: float = 0.0
    inputs: float = 0.0

    def alone(
        self, flops: int, loads: GridLoads, inputs: NDArray[np.int64], model: CoreModel | None
    ) -> Cycles:
        """Cost of each grid of a layer: values of weights, partial sums and inputs, and the cycles
        of computing and loading, without those of exchanges.
        """
        values = self.weights * loads.weights + self.sums * loads.sums
        found: Cycles = values + self.inputs * inputs
        if model is None or not self.cycles:
            return found
        computing = loads.work * flops / model.flops_per_cycle
        return found + self.cycles * (
            computing + model.load_cycles(model.outside(loads.weights, inputs))
        )

    def describe(self) -> str:
        """`traffic`, `time`, or both.

        >>> Weights(cycles=40.0, inputs=1.0).describe()
        'traffic and 40 for each cycle'
        >>> Weights(1, 0, 1).describe()
        'activations and sums'
        """
        kinds = ("activations", "weights", "sums", "inputs")
        factors = {kind: getattr(self, kind) for kind in kinds if getattr(self, kind)}
        if not factors:
            return "time"
        if set(factors.values()) != {1.0}:
            values = " + ".join(f"{factor:g} x {kind}" for kind, factor in factors.items())
        else:
            values = "traffic" if len(factors) == len(kinds) else " and ".join(factors)
        return f"{values} and {self.cycles:g} for each cycle" if self.cycles else values


TRAFFIC = Weights(inputs=1.0)
WITHOUT_INPUTS = Weights()
"""Counts as the BWDSP paper's tables do."""
ACTIVATIONS = Weights(weights=0.0)
"""Counts as the BWDSP paper's figures do: values that cores send each other."""
TIME = Weights(0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class Volume:
    """Values that move in a layer, each counted once for each core that gets it, or once in all
    where the fabric multicasts.

    `activations` are what cores take from others of what other layers made, `inputs` what they take
    of the network's own, `weights` what they load of those, `sums` the partial sums exchanged.
    """

    activations: int = 0
    inputs: int = 0
    weights: int = 0
    sums: int = 0

    def __add__(self, other: Volume) -> Volume:
        """Both together."""
        return Volume(
            self.activations + other.activations,
            self.inputs + other.inputs,
            self.weights + other.weights,
            self.sums + other.sums,
        )

    @property
    def total(self) -> int:
        """Values of all kinds."""
        return self.activations + self.inputs + self.weights + self.sums
