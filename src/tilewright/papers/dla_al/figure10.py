"""Fig. 10: DLA-AL against hand-written and hand-optimised loops, over the bandwidth.

The paper gives mean ratios, and single ones for FC and conv3. It states no bandwidth, and its
layers are not run here: one loop of made-up tiles is timed at several bandwidths, and each
published ratio stands beside that of the bandwidth which comes nearest to it, a fitted row.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.papers.dla_al.loops import PAPER_MACHINE, Tiles, cycles, simulated
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result, Row, compare

TITLE = "DLA-AL against hand-written and hand-optimised code, over the bandwidth"
_BANDWIDTHS = (16, 64, 256, 1024, 4096)
_QUICK = 2
_COUNT = 24


@dataclass(frozen=True)
class _Case:
    """A published ratio: of the time of one order to that of DLA-AL's."""

    name: str
    order: str
    published: float


_CASES = (
    _Case("FC against hand-optimised", "halved", 0.99),
    _Case("conv3 against hand-optimised", "halved", 0.74),
    _Case("mean against hand-written, forward", "naive", 1.20),
    _Case("conv3 against hand-written", "naive", 1.25),
)
_TILES = Tiles(_COUNT, inputs=256, outputs=256)
_LOOP = f"one loop of {_COUNT} made-up tiles of {_TILES.outputs} x {_TILES.inputs} weights"


def run(lab: Lab) -> Result:
    """Ratios of the tile loops at each bandwidth; the published one at the nearest."""
    ratios = {
        bandwidth: {order: _ratio(order, bandwidth) for order in ("naive", "halved")}
        for bandwidth in lab.some(list(_BANDWIDTHS), _QUICK)
    }
    rows: list[Row] = []
    for bandwidth, found in ratios.items():
        for order, name in (("naive", "hand-written"), ("halved", "hand-optimised")):
            label = f"{name} over DLA-AL at {bandwidth} bytes per cycle"
            rows.append(compare(label, None, round(found[order], 3), "simulated"))
    for case in _CASES:
        nearest = min(ratios, key=lambda b: abs(ratios[b][case.order] - case.published))
        ours = round(ratios[nearest][case.order], 3)
        note = f"{_LOOP}, not this layer, at {nearest} bytes per cycle, the nearest"
        rows.append(
            compare(
                case.name, case.published, ours, "fitted", note=note,
                explanation="a tile of one product waits for its weights at every bandwidth, one"
                " of a convolution for its products",
            )
        )  # fmt: skip
    rows += [
        compare("GPU over DLA-AL, forward", 2.90, None, "published", note="K40M, Caffe: not ours"),
        compare("GPU over DLA-AL, backward", 3.57, None, "published", note="K40M, Caffe: not ours"),
    ]
    return Result(
        paper="dla_al",
        experiment="figure10",
        title=TITLE,
        rows=tuple(rows),
        summary={},
        notes=(
            f"every ratio is of {_LOOP}; no bandwidth gives every"
            " published ratio at once, as the layers differ in weights for each operation",
        ),
    )


def _ratio(order: str, bandwidth: int) -> float:
    directions = ("get", "put", "get_matrix")
    settings = {f"engines.io.{name}.bytes_per_cycle": float(bandwidth) for name in directions}
    times = {
        which: cycles(simulated(_TILES, which, PAPER_MACHINE, settings))
        for which in (order, "prefetched")
    }
    return times[order] / times["prefetched"]
