"""One layer of a divided network as an SVG: who keeps what, and who sends how much to whom.

In: a layer's plan and the shape of its result. Out: on the left a panel for each part of images and
channels, with the cores that keep rows and columns of it; on the right a square for each pair of
cores between which values move, the darker the more: inputs of the layer in blue, sums in orange.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import ceil, log, prod, sqrt

from tilewright.partition.layer_plans import LayerPlan, MovePlan, SharePlan

Interval = tuple[int, int]

_SIDE = 480
"""Pixels of either half."""
_MARGIN, _GAP, _LINE = 40, 8, 14
_COLORS = ("#dbe9f6", "#fde6cf", "#dcefd8", "#ead9ef", "#f6dcdc", "#e6e6e6", "#fbf3c4")
_INPUTS, _SUMS = "#1f5fa8", "#c75a00"
_LARGEST_TEXT, _SMALLEST_TEXT = 11, 5
_TEXT_WIDTH = 0.6
"""Of a letter, over its height."""
_PALEST = 0.15
_TICKS = 8


def layer_picture(plan: LayerPlan, shape: Sequence[int], cores: int) -> str:
    """The picture of a layer whose result has images of this shape."""
    width, height = 3 * _MARGIN + 2 * _SIDE, 2 * _MARGIN + _SIDE
    body = [*_panels(plan.shares, shape), *_matrix(plan.moves, cores)]
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
    scale = min((pitch[0] - _GAP) / columns, (pitch[1] - _GAP - _LINE) / rows)
    yield _text(_MARGIN + _SIDE / 2, _MARGIN / 2, f"kept by cores, of {_shape(shape)}")
    for number, (leading, own) in enumerate(sorted(parts.items())):
        x = _MARGIN + number % across * pitch[0]
        y = _MARGIN + number // across * pitch[1] + _LINE
        title = _channels(leading)
        size = min(_LARGEST_TEXT, pitch[0] / (_TEXT_WIDTH * len(title)))
        yield _text(x + scale * columns / 2, y - 3, title, size)
        for share in own:
            yield from _region(share, x, y, scale)


def _region(share: SharePlan, x: float, y: float, scale: float) -> Iterator[str]:
    (top, bottom), (left, right) = share.keeps[-2:]
    x, y, w, h = x + scale * left, y + scale * top, scale * (right - left), scale * (bottom - top)
    color = _COLORS[share.core % len(_COLORS)]
    yield _square(x, y, w, h, f'fill="{color}" stroke="#777" stroke-width="0.5"')
    size = min(_LARGEST_TEXT, w / 2, h * 0.9)
    if size >= _SMALLEST_TEXT:
        yield _text(x + w / 2, y + h / 2 + size / 3, str(share.core), size)


def _matrix(moves: Sequence[MovePlan], cores: int) -> Iterator[str]:
    """A row for each core that sends, a column for each that gets."""
    x, y, pitch = 2 * _MARGIN + _SIDE, _MARGIN + _LINE, (_SIDE - _LINE) / cores
    side = pitch * cores
    given, sums = _values(moves, adds=False), _values(moves, adds=True)
    words = [f"{sum(given.values())} values of inputs in blue"] if given else []
    words += [f"{sum(sums.values())} of sums in orange"] if sums else []
    title = f"sent from row to column: {', '.join(words)}" if words else "nothing is sent"
    yield _text(x + side / 2, _MARGIN / 2, title)
    yield _square(x, y, side, side, 'fill="none" stroke="#777" stroke-width="0.5"')
    for core in range(0, cores, _TICKS):
        middle = (core + 0.5) * pitch
        yield _text(x + middle, y - 3, str(core), 9)
        yield _text(x - 9, y + middle + 3, str(core), 9)
    most = max([*given.values(), *sums.values()], default=1)
    for found, color in ((given, _INPUTS), (sums, _SUMS)):
        for (source, target), values in sorted(found.items()):
            shade = f'fill="{color}" fill-opacity="{_shade(values, most):.2f}"'
            yield _square(x + target * pitch, y + source * pitch, pitch, pitch, shade)


def _values(moves: Sequence[MovePlan], *, adds: bool) -> Mapping[tuple[int, int], int]:
    found: Counter[tuple[int, int]] = Counter()
    for move in moves:
        if move.adds == adds:
            size = prod(stop - start for start, stop in move.region)
            for target in move.targets:
                found[move.source, target] += size
    return found


def _shade(values: int, most: int) -> float:
    """From pale to full, by orders of magnitude."""
    return _PALEST + (1 - _PALEST) * log(1 + values) / log(1 + most)


def _channels(leading: Sequence[Interval]) -> str:
    """The images and channels of a panel, the last ones included."""
    words = zip(("image", "channel"), leading, strict=True)
    return ", ".join(
        f"{word} {first}" if stop == first + 1 else f"{word}s {first}-{stop - 1}"
        for word, (first, stop) in words
        if (word, first, stop) != ("image", 0, 1)
    )


def _square(x: float, y: float, w: float, h: float, look: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" {look}/>'


def _text(x: float, y: float, text: str, size: float = _LARGEST_TEXT) -> str:
    look = "" if size == _LARGEST_TEXT else f' style="font-size:{size:.1f}px"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{look}>{escape(text)}</text>'


def _shape(extents: Sequence[int]) -> str:
    return "x".join(map(str, extents))
