"""swATOP Figure 6: Winograd convolution against transforms around calls of a matrix library.

The layers are those with 3 x 3 kernels and no stride. The manual version is F(2x2, 3x3), whose 16
products are separate calls of the library; the tuned one may take F(4x4, 3x3), and where channels
are few it keeps transformed tiles in the scratchpad.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from math import prod

from msgspec import structs

from tilewright.common.expr import evaluate
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine
from tilewright.ops import Conv2d
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare, sampled
from tilewright.papers.swatop.layers import QUICK, layers, speedup_figure, speedup_result
from tilewright.papers.swatop.listings import BATCHES
from tilewright.papers.swatop.manual import manual_schedules
from tilewright.papers.swatop.schedules import MACHINE, TuningTask, our_product, setting
from tilewright.partition import split
from tilewright.seeds.nest import Nest
from tilewright.seeds.space import parameters, seeds_for

TITLE = "Winograd convolution against library products, layers of three networks"
ALGORITHM = "winograd2"
_FOUR_NESTS = ("winograd2", "winograd4")
_DOUBLE_BYTES = 8
draw = speedup_figure


def run(lab: Lab) -> Findings:
    """Every layer that Winograd computes, at each batch."""
    cases = {batch: winograd_layers(batch) for batch in BATCHES}
    result = speedup_result(
        lab,
        "figure6",
        ALGORITHM,
        cases,
        alike_is="F(2x2, 3x3) in both",
        notes=(f"both versions with {our_product(setting(lab, MACHINE))}", *_NOTES),
    )
    bounds = (row for batch, ops in cases.items() for row in _bound(lab, batch, ops))
    return structs.replace(result, rows=(*result.rows, *bounds))


_NOTES = (
    "the manual version is better than one made by hand: its transforms are the tuned ones in their"
    " best layout and division, and its library reaches what the tuner reaches on large squares. In"
    " Table 2 the tuner gains 1.14 on aligned products here and 1.32 over xMath in the paper",
    "where transformed tiles go through main memory, both versions wait for it for most of the"
    " time, in transforms that are alike; the bound is that of four nests, fused layers exceed it",
)


def winograd_layers(batch: int) -> dict[str, Conv2d]:
    """Layers with 3 x 3 kernels, no stride."""
    found = layers(batch, first=False)
    return {k: op for k, op in found.items() if op.kernel == (3, 3) and op.stride == (1, 1)}


def _bound(lab: Lab, batch: int, ops: dict[str, Conv2d]) -> Iterator[Row]:
    """The mean speedup that no schedule of the same four nests exceeds, one after the other."""
    on = setting(lab, MACHINE)
    some = [op for _, op in lab.some(list(ops.items()), QUICK)]
    manual = lab.map_together(manual_schedules, [TuningTask(op, ALGORITHM, on) for op in some])
    machine = on.load()
    pairs = zip(some, manual, strict=True)
    found = [m.cycles / winograd_bound_cycles(op, machine) for op, m in pairs if not m.refusal]
    if found:
        name = f"batch {batch}: mean speedup, its bound"
        note = "; ".join(filter(None, (_BOUND, sampled(len(some), len(ops)))))
        yield compare(name, None, statistics.fmean(found), "model", note=note)


_BOUND = "each nest moves its tensors once at peak bandwidth, or multiplies at the cores' peak"


def winograd_bound_cycles(op: Conv2d, machine: Machine) -> float:
    """Cycles of one group that no program of Winograd's four nests undercuts, in the best division
    over the groups and with the best size of tiles.
    """
    return min(
        sum(_least(space.nest, parameters(part.piece), machine) for space in seed.spaces)
        for name in _FOUR_NESTS
        for part in split(op, machine.groups.count)
        for seed in seeds_for(part.piece, name)
    )


def _least(nest: Nest, values: Mapping[str, int], machine: Machine) -> float:
    """The longer of a nest's transfers, every tensor once and whole, and its multiply-adds."""
    seconds = 0.0
    for use in nest.uses:
        engine = machine.dma.put if use is nest.output else machine.dma.get
        elements = prod(int(evaluate(extent, values)) for _, extent in use.tensor.dims)
        seconds += _DOUBLE_BYTES * elements / engine.peak_bytes_per_second
    flops = 2 * prod(int(evaluate(a.extent, values)) for a in nest.axes)
    peak = machine.cores * machine.core.flops_per_cycle
    least = flops / peak if isinstance(nest.primitive, MatrixProduct) else 0.0
    return max(seconds * machine.clock_hz, least)
