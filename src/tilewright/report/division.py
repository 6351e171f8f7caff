"""A network divided over many cores as a table.

layer    strategy  grid      tile         cores  moved   ms (model)  peak ms  program ms
conv1_2  products  1x1x8x7   1x64x28x32   56     383488  2.758       2.202    2.292
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from tilewright.partition.divided import DividedLayer, DividedResult
from tilewright.report.table import plain_table


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
    yield (
        "grid: cores along images x channels x rows x columns of the result, and along what sums "
        "run over; tile: the largest core's share of the result; reads: what it reads for it"
    )
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


def _milliseconds(layer: DividedLayer) -> float:
    return layer.compute_ms + layer.exchange_ms + layer.weights_ms


def _shape(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))
