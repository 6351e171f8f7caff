"""A network divided over many cores as a table, and the regions of a layer as a picture.

layer    strategy  grid      tile         cores  moved   ms (model)  peak ms  program ms
conv1_2  products  1x1x8x7   1x64x28x32   56     383488  2.758       2.202    2.292
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from tilewright.partition.divided import DividedLayer, DividedNetwork, DividedResult, LayerPlan
from tilewright.report.table import plain_table

_PIXEL = 480
"""Width of one picture."""
_COLORS = ("#dbe9f6", "#fde6cf", "#dcefd8", "#ead9ef", "#f6dcdc", "#e6e6e6", "#fbf3c4")


def division_table(found: DividedResult) -> Table:
    """One line per layer."""
    table = plain_table(f"{found.network} on {found.machine}, {found.dtype}, {found.cores} cores")
    for column in ("layer", "strategy", "grid"):
        table.add_column(column, overflow="fold", min_width=8)
    figures = ("tile", "reads", "cores", "imbalance", "moved", "weights", "sums", "ms (model)",
               "peak ms", "program ms", "streamed ms")  # fmt: skip
    for column in figures:
        table.add_column(column, justify="right", min_width=5)
    for layer in found.layers:
        table.add_row(
            layer.name,
            layer.strategy,
            layer.grid,
            _shape(layer.tile),
            _shape(layer.reads),
            str(layer.busy_cores),
            f"{layer.imbalance:.2f}",
            str(layer.activations + layer.inputs),
            str(layer.weights),
            str(layer.sums),
            f"{_milliseconds(layer):.3f}",
            f"{layer.compute_ms:.3f}",
            f"{layer.program_ms:.3f}",
            f"{layer.streamed_ms:.3f}",
        )
    return table


def division_totals(found: DividedResult) -> Iterator[str]:
    """The lines below the table."""
    moved = {
        kind: sum(getattr(layer, kind) for layer in found.layers)
        for kind in ("activations", "inputs", "weights", "sums")
    }
    yield "values, each counted for every core that gets it: " + ", ".join(
        f"{value} {kind}" for kind, value in moved.items()
    )
    moves_fewer, is_fewest = "moves fewer", "fewest"
    counted = f"{found.moved_values} without inputs"
    if found.bound_values is None:
        moves_fewer, is_fewest = "costs less", "least"
        counted += f"; least {found.objective}: {found.cost:.0f}"
    proven = (
        f"no plan of these grids {moves_fewer}"
        if found.proven
        else (f"not proven to be the {is_fewest}")
    )
    yield f"{counted}; {proven}; every layer by itself at its best: {found.bound:.0f}"
    yield (
        f"{found.steps_ms:.3f} ms step by step by the busiest links, {found.clocked_ms:.3f} ms "
        f"with every message on its links, {found.overlapped_ms:.3f} ms overlapped (model; compute "
        "at the peak, weights from main memory)"
    )
    yield (
        f"{found.program_ms:.3f} ms step by step, {found.program_overlapped_ms:.3f} ms overlapped "
        "with the cores' programs in place of the peak (simulated)"
    )


def layer_picture(divided: DividedNetwork, plan: LayerPlan) -> str:
    """An SVG of one layer's last two dimensions: what each core keeps, and as lines the moves into
    it between the middles of regions.
    """
    shape = divided.network.tensors[plan.result].shape
    height, width = shape[-2:]
    scale = _PIXEL / max(height, width)
    middles, body = {}, []
    for share in plan.shares:
        (top, bottom), (left, right) = share.keeps[-2:]
        if bottom <= top or right <= left:
            continue
        x, y, w, h = (round(scale * n, 1) for n in (left, top, right - left, bottom - top))
        middles[share.core] = (x + w / 2, y + h / 2)
        color = _COLORS[share.core % len(_COLORS)]
        body.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="{color}" stroke="#555"/>'
            f'<text x="{x + w / 2:.1f}" y="{y + h / 2:.1f}">{share.core}</text>'
        )
    pairs = {(m.source, t) for m in plan.moves for t in m.targets}
    for source, target in sorted(pairs):
        if source in middles and target in middles:
            (x1, y1), (x2, y2) = middles[source], middles[target]
            body.append(
                f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                'stroke="#b33" stroke-width="0.6"/>'
            )
    size = f"{scale * width:.0f} {scale * height:.0f}"
    style = "text{font:9px sans-serif;text-anchor:middle;dominant-baseline:middle}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-2 -2 {size}">'
        f"<style>{style}</style>{''.join(body)}</svg>\n"
    )


def _milliseconds(layer: DividedLayer) -> float:
    return layer.compute_ms + layer.exchange_ms + layer.weights_ms


def _shape(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))
