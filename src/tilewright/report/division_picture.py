"""One layer of a divided network as an SVG: who keeps what, and who sends how much to whom.

In: a layer's plan and the shape of its result. Out: on the left a panel for each part of images and
channels, with the cores that keep rows and columns of it, or images and channels of a matrix; on
the right a square for each pair of cores between which values move, the darker the more: inputs of
the layer in blue, sums in orange, halves where both move. A scale below says how dark is how much.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import ceil, log, prod, sqrt

from tilewright.partition.divided import LayerPlan, MovePlan, SharePlan

Interval = tuple[int, int]

_SIDE = 480
"""Pixels of either half."""
_MARGIN, _GAP, _LINE = 40, 8, 14
_COLORS = ("#dbe9f6", "#fde6cf", "#dcefd8", "#ead9ef", "#f6dcdc", "#e6e6e6", "#fbf3c4")
_INPUTS, _SUMS = "#1f5fa8", "#c75a00"
_LARGEST_TEXT, _SMALLEST_TEXT, _READABLE_TEXT, _HEADING = 11, 5, 8, 13
_MATRIX, _BAND = 2, 60
"""Dimensions of a matrix, and the pixels of all its rows."""
_STEP = 48
"""Pixels between squares of the scale."""
_TEXT_WIDTH = 0.6
"""Width of a letter over its height."""
_PALEST = 0.15
_TICKS = 8


def layer_picture(
    plan: LayerPlan, shape: Sequence[int], cores: int, heading: str, loaded: int
) -> str:
    """The picture of a layer whose result has images, or a matrix, of this shape; `loaded` are the
    values of the network's inputs that its cores read from main memory.
    """
    width, height = 3 * _MARGIN + 2 * _SIDE, 3 * _MARGIN + _SIDE
    moved = [*_panels(plan.shares, shape), *_matrix(plan.moves, cores, loaded)]
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


def _panels(shares: Sequence[SharePlan], shape: Sequence[int]) -> Iterator[str]:
    """The cores of each part of images and channels in a panel of its own."""
    parts: dict[tuple[Interval, ...], list[SharePlan]] = defaultdict(list)
    for share in shares:
        if all(stop > start for start, stop in share.keeps):
            parts[share.keeps[:-2]].append(share)
    rows, columns = shape[-2:]
    across = ceil(sqrt(len(parts) * rows / columns))
    down = ceil(len(parts) / across)
    pitch = _SIDE / across, _SIDE / down
    room = pitch[0] - _GAP, pitch[1] - _GAP - _LINE
    scale = min(room[0] / columns, room[1] / rows)
    scales = (scale, scale) if len(shape) > _MATRIX else (room[0] / columns, _BAND / rows)
    title_of, words = _titles(sorted(parts), pitch[0])
    title = f"kept by cores, of {_shape(shape)}{words}"
    yield _text(_MARGIN + _SIDE / 2, _MARGIN / 2, title)
    for number, (leading, own) in enumerate(sorted(parts.items())):
        x = _MARGIN + number % across * pitch[0]
        y = _MARGIN + number // across * pitch[1] + _LINE
        size = _fitting(title_of[leading], pitch[0])
        if size >= _SMALLEST_TEXT:
            yield _text(x + scales[0] * columns / 2, y - 3, title_of[leading], size)
        for share in own:
            yield from _region(share, x, y, scales)


def _titles(
    parts: Sequence[tuple[Interval, ...]], width: float
) -> tuple[dict[tuple[Interval, ...], str], str]:
    """Title of each panel, and a legend for abbreviated ones: whole words if they fit."""
    whole = {leading: _channels(leading, ("image", "channel"), "s") for leading in parts}
    if all(_fitting(title, width) >= _READABLE_TEXT for title in whole.values()):
        return whole, ""
    return {leading: _channels(leading, ("i", "c"), "") for leading in parts}, (
        " (i images, c channels)"
    )


def _fitting(text: str, width: float) -> float:
    """The height of the letters of a text that is so wide."""
    return min(_LARGEST_TEXT, width / (_TEXT_WIDTH * max(len(text), 1)))


def _region(share: SharePlan, x: float, y: float, scales: tuple[float, float]) -> Iterator[str]:
    (top, bottom), (left, right) = share.keeps[-2:]
    x, y = x + scales[0] * left, y + scales[1] * top
    w, h = scales[0] * (right - left), scales[1] * (bottom - top)
    color = _COLORS[share.core % len(_COLORS)]
    yield _square(x, y, w, h, f'fill="{color}" stroke="#777" stroke-width="0.5"')
    size = min(_LARGEST_TEXT, w / 2, h * 0.9)
    if size >= _SMALLEST_TEXT:
        yield _text(x + w / 2, y + h / 2 + size / 3, str(share.core), size)


def _matrix(moves: Sequence[MovePlan], cores: int, loaded: int) -> Iterator[str]:
    """A row for each core that sends, a column for each that gets."""
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
    """Squares from one value to the most that a pair sends, a row for each color."""
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
    """Shade from pale to full, by orders of magnitude."""
    return _PALEST + (1 - _PALEST) * log(1 + values) / log(1 + most)


def _channels(leading: Sequence[Interval], words: Sequence[str], plural: str) -> str:
    """The images and channels of a panel, the last ones included; nothing of a matrix."""
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


def _shape(extents: Sequence[int]) -> str:
    return "x".join(map(str, extents))
