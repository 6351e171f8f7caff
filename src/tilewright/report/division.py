"""A network divided over many cores as two tables, of who computes what and of what that costs.

layer    divided         grid      tile         reads        cores  imbalance
conv1_2  rows x columns  1x1x8x7   1x64x28x32   1x64x30x34   56     1.00

layer    activations  inputs  weights  sums  ms (model)  peak ms  program ms  streamed ms
conv1_2       383488       0  2067968     0       2.758    2.202       2.292        2.757
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import field
from rich.console import RenderableType
from rich.table import Table

from tilewright.network.results import Comparison
from tilewright.partition.divided import DividedLayer, DividedResult
from tilewright.report.figures import Shown, figure_lines
from tilewright.report.network import comparison_text, counted, wrapped
from tilewright.report.table import plain_table

_KINDS = ("activations", "inputs", "weights", "sums")
"""Values that move."""
_TIMES = ("ms (model)", "peak ms", "program ms", "streamed ms")
_SLOWEST = 10
_NAMED = 4
"""Layers that are named where many have something in common."""
_PARTS = {"weights": "weights_ms", "compute": "compute_ms", "exchange": "exchange_ms"}
"""Components of a layer's time, step by step."""
_SMALLEST_GAP = 0.05
"""Smallest gap that is shown, in percent: it rounds to more than 0.0."""
_NO_TIME = 1e-12
"""Milliseconds of a network that does nothing."""


class DividedRun(DividedResult, frozen=True):
    """The `--json` form of a divided network, which was computed where there is a `comparison` or
    an `output`, the file of its results. `timings` are the seconds of each step of compiling.
    """

    comparison: Comparison | None = None
    output: str | None = None
    timings: dict[str, float] = field(default_factory=dict)


class DividedExplanation(DividedRun, frozen=True):
    """A divided network whose slowest layers are explained: its form is that of the run."""


@figure_lines.register
def _(found: DividedRun, _shown: Shown) -> Iterator[RenderableType]:
    yield division_table(found)
    yield cost_table(found)
    yield from division_totals(found)
    if found.output:
        yield f"written to {found.output}"


@figure_lines.register
def _(found: DividedExplanation, _shown: Shown) -> Iterator[RenderableType]:
    yield division_table(found)
    yield cost_table(found)
    yield from division_totals(found)
    yield ""
    yield from division_explanation(found)


def division_table(found: DividedResult) -> Table:
    """Table of how each layer is divided."""
    cores = counted(found.cores, "core")
    table = plain_table(f"{found.network} on {found.machine}, {found.dtype}, {cores}")
    table.add_column("layer", overflow="fold", min_width=5)
    table.add_column("divided", overflow="fold", min_width=8)
    table.add_column("grid", overflow="fold", min_width=8)
    for column in ("tile", "reads", "cores", "imbalance"):
        table.add_column(column, justify="right", no_wrap=True, min_width=len(column))
    for layer in found.layers:
        table.add_row(
            layer.name,
            layer.divides,
            layer.grid,
            _shape(layer.tile),
            _shape(layer.reads),
            str(layer.busy_cores),
            f"{layer.imbalance:.2f}",
        )
    return table


def cost_table(found: DividedResult) -> Table:
    """Table of the values that each layer moves, and of its times."""
    table = plain_table()
    table.add_column("layer", overflow="fold", min_width=5)
    for column in (*_KINDS, *_TIMES):
        table.add_column(column, justify="right", min_width=max(map(len, column.split())))
    for layer in found.layers:
        values = (getattr(layer, kind) for kind in _KINDS)
        times = (_milliseconds(layer), layer.compute_ms, layer.program_ms, layer.streamed_ms)
        table.add_row(layer.name, *map(str, values), *(f"{ms:.3f}" for ms in times))
    return table


def division_totals(found: DividedRun) -> Iterator[str]:
    """The lines below the table."""
    yield from map(wrapped, _totals(found))
    if found.comparison is not None:
        yield comparison_text(found.comparison)


