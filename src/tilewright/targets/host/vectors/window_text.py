"""Sums of windows as C on vectors of channels: the sums of several pixels stay in registers.

In: a `WindowFunction`, for an instruction set whose `vector_text` precedes the text. Out: a static
function for lines of windows. A block is one vector of channels by some windows of every line. It
passes over rows of pixels, loads each pixel once, and multiplies it by the factors of all points at
which windows of the block contain it, in as many lines as share a row; points in a border of zeros
are left out. With few registers a block is short: a few windows of the lines that share a row, with
all factors in registers, in a loop over channels. If pixels come from far, or sums of several lines
exceed the registers, a block has windows of one line, row by row; if a row of factors exceeds them,
too, two vectors by as many windows, point by point. Remaining windows and channels use smaller
blocks, the last channels with masks. The epilogue is applied to complete sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby, product
from math import gcd

import numpy as np

from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import DType
from tilewright.common.expr import Value
from tilewright.targets.host.vectors.epilogue import (
    PLAIN_SUMS,
    Finish,
    VectorPosition,
    advanced,
    epilogue_parameters,
    finish_function,
    write_finished,
)

_VECTORS = 2
"""Vectors of channels in a block that runs point by point: two of 32 bytes are a whole line of
memory, and they share the address of each point.
"""
EVERYWHERE = range(1 << 62)
"""Range of nonzero elements, counted from the first pixel, of an image without a border of zeros.
"""
_PIXELS, _REGISTERS = 7, 16
"""Pixels of a block, as the width of images in common networks is a multiple of 7; and registers
that suffice for their sums and factors.
"""


def block_pixels(registers: int | None, lines: int = 1, points: int = 0) -> int:
    """Pixels per line of a block that has the sums of so many `lines` at once, of windows of so
    many `points`. With few registers, a short block of several lines has as many pixels as these
    hold besides all factors and a pixel.

    >>> [block_pixels(16, lines) for lines in (1, 2)], [block_pixels(32, n) for n in (1, 2, 3)]
    ([7, 7], [14, 7, 7])
    >>> [block_pixels(registers, 2, points) for registers, points in ((16, 9), (16, 12), (32, 9))]
    [3, 7, 7]
    """
    own = registers or _REGISTERS
    if lines > 1:
        held = (own - points - 1) // lines
        return held if points and held > 1 and own <= _REGISTERS else _PIXELS
    return max(1, own // _REGISTERS) * _PIXELS


def is_short(pixels: int, lines: int) -> bool:
    """True if a block of so many `lines` and `pixels` per line has all factors in registers."""
    return lines > 1 and pixels < _PIXELS


def shares_pixels(columns: int, terms: int, registers: int | None) -> bool:
    """True if registers hold the sums of a block, the factors of a row of points, and a pixel.

    >>> [shares_pixels(columns, 1, 16) for columns in (1, 3, 7, 9)]
    [False, True, True, False]
    """
    held = block_pixels(registers) + columns + 1
    return columns > 1 and terms == 1 and held <= (registers or _REGISTERS)


def summed_lines(
    rows: int, columns: int, terms: int, row_stride: int, row_step: int, registers: int | None
) -> int:
    """Number of lines of windows that share a row of pixels and that a block sums at once. It is 1
    if lines share no rows, or if their sums and two more values exceed the registers, in a long
    block as well as in a short one.

    >>> [summed_lines(3, 3, 1, *steps, 32) for steps in ((1, 1), (2, 1), (1, 2), (3, 1))]
    [3, 2, 1, 1]
    >>> [summed_lines(5, 5, 1, *steps, 32) for steps in ((1, 1), (2, 1))]
    [1, 3]
    >>> [summed_lines(side, side, 1, 1, 1, 16) for side in (3, 4)]
    [3, 1]
    """
    behind, between = divmod(row_stride, row_step)
    if between or not behind or not shares_pixels(columns, terms, registers):
        return 1
    lines = -(-rows // behind)
    sums = lines * block_pixels(registers, lines, rows * columns)
    return lines if sums + 2 <= (registers or _REGISTERS) else 1


def row_pixels(windows: Value, columns: int, stride: int, step: int) -> Value:
    """Distinct pixels in a row of neighbouring windows that are `stride` pixels apart, each of
    `columns` points that are `step` apart.

    >>> [int(row_pixels(7, 3, *steps)) for steps in ((1, 1), (2, 1), (1, 7))]
    [9, 15, 21]
    """
    common = gcd(stride, step)
    again = np.maximum(windows - step // common, 0) * max(columns - stride // common, 0)
    return windows * columns - again


@dataclass(frozen=True)
class WindowFunction:
    """The sums of `lines` of `windows` windows each, for neighbouring channels.

    A window has `rows` x `columns` points of `terms` elements each. Steps are in elements, of the
    pixels (`x_`), results (`y_`) and factors (`w_`). A block of `pixels` windows per line has the
    sums of `summed` lines at once; each line is `behind` rows of points after the previous one. The
    loops over parts of channels (c), lines (u) and windows (t) nest in this `order`; a part has
    `part` channels, 0 for all. A pixel is zero if its offset from the first one, in elements, is
    outside `x_rows` or `x_columns`. Channels that are `whole` vectors need no masks.
    """

    dtype: DType
    lanes: int
    pixels: int
    windows: int
    rows: int
    columns: int
    terms: int
    x_row: int
    x_column: int
    x_term: int
    x_window: int
    y_window: int
    w_point: int
    w_term: int
    lines: int = 1
    x_line: int = 0
    y_line: int = 0
    shares_pixels: bool = False
    summed: int = 1
    behind: int = 0
    part: int = 0
    order: str = "tcu"
    x_rows: range = EVERYWHERE
    x_columns: range = EVERYWHERE
    whole: bool = False
    epilogue: Finish = PLAIN_SUMS

    @property
    def vectors(self) -> int:
        """Vectors of channels of the widest block."""
        return 1 if self.shares_pixels else _VECTORS

    @property
    def reads_inside(self) -> bool:
        """True if the function reads no pixel of the border of zeros."""
        return self.shares_pixels and EVERYWHERE not in (self.x_rows, self.x_columns)

    @property
    def is_short(self) -> bool:
        """True if blocks are short: registers hold all factors of a window and the sums of a block,
        which is the body of the loop over channels.
        """
        return is_short(self.pixels, self.summed)


_Points = tuple[range, ...]
"""For each line, or each window, of a block: the points, down or across, that are not zeros."""


def _down(one: WindowFunction) -> dict[_Points, list[range]]:
    """The lines at which blocks begin, by the rows of points of its lines."""
    inside = one.x_rows if one.shares_pixels else EVERYWHERE
    size = one.lines if one.summed > 1 and not one.is_short else one.summed
    return _runs(one.lines, size, one.x_line, one.rows, one.x_row, inside)


def _across(one: WindowFunction) -> dict[_Points, list[range]]:
    """The windows of a line at which blocks begin, by the columns of points of its windows."""
    size = -(-one.windows // -(-one.windows // one.pixels))
    return _runs(one.windows, size, one.x_window, one.columns, one.x_column, one.x_columns)


def _runs(
    whole: int, size: int, apart: int, points: int, step: int, inside: range
) -> dict[_Points, list[range]]:
    """Starts of blocks of `size`, in runs of neighbouring blocks, by the points of a block."""
    found: dict[_Points, list[range]] = {}
    last: _Points = ()
    for first in range(0, whole, size):
        numbers = range(first, min(first + size, whole))
        kind = tuple(_inside(number * apart, points, step, inside) for number in numbers)
        runs = found.setdefault(kind, [])
        if kind == last:
            runs[-1] = range(runs[-1].start, first + size, size)
        else:
            runs.append(range(first, first + size, size))
        last = kind
    return found


def _inside(first: int, count: int, step: int, inside: range) -> range:
    """The points, of `count` from `first` on, that are `inside`."""
    found = [i for i in range(count) if first + i * step in inside]
    return range(found[0], found[-1] + 1) if found else range(0)


def emit_window_function(one: WindowFunction, name: str) -> str:
    """C text of `static void name(channels, x, w, y, ...)`, on pixels, factors and results; the
    epilogue's operands follow.
    """
    writer = CWriter()
    writer.lines(finish_function(one.epilogue, name, one.dtype))
    down, across = _down(one), _across(one)
    for (i, rows), (j, points) in product(enumerate(down), enumerate(across)):
        own = f"{name}_{i}_{j}"
        for vectors in range(one.vectors, 0, -1):
            _write_block(one, name, _Block(own, rows, points, vectors), writer)
        if not one.whole:
            _write_block(one, name, _Block(own, rows, points, 1, "tail"), writer)
    kind = one.dtype.c_name
    operands = [f"const {kind} *x", f"const {kind} *w", f"{kind} *y"]
    writer.head(
        f"static void {name}",
        ["long channels", *operands, *epilogue_parameters(one.epilogue, one.dtype)],
    )
    with writer.block():
        _write_nest(one, name, one.order, {}, writer)
    return writer.text()


def _write_nest(
    one: WindowFunction, name: str, order: str, kinds: Mapping[str, int], writer: CWriter
) -> None:
    """Write the loops that `order` still lists, around the calls of blocks; `kinds` has the kinds
    of blocks that the loops around have chosen.
    """
    if not order:
        _write_channels(one, f"{name}_{kinds['u']}_{kinds['t']}", writer)
    elif order[0] == "c":
        with _part(one, writer):
            _write_nest(one, name, order[1:], kinds, writer)
    else:
        blocks = _down(one) if order[0] == "u" else _across(one)
        for kind, run in _in_order(blocks):
            with writer.block(_loop(order[0], run)):
                _write_nest(one, name, order[1:], {**kinds, order[0]: kind}, writer)


def _in_order(blocks: Mapping[_Points, list[range]]) -> list[tuple[int, range]]:
    """(number of the kind, run) of all runs of blocks, in ascending order."""
    every = ((number, run) for number, runs in enumerate(blocks.values()) for run in runs)
    return sorted(every, key=lambda found: found[1].start)


def _loop(variable: str, run: range) -> str:
    head = f"long {variable} = {run.start}; {variable} < {run.stop}"
    return f"for ({head}; {variable} += {run.step})"


@contextmanager
def _part(one: WindowFunction, writer: CWriter) -> Iterator[None]:
    """Write a loop over the parts of the channels, each from c to `end`; one if `part` is 0."""
    with writer.block(f"for (long c = 0; c < channels; c += {one.part or 'channels'})"):
        behind = f"c + {one.part} < channels ? c + {one.part} : " if one.part else ""
        writer.line(f"const long end = {behind}channels;")
        yield


def _write_channels(one: WindowFunction, name: str, writer: CWriter) -> None:
    """Write the calls of blocks for all channels of a part."""
    writer.line("long g = c;")
    for vectors in range(one.vectors, 0, -1):
        width = vectors * one.lanes
        with writer.block(f"for (; g + {width} <= end; g += {width})"):
            writer.call(_Block(name, (), (), vectors).function, _places(one))
    if one.whole:
        return
    writer.line("if (g < end)")
    with writer.deeper():
        writer.call(_Block(name, (), (), 1, "tail").function, [*_places(one), "end - g"])


def _places(one: WindowFunction) -> list[str]:
    """C arguments of a block that begins at line u, window t and channel g."""
    y = f"u * {one.y_line} + t * {one.y_window} + g"
    own = [f"x + u * {one.x_line} + t * {one.x_window} + g", "w + g", f"y + {y}"]
    return own + advanced(one.epilogue, lambda _: "g", y)


@dataclass(frozen=True)
class _Block:
    """A block: some windows of each of some lines by some vectors of channels. `rows` has the rows
    of points of each line, `points` the columns of points of each window; `tail` is the C text of
    the number of channels if they do not fill a vector.
    """

    name: str
    rows: _Points
    points: _Points
    vectors: int
    tail: str = ""

    @property
    def function(self) -> str:
        return f"{self.name}_{self.tail or self.vectors}"

    @property
    def width(self) -> int:
        """Number of windows in a line."""
        return len(self.points)

    def load(self, kind: DType, at: str) -> str:
        """C expression of a vector of channels."""
        return f"tw_load_first_{kind}({at}, {self.tail})" if self.tail else f"tw_load_{kind}({at})"


def _write_block(one: WindowFunction, name: str, block: _Block, writer: CWriter) -> None:
    """Write the function of a block; `name` is the function that calls it."""
    kind, vector, c = one.dtype, f"tw_vector_{one.dtype}", one.dtype.c_name
    operands = [f"const {c} *restrict x", f"const {c} *restrict w", f"{c} *restrict y"]
    operands += epilogue_parameters(one.epilogue, kind)
    how = "inline __attribute__((always_inline))" if one.is_short else "__attribute__((noinline))"
    writer.head(
        f"static {how} void {block.function}",
        [*operands, *([f"long {block.tail}"] if block.tail else [])],
    )
    with writer.block():
        writer.line(f"const {vector} zero = tw_broadcast_{kind}(0);")
        for p in range(one.summed * block.width):
            names = ", ".join(f"s{p}_{v} = zero" for v in range(block.vectors))
            writer.line(f"{vector} {names};")
        if one.shares_pixels and one.summed > 1:
            _write_lines(one, name, block, writer)
        elif one.shares_pixels:
            down = block.rows[0]
            writer.line(f"#pragma GCC unroll {_PIXELS}")
            with writer.block(f"for (long i = {down.start}; i < {down.stop}; i++)"):
                _write_row(one, {0: "i"}, f"i * {one.x_row}", block, writer)
        else:
            _write_points(one, block, writer)
        if one.summed == 1:
            _write_results(one, name, "0", block, writer)
    writer.line()


def _write_lines(one: WindowFunction, name: str, block: _Block, writer: CWriter) -> None:
    """Write all lines of a block of one vector: the first rows of the first line, then line by line
    its new rows of pixels, multiplied for all lines that share them, and the line's results. The
    sums then move up by one line.
    """
    before, count = one.rows - one.behind, len(block.rows)
    if one.is_short:
        for i, j in product(range(one.rows), range(one.columns)):
            at = f"w + {(i * one.columns + j) * one.w_point}"
            writer.line(f"const tw_vector_{one.dtype} f{i}_{j} = {block.load(one.dtype, at)};")
    for i in (i for i in block.rows[0] if i < before):
        _write_taps(one, "0", i, count, block, writer)

    def kind_of(line: int) -> tuple[list[int], int]:
        return [i for i in block.rows[line] if i >= before], min(one.summed, count - line)

    for (rows, left), alike in groupby(range(count), key=kind_of):
        lines = [*alike]
        several, u = len(lines) > 1, str(lines[0])
        head = f"for (long u = {lines[0]}; u <= {lines[-1]}; u++)"
        with writer.block(head) if several else writer.flat():
            for i in rows:
                _write_taps(one, "u" if several else u, i, left, block, writer)
            _write_results(one, name, "u" if several else u, block, writer)
            for p in range(one.summed * block.width):
                following = p + block.width
                moved = f"s{following}_0" if following < one.summed * block.width else "zero"
                writer.line(f"s{p}_0 = {moved};")


def _write_taps(
    one: WindowFunction, u: str, row: int, lines: int, block: _Block, writer: CWriter
) -> None:
    """Write the products of the pixels at row `row` of points of line u, for that line and those of
    the `lines` below that share them.
    """
    points = {line: row - line * one.behind for line in range(min(lines, one.summed))}
    used = {line: str(i) for line, i in points.items() if i >= 0}
    with writer.block():
        _write_row(one, used, f"{u} * {one.x_line} + {row * one.x_row}", block, writer)


def _write_row(
    one: WindowFunction, rows: Mapping[int, str], first: str, block: _Block, writer: CWriter
) -> None:
    """Write the products of a row of pixels, each loaded once for all windows that contain it.
    `rows` maps each line that contains the row to its row of points.
    """
    kind, vector = one.dtype, f"tw_vector_{one.dtype}"
    users: dict[int, list[tuple[int, int]]] = {}
    for window, points in enumerate(block.points):
        for point in points:
            pixel = window * one.x_window + point * one.x_column
            users.setdefault(pixel, []).append((window, point))
    used = sorted({point for pairs in users.values() for _, point in pairs})
    for (line, row), point in product({} if one.is_short else rows.items(), used):
        at = f"w + {row} * {one.columns * one.w_point} + {point * one.w_point}"
        writer.line(f"const {vector} w{line}_{point} = {block.load(kind, at)};")
    for number, (pixel, pairs) in enumerate(sorted(users.items())):
        x = block.load(kind, f"x + {first} + {pixel}")
        writer.line(f"const {vector} x{number} = {x};")
        for (line, row), (window, point) in product(rows.items(), pairs):
            s = f"s{line * block.width + window}_0"
            factor = f"f{row}_{point}" if one.is_short else f"w{line}_{point}"
            writer.line(f"{s} = tw_multiply_add_{kind}(x{number}, {factor}, {s});")


def _write_results(one: WindowFunction, name: str, u: str, block: _Block, writer: CWriter) -> None:
    """Write the epilogue of line u's sums, and their stores."""
    kind, tail = one.dtype, block.tail

    def offset(p: int | str, v: int) -> str:
        return f"{u} * {one.y_line} + {p} * {one.y_window} + {v * one.lanes}"

    def place(row: str, v: int) -> VectorPosition:
        return VectorPosition(row, str(v * one.lanes), offset(row, v), tail)

    def store(value: str, at: VectorPosition) -> str:
        if tail:
            return f"tw_store_first_{kind}(y + {at.offset}, {tail}, {value});"
        return f"tw_store_{kind}(y + {at.offset}, {value});"

    if one.epilogue:
        shape = block.width, block.vectors
        write_finished(*shape, one.epilogue, name, kind, place, "n", writer, store)
    else:
        for p, v in product(range(block.width), range(block.vectors)):
            writer.line(store(f"s{p}_{v}", place(str(p), v)))


