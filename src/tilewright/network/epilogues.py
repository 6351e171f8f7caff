"""Elementwise operators inside the product that they follow: on its tiles, before they are put.

In: a group that begins with a product, its plain candidate, the form that is wanted of the result.
Out: a candidate that computes all of it, or None where the plain one and a stage of its own behind
it are faster, or the result is wanted in another form, so that a copy has to be made anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilewright.common.dtypes import dtype
from tilewright.machine import Machine
from tilewright.network.expressed import Expressed
from tilewright.network.form import Form
from tilewright.network.forms import Forms
from tilewright.network.products import one_group
from tilewright.ops import Conv2d, Gemm, Op
from tilewright.seeds.epilogues import Dims, with_epilogue
from tilewright.tune.candidate import Candidate
from tilewright.tune.search import rank

_PATIENCE = 0.9
"""A fused product may take this part of the time of the pass that it saves."""


@dataclass(frozen=True)
class Fused:
    """A product with its epilogue; `whole` says which operands are stored as the result."""

    candidate: Candidate
    form: Form
    whole: tuple[bool, ...]


def fused(
    plain: Candidate,
    found: Expressed,
    shapes: dict[str, tuple[int, ...]],
    wanted: Form | None,
    machine: Machine,
    forms: Forms,
) -> Fused | None:
    """The best candidate of the same algorithm with the epilogue, if that pays."""
    op, out = plain.op, plain.op.out_shape
    operands: list[Dims] = []
    whole: list[bool] = []
    for read in found.reads[1:]:
        along = _dims(op, read.axes)
        if along is None or shapes[read.tensors[0]] != tuple(out[axis] for axis in read.axes):
            return None
        operands.append(along)
        whole.append(len(read.axes) == len(out))
    seed = with_epilogue(plain.seed, str(found.scalar), tuple(operands))
    if seed is None:
        return None
    (ranking,) = rank([(op, seed)], one_group(machine), keep=2)
    limit = plain.cycles + _PATIENCE * _pass_cycles(op, sum(whole), machine)
    for candidate in ranking.best:
        form = forms.of(candidate, constants=False)[seed.result]
        if candidate.cycles <= limit and wanted in (None, form):
            return Fused(candidate, form, tuple(whole))
    return None


def _dims(op: Op, axes: tuple[int, ...]) -> Dims | None:
    """The dimensions of a product's result, as its seeds name them, that lie along axes."""
    match op:
        case Conv2d():
            named: tuple[Dims, ...] = (("batch",), ("group", "channels"), ("rows",), ("cols",))
        case Gemm():
            named = (("rows",), ("cols",))
        case _:
            return None
    return tuple(dim for axis in axes for dim in named[axis])


def _pass_cycles(op: Op, operands: int, machine: Machine) -> float:
    """Cycles that moving the result there and back takes at the engine's best, latencies too."""
    size = prod(op.out_shape) * dtype(op.out_dtype).size_bytes
    engine = machine.dma
    get = (1 + operands) * size / engine.get.peak_bytes_per_second
    moving = (get + size / engine.put.peak_bytes_per_second) * machine.clock_hz
    return moving + 2 * engine.latency_cycles
