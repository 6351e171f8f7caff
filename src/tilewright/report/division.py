"""A network divided over many cores as two tables, of who computes what and of what that costs.

layer    divided         grid      tile         reads        cores  imbalance
conv1_2  rows x columns  1x1x8x7   1x64x28x32   1x64x30x34   56     1.00

layer    activations  inputs  weights  sums  ms (model)  peak ms  program ms  streamed ms
conv1_2       383488       0  2067968     0       2.758    2.202       2.292        2.757
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from math import ceil, log, prod, sqrt

from msgspec import field
from rich.console import RenderableType
from rich.table import Table

from tilewright.network.results import Comparison
from tilewright.partition.divided import DividedLayer, DividedResult, LayerPlan, MovePlan, PartPlan
from tilewright.report.figures import Shown, figure_lines
from tilewright.report.network import comparison_text, counted, some
from tilewright.report.table import duration, plain_table, time_digits, wrapped_line

_KINDS = ("activations", "inputs", "weights", "sums")
"""Kinds of values that move."""
_TIMES = ("ms (model)", "peak ms", "program ms", "streamed ms")
_MOST_DIGITS = 4
"""Digits of a time, so that the table fits 80 columns."""
_SLOWEST = 10
_NAMED = 4
"""Layers named in a list of idle cores; the rest are counted."""
_PARTS = {"weights": "weights_ms", "compute": "compute_ms", "exchange": "exchange_ms"}
"""Components of a layer's time, step by step."""
_SMALLEST_GAP = 0.05
"""Smallest gap shown, in percent: it rounds to more than 0.0."""
_NO_TIME = 1e-12
"""Total milliseconds assumed for a network that does nothing."""


class DividedRun(DividedResult, frozen=True):
    """The `--json` form of a divided network. It was computed if it has a `comparison` or an
    `output`, the file of its results. `timings` are the seconds of each compilation step.
    """

    comparison: Comparison | None = None
    output: str | None = None
    timings: dict[str, float] = field(default_factory=dict)


class DividedExplanation(DividedRun, frozen=True):
    """A divided network with its slowest layers explained; its form is that of the run."""


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
    """Table of each layer's division."""
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
    digits, table = min(_MOST_DIGITS, time_digits(found.steps_ms)), plain_table()
    table.add_column("layer", overflow="fold", min_width=5)
    for column in _KINDS:
        table.add_column(column, justify="right", min_width=len(column))
    for column in _TIMES:
        width = max(digits + 2, *map(len, column.split()))
        table.add_column(column, justify="right", min_width=width)
    for layer in found.layers:
        values = (getattr(layer, kind) for kind in _KINDS)
        times = (_milliseconds(layer), layer.compute_ms, layer.program_ms, layer.streamed_ms)
        table.add_row(layer.name, *map(str, values), *(f"{ms:.{digits}f}" for ms in times))
    return table


def division_totals(found: DividedRun) -> Iterator[str]:
    """The lines below the table."""
    yield from map(wrapped_line, _totals(found))
    if found.comparison is not None:
        yield comparison_text(found.comparison)


def _totals(found: DividedRun) -> Iterator[str]:
    yield (
        "grid: cores along images x channels x rows x columns of the result, and along what sums "
        "run over; tile: the largest core's part of the result; reads: what it reads for it"
    )
    moved = {kind: sum(getattr(layer, kind) for layer in found.layers) for kind in _KINDS}
    once = "once, however many cores get it" if found.multicast else "for every core that gets it"
    yield f"values, each counted {once}: " + ", ".join(f"{n} {kind}" for kind, n in moved.items())
    if idle := _idle(found.layers):
        yield f"idle cores: {idle}"
    yield _chosen(found)
    steps, clocked, overlapped, program, program_overlapped = (
        duration(milliseconds, found.steps_ms)
        for milliseconds in (
            found.steps_ms,
            found.clocked_ms,
            found.overlapped_ms,
            found.program_ms,
            found.program_overlapped_ms,
        )
    )
    yield (
        f"{steps} step by step by the busiest links, {clocked} with every message on its links, "
        f"{overlapped} overlapped (model; compute at the peak, weights from main memory)"
    )
    yield (
        f"{program} step by step, {program_overlapped} overlapped with the cores' programs in "
        "place of the peak (simulated)"
    )
    if found.simulated_ms is not None:
        whole = duration(found.simulated_ms, found.steps_ms)
        yield f"{whole} with all cores' programs and every message (simulated)"
    yield f"of the time step by step: {_shares(found.layers)}"


def _chosen(found: DividedRun) -> str:
    """The cost of the plan, compared with other plans."""
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
    """The slowest layers, and the components of their time."""
    whole, slowest = counted(len(found.layers), "layer"), sorted(found.layers, key=_milliseconds)
    slowest = slowest[::-1][:_SLOWEST]
    yield f"the {len(slowest)} slowest of {whole}, step by step, and what takes their time:"
    width = max((len(layer.name) for layer in slowest), default=0)
    for layer in slowest:
        share = 100 * _milliseconds(layer) / max(found.steps_ms, _NO_TIME)
        yield f"  {layer.name:{width}}  {share:4.1f} %: {_shares([layer])}"