def _totals(found: DividedRun) -> Iterator[str]:
    yield (
        "grid: cores along images x channels x rows x columns of the result, and along what sums "
        "run over; tile: the largest core's share of the result; reads: what it reads for it"
    )
    moved = {kind: sum(getattr(layer, kind) for layer in found.layers) for kind in _KINDS}
    once = "once, however many cores get it" if found.multicast else "for every core that gets it"
    yield f"values, each counted {once}: " + ", ".join(f"{n} {kind}" for kind, n in moved.items())
    if idle := _idle(found.layers):
        yield f"idle cores: {idle}"
    yield _chosen(found)
    yield (
        f"{found.steps_ms:.3f} ms step by step by the busiest links, {found.clocked_ms:.3f} ms "
        f"with every message on its links, {found.overlapped_ms:.3f} ms overlapped (model; compute "
        "at the peak, weights from main memory)"
    )
    yield (
        f"{found.program_ms:.3f} ms step by step, {found.program_overlapped_ms:.3f} ms overlapped "
        "with the cores' programs in place of the peak (simulated)"
    )
    yield f"of the time step by step: {_shares(found.layers)}"


def _chosen(found: DividedRun) -> str:
    """The cost of the plan, and how it compares with that of other plans."""
    moves_fewer, is_fewest = "moves fewer", "fewest"
    costs = f"{counted(found.moved_values, 'value')} in all"
    if found.objective != "traffic":
        moves_fewer, is_fewest = "costs less", "least"
        unit = "cycles" if found.objective == "time" else "values"
        costs += f"; least {found.objective}: {found.cost:.0f} {unit}"
    if found.considered == len(found.layers):
        return f"{costs}; one grid for each layer, nothing to choose"
    proven = (
        f"no plan of these grids {moves_fewer}"
        if found.proven
        else f"not proven to be the {is_fewest}"
    )
    gap = 100 * (1 - found.bound / found.cost) if found.cost else 0.0
    bound = f"lower bound, each layer and exchange at its own least: {found.bound:.0f}"
    return f"{costs}; {proven}; {bound}" + (f" ({gap:.1f} % less)" if gap >= _SMALLEST_GAP else "")


def division_explanation(found: DividedRun) -> Iterator[str]:
    """The slowest layers, with what takes the time of each."""
    whole, slowest = counted(len(found.layers), "layer"), sorted(found.layers, key=_milliseconds)
    slowest = slowest[::-1][:_SLOWEST]
    yield f"the {len(slowest)} slowest of {whole}, step by step, and what takes their time:"
    width = max((len(layer.name) for layer in slowest), default=0)
    for layer in slowest:
        share = 100 * _milliseconds(layer) / max(found.steps_ms, _NO_TIME)
        yield f"  {layer.name:{width}}  {share:4.1f} %: {_shares([layer])}"


def _idle(layers: Sequence[DividedLayer]) -> str:
    """Cores without work, each set with the layers in which it has none."""
    names: dict[tuple[int, ...], list[str]] = {}
    for layer in layers:
        if layer.idle_cores:
            names.setdefault(layer.idle_cores, []).append(layer.name)
    return "; ".join(f"{_ranges(cores)} in {_some(own)}" for cores, own in names.items())


def _some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _ranges(cores: Sequence[int]) -> str:
    """Cores in order as text.

    >>> _ranges((3, 4, 5, 9))
    '3-5, 9'
    """
    runs = groupby(enumerate(cores), lambda pair: pair[1] - pair[0])
    ends = ([core for _, core in run] for _, run in runs)
    return ", ".join(str(a[0]) if len(a) == 1 else f"{a[0]}-{a[-1]}" for a in ends)


def _shares(layers: Sequence[DividedLayer]) -> str:
    """How much of their time is what, the most first."""
    parts = {part: sum(getattr(x, name) for x in layers) for part, name in _PARTS.items()}
    total = max(sum(parts.values()), _NO_TIME)
    ordered = sorted(parts.items(), key=lambda item: -item[1])
    return ", ".join(f"{part} {100 * ms / total:.1f} %" for part, ms in ordered if ms > 0)


def _milliseconds(layer: DividedLayer) -> float:
    return layer.compute_ms + layer.exchange_ms + layer.weights_ms


def _shape(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))
