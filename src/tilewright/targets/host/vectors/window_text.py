"""Sums of windows as C on vectors of channels: the sums of several pixels stay in registers.

In: a `WindowFunction`, for an instruction set whose `vector_text` comes first. Out: a static
function for lines of windows. A block is one vector of channels by some windows of two lines, or of
one: each pixel of a row is loaded once and multiplied by the factors of all points at which windows
of the block have it. Where those factors exceed the registers, it is two vectors by as many windows
of a line, multiplied and added point by point. Fewer lines, windows and channels that are left take
smaller blocks, the last channels with masks. The epilogue is applied to complete sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
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
"""Vectors of channels of a block that goes point by point: of 32 bytes they are a whole line of
memory, and share the address of each point.
"""
_PIXELS, _REGISTERS = 7, 16
"""Pixels of a block beside which so many registers hold a vector of factors each: images of common
networks are multiples of 7 wide.
"""


def block_pixels(registers: int | None, lines: int = 1) -> int:
    """Pixels of each line of a block of so many, for so many vector registers.

    >>> block_pixels(16), block_pixels(32), block_pixels(32, lines=2)
    (7, 14, 7)
    """
    return _PIXELS * max(1, (registers or _REGISTERS) // _REGISTERS // lines)


def shares_pixels(columns: int, terms: int, registers: int | None) -> bool:
    """True if registers hold the sums of a block, the factors of a row of points, and a pixel.

    >>> [shares_pixels(columns, 1, 16) for columns in (1, 3, 7, 9)]
    [False, True, True, False]
    """
    held = block_pixels(registers) + columns + 1
    return columns > 1 and terms == 1 and held <= (registers or _REGISTERS)


def rows_behind(
    rows: int, columns: int, terms: int, row_stride: int, row_step: int, registers: int | None
) -> int:
    """Rows of points by which the windows of a block's second line are below those of the first, 0
    where blocks have one line: no row of pixels is shared, or registers do not hold the sums of
    two, a pixel and a factor.

    >>> [rows_behind(rows, 3, 1, *steps, 16) for rows, *steps in ((3, 2, 1), (2, 2, 1), (3, 1, 2))]
    [2, 0, 0]
    """
    enough = 2 * block_pixels(registers, lines=2) + 2 <= (registers or _REGISTERS)
    behind, between = divmod(row_stride, row_step)
    shared = between == 0 and behind < rows and shares_pixels(columns, terms, registers)
    return behind if shared and enough else 0


def row_pixels(windows: Value, columns: int, stride: int, step: int) -> Value:
    """Distinct pixels of a row that so many windows side by side have, `stride` pixels apart, of
    `columns` points each, `step` apart.

    >>> [int(row_pixels(7, 3, *steps)) for steps in ((1, 1), (2, 1), (1, 7))]
    [9, 15, 21]
    """
    common = gcd(stride, step)
    again = np.maximum(windows - step // common, 0) * max(columns - stride // common, 0)
    return windows * columns - again


@dataclass(frozen=True)
class WindowFunction:
    """The sums of `lines` of `windows` windows each, for neighbouring channels.

    A window has `rows` x `columns` points of `terms` elements each. Steps are in elements: from row
    to row, column to column and term to term of the pixels, from window to window and line to line
    of pixels and results, from point to point and term to term of the factors. Those of a block's
    second line are so many rows of points `behind` the first. Channels that are `whole` vectors
    need no masks.
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
    behind: int = 0
    whole: bool = False
    epilogue: Finish = PLAIN_SUMS

    @property
    def vectors(self) -> int:
        """Vectors of channels of the widest block."""
        return 1 if self.shares_pixels else _VECTORS

    @property
    def heights(self) -> tuple[int, ...]:
        """Pixels of the blocks, largest first."""
        return _sizes(self.windows, self.pixels)

    @property
    def depths(self) -> tuple[int, ...]:
        """Lines of the blocks, largest first."""
        return _sizes(self.lines, 2 if self.behind else 1)


