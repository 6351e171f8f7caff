"""Sums of windows as C on vectors of channels: the sums of several pixels stay in registers.

In: a `WindowFunction`, for an instruction set whose `vector_text` comes first. Out: a static
function for a row of windows. A block is one vector of channels by some windows: each pixel of a
row is loaded once and multiplied by the factors of all points at which windows of the block have
it. Where those factors exceed the registers, it is two vectors by as many windows, multiplied and
added point by point. Fewer windows and channels that are left take smaller blocks, the last
channels with masks. The epilogue is applied to complete sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
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


def block_pixels(registers: int | None) -> int:
    """Pixels of a block for so many vector registers.

    >>> block_pixels(16), block_pixels(32)
    (7, 14)
    """
    return _PIXELS * max(1, (registers or _REGISTERS) // _REGISTERS)


def shares_pixels(columns: int, terms: int, registers: int | None) -> bool:
    """True if registers hold the sums of a block, the factors of a row of points, and a pixel.

    >>> [shares_pixels(columns, 1, 16) for columns in (1, 3, 7, 9)]
    [False, True, True, False]
    """
    held = block_pixels(registers) + columns + 1
    return columns > 1 and terms == 1 and held <= (registers or _REGISTERS)


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
    """The sums of `windows` windows of a row, for neighbouring channels.

    A window has `rows` x `columns` points of `terms` elements each. Steps are in elements: from row
    to row, column to column and term to term of the pixels, from window to window of pixels and
    results, from point to point and term to term of the factors.
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
    shares_pixels: bool = False
    epilogue: Finish = PLAIN_SUMS

    @property
    def vectors(self) -> int:
        """Vectors of channels of the widest block."""
        return 1 if self.shares_pixels else _VECTORS

    @property
    def heights(self) -> tuple[int, ...]:
        """Pixels of the blocks, largest first."""
        whole = (self.pixels,) if self.windows >= self.pixels else ()
        rest = self.windows % self.pixels
        return (*whole, rest) if rest else whole


def emit_window_function(one: WindowFunction, name: str) -> str:
    """C text of `static void name(channels, x, w, y, ...)`, pixels, factors and results; what
    lies beside the results follows.
    """
    writer = CWriter()
    writer.lines(finish_function(one.epilogue, name, one.dtype))
    for height in one.heights:
        for vectors in range(one.vectors, 0, -1):
            _write_block(one, name, height, vectors, writer)
        _write_block(one, name, height, 1, writer, "tail")
    kind = one.dtype.c_name
    operands = [f"const {kind} *x", f"const {kind} *w", f"{kind} *y"]
    writer.head(
        f"static void {name}",
        ["long channels", *operands, *epilogue_parameters(one.epilogue, one.dtype)],
    )
    with writer.block():
        first = 0
        for height in one.heights:
            end = first + (one.windows - first) // height * height
            with writer.block(f"for (long t = {first}; t < {end}; t += {height})"):
                _write_channels(one, name, height, writer)
            first = end
    return writer.text()


def _write_channels(one: WindowFunction, name: str, height: int, writer: CWriter) -> None:
    """The calls for all channels of some pixels."""
    writer.line("long g = 0;")
    for vectors in range(one.vectors, 0, -1):
        width = vectors * one.lanes
        with writer.block(f"for (; g + {width} <= channels; g += {width})"):
            writer.call(_block_name(name, height, vectors), _places(one))
    writer.line("if (g < channels)")
    with writer.deeper():
        tail = [*_places(one), "channels - g"]
        writer.call(_block_name(name, height, 1, "tail"), tail)


def _block_name(name: str, height: int, vectors: int, tail: str = "") -> str:
    return f"{name}_{height}x{vectors}{'_tail' if tail else ''}"


def _places(one: WindowFunction) -> list[str]:
    """The arguments for the pixels from t and the channels from g on."""
    y = f"t * {one.y_window} + g"
    own = [f"x + t * {one.x_window} + g", "w + g", f"y + {y}"]
    return own + advanced(one.epilogue, lambda _: "g", y)


def _write_block(
    one: WindowFunction, name: str, height: int, vectors: int, writer: CWriter, tail: str = ""
) -> None:
    """The function of a block; `tail` is the text of the number of channels of one with fewer than
    a vector has lanes.
    """
    kind, vector = one.dtype, f"tw_vector_{one.dtype}"
    c = kind.c_name
    operands = [f"const {c} *restrict x", f"const {c} *restrict w", f"{c} *restrict y"]
    writer.head(
        f"static __attribute__((noinline)) void {_block_name(name, height, vectors, tail)}",
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
        return VectorPosition(row, column, f"{row} * {one.y_window} + {column}", tail)

    cells = [(p, v) for p in range(height) for v in range(vectors)]
    with writer.block():
        writer.line(f"const {vector} zero = tw_broadcast_{kind}(0);")
        for p in range(height):
            names = ", ".join(f"s{p}_{v} = zero" for v in range(vectors))
            writer.line(f"{vector} {names};")
        if one.shares_pixels:
            _write_rows(one, height, load, writer)
        else:
            _write_points(one, cells, load, writer)
        if one.epilogue:
            write_finished(height, vectors, one.epilogue, name, kind, place, "n", writer)
        for p, v in cells:
            offset = p * one.y_window + v * one.lanes
            if tail:
                writer.line(f"tw_store_first_{kind}(y + {offset}, {tail}, s{p}_{v});")
            else:
                writer.line(f"tw_store_{kind}(y + {offset}, s{p}_{v});")
    writer.line()


def _write_rows(
    one: WindowFunction, height: int, load: Callable[[str], str], writer: CWriter
) -> None:
    """Products of a block of one vector, row by row: each pixel for all windows that have it."""
    kind, vector = one.dtype, f"tw_vector_{one.dtype}"
    users: dict[int, list[tuple[int, int]]] = {}
    for window in range(height):
        for point in range(one.columns):
            pixel = window * one.x_window + point * one.x_column
            users.setdefault(pixel, []).append((window, point))
    with _points(replace(one, columns=1, w_point=one.columns * one.w_point), writer):
        for point in range(one.columns):
            writer.line(f"const {vector} w{point} = {load(f'b + {point * one.w_point}')};")
        for number, (pixel, pairs) in enumerate(sorted(users.items())):
            writer.line(f"const {vector} x{number} = {load(f'a + {pixel}')};")
            for window, point in pairs:
                s = f"s{window}_0"
                writer.line(f"{s} = tw_multiply_add_{kind}(x{number}, w{point}, {s});")


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