def _idle(layers: Sequence[DividedLayer]) -> str:
    """Cores without work, each set with the layers in which it is idle."""
    names: dict[tuple[int, ...], list[str]] = {}
    for layer in layers:
        if layer.idle_cores:
            names.setdefault(layer.idle_cores, []).append(layer.name)
    return "; ".join(f"{_ranges(cores)} in {some(own, _NAMED)}" for cores, own in names.items())


def _ranges(cores: Sequence[int]) -> str:
    """Cores in order as text.

    >>> _ranges((3, 4, 5, 9))
    '3-5, 9'
    """
    runs = groupby(enumerate(cores), lambda pair: pair[1] - pair[0])
    ends = ([core for _, core in run] for _, run in runs)
    return ", ".join(str(a[0]) if len(a) == 1 else f"{a[0]}-{a[-1]}" for a in ends)


def _shares(layers: Sequence[DividedLayer]) -> str:
    """Shares of the layers' time by component, largest first."""
    parts = {part: sum(getattr(x, name) for x in layers) for part, name in _PARTS.items()}
    total = max(sum(parts.values()), _NO_TIME)
    ordered = sorted(parts.items(), key=lambda item: -item[1])
    return ", ".join(f"{part} {100 * ms / total:.1f} %" for part, ms in ordered if ms > 0)


def _milliseconds(layer: DividedLayer) -> float:
    return layer.compute_ms + layer.exchange_ms + layer.weights_ms


def _shape(extents: Sequence[int]) -> str:
    return "x".join(map(str, extents))


Interval = tuple[int, int]

_SIDE = 480
"""Pixels of either half."""
_MARGIN, _GAP, _LINE = 40, 8, 14
_COLORS = ("#dbe9f6", "#fde6cf", "#dcefd8", "#ead9ef", "#f6dcdc", "#e6e6e6", "#fbf3c4")
_INPUTS, _SUMS = "#1f5fa8", "#c75a00"
_LARGEST_TEXT, _SMALLEST_TEXT, _READABLE_TEXT, _HEADING = 11, 5, 8, 13
_MATRIX, _BAND = 2, 60
"""Rank of a matrix, and the pixels of all its rows."""
_STEP = 48
"""Pixels between squares of the scale."""
_TEXT_WIDTH = 0.6
"""Width of a letter over its height."""
_PALEST = 0.15
_TICKS = 8


def layer_picture(
    plan: LayerPlan, shape: Sequence[int], cores: int, heading: str, loaded: int
) -> str:
    """The picture of a layer whose result is images, or a matrix, of this shape, as SVG; `loaded`
    counts the network's input values that its cores read from main memory.

    On the left is a panel for each part of images and channels, with the cores that keep its rows
    and columns (for a matrix, its rows and columns of elements); on the right a square for each
    pair of cores that exchange values, darker for more: layer inputs in blue, sums in orange, half
    and half where both move. A scale below gives the shades.
    """
    width, height = 3 * _MARGIN + 2 * _SIDE, 3 * _MARGIN + _SIDE
    moved = [*_panels(plan.parts, shape), *_matrix(plan.moves, cores, loaded)]
    body = [
        _text(width / 2, _MARGIN / 2, heading, _HEADING),
        f'<g transform="translate(0 {_MARGIN / 2:g})">{"".join(moved)}</g>',
    ]
    style = "text{font-family:sans-serif;font-size:11px;text-anchor:middle}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}"><rect width="100%" height="100%" fill="white"/>'
        f"<style>{style}</style>{''.join(body)}</svg>\n"
    )


def _panels(parts: Sequence[PartPlan], shape: Sequence[int]) -> Iterator[str]:
    """One panel for each part of images and channels, with the cores that keep it."""
    found: dict[tuple[Interval, ...], list[PartPlan]] = defaultdict(list)
    for part in parts:
        if all(stop > start for start, stop in part.keeps):
            found[part.keeps[:-2]].append(part)
    rows, columns = shape[-2:]
    across = ceil(sqrt(len(found) * rows / columns))
    down = ceil(len(found) / across)
    pitch = _SIDE / across, _SIDE / down
    room = pitch[0] - _GAP, pitch[1] - _GAP - _LINE
    scale = min(room[0] / columns, room[1] / rows)
    scales = (scale, scale) if len(shape) > _MATRIX else (room[0] / columns, _BAND / rows)
    title_of, words = _titles(sorted(found), pitch[0])
    title = f"kept by cores, of {_shape(shape)}{words}"
    yield _text(_MARGIN + _SIDE / 2, _MARGIN / 2, title)
    for number, (leading, own) in enumerate(sorted(found.items())):
        x = _MARGIN + number % across * pitch[0]
        y = _MARGIN + number // across * pitch[1] + _LINE
        size = _fitting(title_of[leading], pitch[0])
        if size >= _SMALLEST_TEXT:
            yield _text(x + scales[0] * columns / 2, y - 3, title_of[leading], size)
        for part in own:
            yield from _region(part, x, y, scales)