def _sizes(whole: int, block: int) -> tuple[int, ...]:
    """Sizes of the blocks of a whole: that of full ones, and what these leave."""
    full = (block,) if whole >= block else ()
    return (*full, whole % block) if whole % block else full


def emit_window_function(one: WindowFunction, name: str) -> str:
    """C text of `static void name(channels, x, w, y, ...)`, pixels, factors and results; what
    lies beside the results follows.
    """
    writer = CWriter()
    writer.lines(finish_function(one.epilogue, name, one.dtype))
    for block in product(one.depths, one.heights):
        for vectors in range(one.vectors, 0, -1):
            _write_block(one, name, (*block, vectors), writer)
        if not one.whole:
            _write_block(one, name, (*block, 1), writer, "tail")
    kind = one.dtype.c_name
    operands = [f"const {kind} *x", f"const {kind} *w", f"{kind} *y"]
    writer.head(
        f"static void {name}",
        ["long channels", *operands, *epilogue_parameters(one.epilogue, one.dtype)],
    )
    with writer.block():
        for depth, line in _write_loops("u", one.lines, one.depths, writer):
            with line:
                for height, pixels in _write_loops("t", one.windows, one.heights, writer):
                    with pixels:
                        _write_channels(one, name, (depth, height), writer)
    return writer.text()


def _write_loops(
    variable: str, whole: int, sizes: Sequence[int], writer: CWriter
) -> Iterator[tuple[int, AbstractContextManager[None]]]:
    """A loop over the blocks of each size, with that size."""
    first = 0
    for size in sizes:
        end = first + (whole - first) // size * size
        head = f"for (long {variable} = {first}; {variable} < {end}; {variable} += {size})"
        yield size, writer.block(head)
        first = end


def _write_channels(
    one: WindowFunction, name: str, block: tuple[int, int], writer: CWriter
) -> None:
    """The calls for all channels of some pixels."""
    writer.line("long g = 0;")
    for vectors in range(one.vectors, 0, -1):
        width = vectors * one.lanes
        with writer.block(f"for (; g + {width} <= channels; g += {width})"):
            writer.call(_block_name(name, (*block, vectors)), _places(one))
    if one.whole:
        return
    writer.line("if (g < channels)")
    with writer.deeper():
        tail = [*_places(one), "channels - g"]
        writer.call(_block_name(name, (*block, 1), "tail"), tail)


_Block = tuple[int, int, int]
"""Lines, windows and vectors of a block."""


def _block_name(name: str, block: _Block, tail: str = "") -> str:
    return f"{name}_{'x'.join(map(str, block))}{'_tail' if tail else ''}"


def _places(one: WindowFunction) -> list[str]:
    """The arguments for the lines from u, the pixels from t and the channels from g on."""
    y = f"u * {one.y_line} + t * {one.y_window} + g"
    own = [f"x + u * {one.x_line} + t * {one.x_window} + g", "w + g", f"y + {y}"]
    return own + advanced(one.epilogue, lambda _: "g", y)


