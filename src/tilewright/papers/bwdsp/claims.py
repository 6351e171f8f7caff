"""Claims of the text on both strategies, checked on VGG-16: pooling, work, idle cores, sevens."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.graph import network
from tilewright.papers.bwdsp.network import BASELINE, BEST, CORES, OPTIMISED, plan
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare

TITLE = "claims of the text"
_SEVENS = ("vgg16", "resnet50")
_POOLED = {"pool1": "conv1_2", "pool2": "conv2_2", "pool3": "conv3_3", "pool4": "conv4_3",
           "pool5": "conv5_3"}  # fmt: skip


def run(lab: Lab) -> Findings:
    """One row per claim and layer, with the number that the claim implies."""
    rows = [*_sevens(), *_local_pools(), *_work(), *_idle()]
    return Findings(
        rows=tuple(rows),
        summary={
            "claims that hold": sum(row.published == row.ours for row in rows),
            "claims that do not": sum(row.published not in (None, row.ours) for row in rows),
        },
        notes=(
            "Table 4's general rows of conv1_2 and conv2_2 are half of what a core has to compute;"
            " the rule that covers the layer (ceil(I_H / N) rows of output each) is counted here",
            "AVG_H = 1 is said to occur for O_H < 2 N = 112: with shares of ceil(O_H / N) rows it"
            " does for O_H <= 56 alone",
            "for conv3_3 the step that needs even rows is called convolution twice where pooling"
            " is meant",
        ),
    )


def _sevens() -> Iterator[Row]:
    """Convolutions whose input heights are multiples of 7."""
    for name in _SEVENS:
        ops = [conv for _, op in network(name, 1).layers() if (conv := op.convolution)]
        whole = sum(op.height % 7 == 0 for op in ops)
        yield compare(f"{name}: convolutions with heights of a multiple of 7", len(ops), whole,
                      "exact")  # fmt: skip


def _local_pools() -> Iterator[Row]:
    """Values moved into pools: none under Eqs. 4 and 5; under Eq. 3 none in two layers."""
    moved = {
        strategy: {
            planned.layer.name: planned.volume.activations for planned in plan(strategy).layers
        }
        for strategy in (BASELINE, OPTIMISED)
    }
    for pool, layer in _POOLED.items():
        local = strategy_claims(layer)
        for strategy, found in moved.items():
            claimed = 0 if strategy in local else None
            yield compare(f"{layer}: moved into its pool, {strategy}", claimed, found[pool],
                          "exact", unit="values")  # fmt: skip


def strategy_claims(layer: str) -> tuple[str, ...]:
    """Strategies under which the text says that the pool after a layer is local."""
    return (BASELINE, OPTIMISED) if layer in ("conv1_2", "conv2_2") else (OPTIMISED,)


def _work() -> Iterator[Row]:
    """Output pixels of the busiest core in layers where they are said to decrease."""
    for layer in ("conv3_3", "conv4_3", "conv5_3"):
        tiles = {s: _busiest(s, layer) for s in (BASELINE, OPTIMISED, BEST)}
        falls = float(tiles[OPTIMISED] < tiles[BASELINE])
        shown = ", ".join(f"{strategy} {pixels}" for strategy, pixels in tiles.items())
        yield compare(f"{layer}: the busiest core has less work", 1, falls, "exact",
                      note=f"pixels of output: {shown}")  # fmt: skip


def _busiest(strategy: str, layer: str) -> int:
    (planned,) = (p for p in plan(strategy).layers if p.layer.name == layer)
    pixels = planned.layer.shape[2] * planned.layer.shape[3]
    return round(planned.work * pixels)


def _idle() -> Iterator[Row]:
    """Cores without work in each convolution."""
    for baseline, optimised, best in zip(
        *(plan(strategy).layers for strategy in (BASELINE, OPTIMISED, BEST)), strict=True
    ):
        name = baseline.layer.name
        if name.startswith("conv"):
            idle = [CORES - len(p.division.parts) for p in (baseline, optimised, best)]
            yield compare(f"{name}: idle cores, {OPTIMISED}", None, idle[1], "exact",
                          note=f"{BASELINE} {idle[0]}, {BEST} {idle[2]}")  # fmt: skip