def _titles(
    parts: Sequence[tuple[Interval, ...]], width: float
) -> tuple[dict[tuple[Interval, ...], str], str]:
    """The title of each panel, and a legend if words had to be abbreviated."""
    whole = {leading: _channels(leading, ("image", "channel"), "s") for leading in parts}
    if all(_fitting(title, width) >= _READABLE_TEXT for title in whole.values()):
        return whole, ""
    return {leading: _channels(leading, ("i", "c"), "") for leading in parts}, (
        " (i images, c channels)"
    )


def _fitting(text: str, width: float) -> float:
    """The font size at which the text is `width` wide, up to the largest."""
    return min(_LARGEST_TEXT, width / (_TEXT_WIDTH * max(len(text), 1)))


def _region(part: PartPlan, x: float, y: float, scales: tuple[float, float]) -> Iterator[str]:
    (top, bottom), (left, right) = part.keeps[-2:]
    x, y = x + scales[0] * left, y + scales[1] * top
    w, h = scales[0] * (right - left), scales[1] * (bottom - top)
    color = _COLORS[part.core % len(_COLORS)]
    yield _square(x, y, w, h, f'fill="{color}" stroke="#777" stroke-width="0.5"')
    size = min(_LARGEST_TEXT, w / 2, h * 0.9)
    if size >= _SMALLEST_TEXT:
        yield _text(x + w / 2, y + h / 2 + size / 3, str(part.core), size)


def _matrix(moves: Sequence[MovePlan], cores: int, loaded: int) -> Iterator[str]:
    """A row for each sending core, a column for each receiving one."""
    x, y, pitch = 2 * _MARGIN + _SIDE, _MARGIN + _LINE, (_SIDE - _LINE) / cores
    side = pitch * cores
    given, sums = _values(moves, adds=False), _values(moves, adds=True)
    words = [f"{sum(given.values())} values of inputs in blue"] if given else []
    words += [f"{sum(sums.values())} of sums in orange"] if sums else []
    sent = f"sent from row to column: {', '.join(words)}"
    title = sent if words else "no core sends anything to another"
    title += f"; {loaded} values of the network's inputs from main memory" if loaded else ""
    yield _text(x + side / 2, _MARGIN / 2, title)
    yield _square(x, y, side, side, 'fill="none" stroke="#777" stroke-width="0.5"')
    for core in range(0, cores, _TICKS):
        middle = (core + 0.5) * pitch
        yield _text(x + middle, y - 3, str(core), 9)
        yield _text(x - 9, y + middle + 3, str(core), 9)
    most = max([*given.values(), *sums.values()], default=1)
    for found, other, color, half in ((given, sums, _INPUTS, 0.0), (sums, given, _SUMS, 0.5)):
        for (source, target), values in sorted(found.items()):
            part, shift = (0.5, half) if (source, target) in other else (1.0, 0.0)
            left, shade = x + (target + shift) * pitch, _look(color, values, most)
            yield _square(left, y + source * pitch, pitch * part, pitch, shade)
    colors = [*([_INPUTS] if given else []), *([_SUMS] if sums else [])]
    yield from _scale(colors, most, x, y + side + _LINE)


def _scale(colors: Sequence[str], most: int, x: float, y: float) -> Iterator[str]:
    """Squares from one value to the most that a pair sends, one row per color."""
    steps = sorted({1, *(10**power for power in range(1, len(str(most)))), most})
    for number, values in enumerate(steps):
        left = x + number * _STEP
        for row, color in enumerate(colors):
            yield _square(left, y + row * _LINE, _LINE, _LINE - 2, _look(color, values, most))
        if colors:
            yield _text(left + _LINE / 2, y + len(colors) * _LINE + 8, str(values), 9)


def _look(color: str, values: int, most: int) -> str:
    return f'fill="{color}" fill-opacity="{_shade(values, most):.2f}"'


def _values(moves: Sequence[MovePlan], *, adds: bool) -> Mapping[tuple[int, int], int]:
    found: Counter[tuple[int, int]] = Counter()
    for move in moves:
        if move.adds == adds:
            size = prod(stop - start for start, stop in move.region)
            for target in move.targets:
                found[move.source, target] += size
    return found


def _shade(values: int, most: int) -> float:
    """Opacity from pale to full, logarithmic in the values."""
    return _PALEST + (1 - _PALEST) * log(1 + values) / log(1 + most)


def _channels(leading: Sequence[Interval], words: Sequence[str], plural: str) -> str:
    """The image and channel ranges of a panel, inclusive; empty for a matrix."""
    named = zip(words[: len(leading)], leading, strict=True)
    return ", ".join(
        f"{word} {first}" if stop == first + 1 else f"{word}{plural} {first}-{stop - 1}"
        for word, (first, stop) in named
        if (word, first, stop) != (words[0], 0, 1)
    )


def _square(x: float, y: float, w: float, h: float, look: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" {look}/>'


def _text(x: float, y: float, text: str, size: float = _LARGEST_TEXT) -> str:
    look = "" if size == _LARGEST_TEXT else f' style="font-size:{size:.1f}px"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{look}>{escape(text)}</text>'