def _write_points(one: WindowFunction, block: _Block, writer: CWriter) -> None:
    """Write the products of a block, point by point."""
    kind, vector = one.dtype, f"tw_vector_{one.dtype}"
    with _points(one, writer):
        for v in range(block.vectors):
            factor = block.load(kind, f"b + {v * one.lanes}")
            writer.line(f"const {vector} w{v} = {factor};")
        for p, v in product(range(block.width), range(block.vectors)):
            x = block.load(kind, f"a + {p * one.x_window + v * one.lanes}")
            writer.line(f"s{p}_{v} = tw_multiply_add_{kind}({x}, w{v}, s{p}_{v});")


@contextmanager
def _points(one: WindowFunction, writer: CWriter) -> Iterator[None]:
    """Write loops over the points and terms of a window: pixels from a, factors from b on."""
    with ExitStack() as stack:
        for name, extent in (("i", one.rows), ("j", one.columns), ("k", one.terms)):
            head = f"for (long {name} = 0; {name} < {extent}; {name}++)"
            stack.enter_context(writer.block(head) if extent > 1 else writer.flat())
        steps = (("i", one.rows, one.x_row, one.columns * one.w_point),
                 ("j", one.columns, one.x_column, one.w_point),
                 ("k", one.terms, one.x_term, one.w_term))  # fmt: skip
        x = "".join(f" + {n} * {step}" for n, extent, step, _ in steps if extent > 1)
        w = "".join(f" + {n} * {step}" for n, extent, _, step in steps if extent > 1)
        writer.line(f"const {one.dtype.c_name} *const a = x{x};")
        writer.line(f"const {one.dtype.c_name} *const b = w{w};")
        yield
