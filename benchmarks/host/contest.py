"""Contests: workloads with their inputs and reference, and the interface of a contender.

Every contender has the same inputs and is checked against the same reference before it is timed. A
rival that is not installed is a `Missing` with the command that installs it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright import load
from tilewright.graph import network
from tilewright.ops import Conv2d, Gemm, gemm

Array = NDArray[np.float32]

SQUARES = (200, 256, 500, 512, 1000, 1024, 2000, 2048)
SKINNY = (
    (128, 1024, 1024),
    (3136, 64, 64),
    (49, 2048, 512),
    (32, 4096, 4096),
    (12544, 64, 147),
    (196, 256, 2304),
)
"""Products of layers at batch 1, and of fully connected layers at small batches."""

NETWORKS = ("vgg16", "resnet50", "yolov2")


@dataclass(frozen=True)
class Workload:
    """One operator, with inputs that every process draws from the same seed."""

    name: str
    op: Conv2d | Gemm
    count: int = 1

    @cached_property
    def inputs(self) -> tuple[Array, Array]:
        """Images and weights, or A and B, uniform in [-1, 1)."""
        chance = np.random.default_rng(12345)
        x, w = ((2 * chance.random(shape, np.float32) - 1) for shape in self.op.input_shapes[:2])
        return x, w

    @cached_property
    def expected(self) -> NDArray[np.float64]:
        """The result in double precision."""
        x, w = (a.astype(np.float64) for a in self.inputs)
        if isinstance(self.op, Gemm):
            return x @ w
        return np.asarray(replace(self.op, dtype="f64").reference(x, w))

    def error(self, result: Array) -> float:
        """The largest deviation as a fraction of the largest magnitude."""
        expected = self.expected
        return float(np.max(np.abs(result - expected)) / np.max(np.abs(expected)))


@dataclass(frozen=True)
class Prepared:
    """A contender ready for one workload, with packed weights and allocated buffers.

    `run(n)` computes n times; `result` returns the latest result, in the layout of the operator.
    `kept` keeps the buffers alive.
    """

    run: Callable[[int], object]
    result: Callable[[], Array]
    algorithm: str
    kept: Any = field(default=None, repr=False)

    def __call__(self, calls: int) -> None:
        """Compute `calls` times."""
        self.run(calls)


class Contestant(Protocol):
    """A library, or tilewright."""

    name: str
    version: str

    def prepare(self, workload: Workload) -> list[Prepared]:
        """One entry for each algorithm or layout worth timing; none if it lacks the operator."""


@dataclass(frozen=True)
class Missing:
    """A contender that is not installed, the reason, and the command that installs it."""

    name: str
    why: str
    fix: str


def products(*, quick: bool = False) -> list[Workload]:
    """Square and skinny matrix products, in single precision."""
    shapes = [(n, n, n) for n in SQUARES] + list(SKINNY)
    chosen = shapes[:3] + shapes[8:10] if quick else shapes
    return [Workload("x".join(map(str, s)), gemm(*s, dtype="f32")) for s in chosen]


def layers(name: str, batch: int, *, quick: bool = False) -> list[Workload]:
    """The distinct convolutions of a network of the zoo or of a file, with their number of
    occurrences; names of depthwise ones say so.
    """
    seen: dict[Conv2d, list[str]] = {}
    own = load(name) if name.endswith(".onnx") else network(name, batch, dtype="f32")
    for layer, op in own.layers():
        if isinstance(op, Conv2d):
            by_depth = op.groups == op.in_channels > 1 and "depthwise" not in layer
            seen.setdefault(op, []).append(f"{layer} depthwise" if by_depth else layer)
    found = [Workload(f"{own.name} {names[0]}", op, len(names)) for op, names in seen.items()]
    return found[1:4] if quick else found