def _write_block(
    one: WindowFunction, name: str, block: _Block, writer: CWriter, tail: str = ""
) -> None:
    """The function of a block; `tail` is the text of the number of channels of one with fewer than
    a vector has lanes.
    """
    kind, vector = one.dtype, f"tw_vector_{one.dtype}"
    depth, width, vectors = block
    height, c = depth * width, kind.c_name
    operands = [f"const {c} *restrict x", f"const {c} *restrict w", f"{c} *restrict y"]
    writer.head(
        f"static __attribute__((noinline)) void {_block_name(name, block, tail)}",
        [
            *operands,
            *epilogue_parameters(one.epilogue, one.dtype),
            *([f"long {tail}"] if tail else []),
        ],
    )

    def load(at: str) -> str:
        return f"tw_load_first_{kind}({at}, {tail})" if tail else f"tw_load_{kind}({at})"

    def place(row: str, v: int) -> VectorPosition:
        column = str(v * one.lanes)
        line, window = f"{row} / {width} * {one.y_line}", f"{row} % {width} * {one.y_window}"
        return VectorPosition(row, column, f"{line} + {window} + {column}", tail)

    cells = [(p, v) for p in range(height) for v in range(vectors)]
    with writer.block():
        writer.line(f"const {vector} zero = tw_broadcast_{kind}(0);")
        for p in range(height):
            names = ", ".join(f"s{p}_{v} = zero" for v in range(vectors))
            writer.line(f"{vector} {names};")
        if one.shares_pixels:
            _write_rows(one, depth, width, load, writer)
        else:
            _write_points(one, cells, load, writer)
        if one.epilogue:
            write_finished(height, vectors, one.epilogue, name, kind, place, "n", writer)
        for p, v in cells:
            offset = p // width * one.y_line + p % width * one.y_window + v * one.lanes
            if tail:
                writer.line(f"tw_store_first_{kind}(y + {offset}, {tail}, s{p}_{v});")
            else:
                writer.line(f"tw_store_{kind}(y + {offset}, s{p}_{v});")
    writer.line()


def _write_rows(
    one: WindowFunction, depth: int, width: int, load: Callable[[str], str], writer: CWriter
) -> None:
    """Products of a block of one vector, row by row of the pixels: those of two lines without a
    loop, in which compilers would keep factors for the next turn, not sums.
    """
    if depth == 1:
        with writer.block(f"for (long i = 0; i < {one.rows}; i++)"):
            _write_row(one, {0: "i"}, width, load, writer)
        return
    for row in range(one.rows + one.behind):
        points = {line: row - line * one.behind for line in range(depth)}
        used = {line: str(i) for line, i in points.items() if 0 <= i < one.rows}
        with writer.block():
            _write_row(one, used, width, load, writer)


def _write_row(
    one: WindowFunction,
    rows: Mapping[int, str],
    width: int,
    load: Callable[[str], str],
    writer: CWriter,
) -> None:
    """Products of a row of pixels, each loaded once for all windows that have it; `rows` of points
    by the lines that have one there.
    """
    kind, vector = one.dtype, f"tw_vector_{one.dtype}"
    for (line, row), point in product(rows.items(), range(one.columns)):
        factor = load(f"w + {row} * {one.columns * one.w_point} + {point * one.w_point}")
        writer.line(f"const {vector} w{line}_{point} = {factor};")
    first = f"{rows[0]} * {one.x_row}" if 0 in rows else f"{rows[1]} * {one.x_row} + {one.x_line}"
    users: dict[int, list[tuple[int, int]]] = {}
    for window, point in product(range(width), range(one.columns)):
        pixel = window * one.x_window + point * one.x_column
        users.setdefault(pixel, []).append((window, point))
    for number, (pixel, pairs) in enumerate(sorted(users.items())):
        x = load(f"x + {first} + {pixel}")
        writer.line(f"const {vector} x{number} = {x};")
        for line, (window, point) in product(rows, pairs):
            s = f"s{line * width + window}_0"
            writer.line(f"{s} = tw_multiply_add_{kind}(x{number}, w{line}_{point}, {s});")


def _write_points(
    one: WindowFunction,
    cells: Sequence[tuple[int, int]],
    load: Callable[[str], str],
    writer: CWriter,
) -> None:
    """The products of a block, point by point; `cells` are its windows and vectors."""
    kind, vector = one.dtype, f"tw_vector_{one.dtype}"
    with _points(one, writer):
        for v in sorted({v for _, v in cells}):
            writer.line(f"const {vector} w{v} = {load(f'b + {v * one.lanes}')};")
        for p, v in cells:
            x = load(f"a + {p * one.x_window + v * one.lanes}")
            writer.line(f"s{p}_{v} = tw_multiply_add_{kind}({x}, w{v}, s{p}_{v});")


@contextmanager
def _points(one: WindowFunction, writer: CWriter) -> Iterator[None]:
    """Loops over the points and terms of a window: pixels from a, factors from b on."""
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
