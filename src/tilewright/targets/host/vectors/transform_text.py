"""Winograd's transforms as C on vectors of channels: shared sums, no loops over single elements.

In: the points, an element type and an instruction set, whose `vector_text` precedes the text. Out:
a static function for a row of tiles. Channels are contiguous in pixels and in points. Tiles that
reach beyond the image, and channels that do not fill a cache line, go through a zero-padded copy of
one tile; results beyond the image are dropped. The epilogue applies to pixels as they are written;
its operands are vectors over the channels (bias) or pixels of the result's form (residual). Pixels
that no cache would hold are stored non-temporally if they are whole lines, and so are points that
other threads read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import DType
from tilewright.ir.shared_sums import Sum, shared_sums
from tilewright.ir.winograd import Matrix, transforms
from tilewright.targets.host.vectors.epilogue import (
    PLAIN_SUMS,
    Bias,
    Finish,
    VectorPosition,
    epilogue_parameters,
    finish_function,
    names,
    with_finish,
)
from tilewright.targets.host.vectors.microkernel import LINE_BYTES

Direction = Literal["input", "output"]

_ROW = """\
/* A row of tiles, `images` each: pixels are `rows` x `columns` from the first tile on, zero beyond.
   Steps are in elements. */
static void NAME(long tiles, long images, long channels, long rows, long columns,
        PIXELS *x, long x_row, long x_column, long x_image,
        POINTS *v, long v_point, long v_tile, long v_imageDECLARED)
{
    for (long tile = 0; tile < tiles; tile++, columns -= STEP, v += v_tile) {
        const int whole = rows >= WINDOW && columns >= WINDOW;
        for (long image = 0; image < images; image++) {
            const long place = tile * STEP * x_column + image * x_image;
            PIXELS *const at = x + place;
            POINTS *const to = v + image * v_image;
            long i = 0;
STREAMED            for (; whole && i + LINE <= channels; i += LINE)
                NAME_tile(at + i, x_row, x_column, to + i, v_pointADVANCED);
            for (; i < channels; i += LINE)
                NAME_edge(channels - i < LINE ? channels - i : LINE, rows, columns,
                        at + i, x_row, x_column, to + i, v_pointADVANCED);
        }
    }
}
"""

_STREAMED = """\
            if (((unsigned long)at | sizeof *x * (x_row | x_column)) % LINE_BYTES == 0)
                for (; whole && i + LINE <= channels; i += LINE)
                    NAME_stream(at + i, x_row, x_column, to + i, v_pointADVANCED);
"""

_EDGE_INPUT = """\
static __attribute__((noinline)) void NAME_edge(long lanes, long rows, long columns,
        const TYPE *x, long x_row, long x_column, TYPE *v, long v_point)
{
    TYPE pixels[WINDOW * WINDOW * LINE] = {0}, points[COUNT * LINE];
    for (long r = 0; r < WINDOW && r < rows; r++)
        for (long c = 0; c < WINDOW && c < columns; c++)
            NAME_copy(lanes, pixels + (r * WINDOW + c) * LINE, x + r * x_row + c * x_column);
    const int whole = lanes == LINE;
    NAME_tile(pixels, WINDOW * LINE, LINE, whole ? v : points, whole ? v_point : LINE);
    for (long p = 0; p < COUNT && !whole; p++)
        NAME_copy(lanes, v + p * v_point, points + p * LINE);
}
"""

_EDGE_OUTPUT = """\
static __attribute__((noinline)) void NAME_edge(long lanes, long rows, long columns,
        TYPE *x, long x_row, long x_column, const TYPE *v, long v_pointDECLARED)
{
    TYPE pixels[WINDOW * WINDOW * LINE], points[COUNT * LINE];
COPIED    const int whole = lanes == LINE;
    for (long i = 0; i < COUNT * LINE && !whole; i++)
        points[i] = 0;
    for (long p = 0; p < COUNT && !whole; p++)
        NAME_copy(lanes, points + p * LINE, v + p * v_point);
    NAME_tile(pixels, WINDOW * LINE, LINE, whole ? v : points, whole ? v_point : LINEHERE);
    for (long r = 0; r < WINDOW && r < rows; r++)
        for (long c = 0; c < WINDOW && c < columns; c++)
            NAME_copy(lanes, x + r * x_row + c * x_column, pixels + (r * WINDOW + c) * LINE);
}
"""

_COPIED_BIAS = """\
    TYPE GIVEN_line[LINE] = {0};
    NAME_copy(lanes, GIVEN_line, GIVEN);
"""

_COPIED_RESIDUAL = """\
    TYPE GIVEN_line[WINDOW * WINDOW * LINE] = {0};
    for (long r = 0; r < WINDOW && r < rows; r++)
        for (long c = 0; c < WINDOW && c < columns; c++)
            NAME_copy(lanes, GIVEN_line + (r * WINDOW + c) * LINE,
                    GIVEN + r * x_row + c * x_column);
"""

_COPY = """\
static inline void NAME_copy(long lanes, TYPE *restrict to, const TYPE *restrict from)
{
    if (lanes == LINE) {
        for (long l = 0; l < LINE; l++)
            to[l] = from[l];
    } else {
        for (long l = 0; l < lanes; l++)
            to[l] = from[l];
    }
}
"""


@dataclass(frozen=True)
class LineTransform:
    """One transform of whole lines of channels, `lanes` per vector, with an `epilogue` for the
    pixels that it writes. With `streams`, it uses non-temporal stores: for all points, whose
    channels are then whole lines, or for pixels that are aligned. Other threads see them after a
    fence.
    """

    name: str
    direction: Direction
    points: str
    dtype: DType
    lanes: int
    epilogue: Finish = PLAIN_SUMS
    streams: bool = False

    @property
    def line(self) -> int:
        """Channels per step, at least a cache line: a line stored by halves is fetched again."""
        return max(self.lanes, LINE_BYTES // self.dtype.size_bytes)


def emit_transform(one: LineTransform) -> str:
    """C text of `static void name(tiles, images, channels, rows, columns, x, x_row, x_column,
    x_image, v, v_point, v_tile, v_image, ...)`: x are pixels, v points, and the epilogue's operands
    follow.
    """
    tile, side = transforms(one.points).output.shape
    forward, c = one.direction == "input", one.dtype.c_name
    aligned = one.streams and not forward
    given = names(one.epilogue)
    words = {
        "STREAMED": _STREAMED if aligned else "",
        "LINE_BYTES": str(LINE_BYTES),
        "DECLARED": "".join(f", const {c} *{name}" for name, _ in given),
        "ADVANCED": "".join(
            f", {name} + {'i' if isinstance(s, Bias) else 'place + i'}" for name, s in given
        ),
        "COPIED": "".join(
            (_COPIED_BIAS if isinstance(s, Bias) else _COPIED_RESIDUAL).replace("GIVEN", name)
            for name, s in given
        ),
        "HERE": "".join(f", {name}_line" for name, _ in given),
        "PIXELS": f"const {c}" if forward else c,
        "POINTS": c if forward else f"const {c}",
        "NAME": one.name,
        "TYPE": c,
        "WINDOW": str(side if forward else tile),
        "STEP": str(tile),
        "COUNT": str(side * side),
        "LINE": str(one.line),
    }
    text = "\n".join((_COPY, _EDGE_INPUT if forward else _EDGE_OUTPUT, _ROW))
    for word, value in words.items():
        text = text.replace(word, value)
    stores = [("tile", "stream" if one.streams and forward else "store")]
    stores += [("stream", "stream")] if aligned else []
    tiles = (_tile_text(one, f"{one.name}_{word}", store) for word, store in stores)
    return "\n".join((finish_function(one.epilogue, one.name, one.dtype, apart=True), *tiles, text))


def _tile_text(one: LineTransform, function: str, store: str) -> str:
    """C function for one tile and one line of channels: down the columns, then along the rows."""
    found, kind, writer = transforms(one.points), one.dtype, CWriter()
    tile, side = found.output.shape
    x = [f"x + {{}} * x_row + {{}} * x_column + l * {one.lanes}"]
    v = [f"v + ({{}} * {side} + {{}}) * v_point + l * {one.lanes}"]
    const, c = "const ", kind.c_name
    if one.direction == "input":
        matrix, rows, divisor, (source,), (target,) = found.input, side, 1.0, x, v
        own = [f"{const}{c} *x", "long x_row", "long x_column", f"{c} *v", "long v_point"]
    else:
        matrix, rows, divisor, (source,), (target,) = found.output, tile, found.divisor, v, x
        own = [f"{c} *x", "long x_row", "long x_column", f"{const}{c} *v", "long v_point"]
    own += epilogue_parameters(one.epilogue, kind)
    writer.head(f"static inline __attribute__((always_inline)) void {function}", own)
    vectors = one.line // one.lanes
    with writer.block():
        writer.line(f"tw_vector_{kind} half[{vectors}][{rows}][{side}];")
        with _unrolled("c", side, writer):
            if one.direction == "input":
                with writer.block(f"if (c >= {side - tile})"):  # both tiles share other columns
                    _write_prefetches((f"{k} * x_row + (c + {tile})" for k in range(side)), writer)
            with _unrolled("l", vectors, writer):
                loads = [f"tw_load_{kind}({source.format(k, 'c')})" for k in range(side)]
                _write_sums(matrix, loads, 1.0, kind, writer)
                for k in range(rows):
                    writer.line(f"half[l][{k}][c] = q{k};")
        with _unrolled("r", rows, writer):
            if one.direction == "output" and store == "store":
                _write_prefetches((f"r * x_row + {k + tile}" for k in range(tile)), writer)
            with _unrolled("l", vectors, writer):
                copies = [f"half[l][r][{k}]" for k in range(side)]
                _write_sums(matrix, copies, divisor, kind, writer, finished=not one.epilogue)
                for k in range(rows):
                    _write_finish(one, k, writer)
                    writer.line(f"tw_{store}_{kind}({target.format('r', k)}, q{k});")
    return writer.text()


def _write_prefetches(columns: Iterable[str], writer: CWriter) -> None:
    """Write prefetches of the next tile's pixels into the level 2 cache: a tile has more rows than
    hardware prefetchers follow, and results miss the caches as operands do.
    """
    for column in columns:
        writer.line(f"__builtin_prefetch(x + {column} * x_column, 0, 2);")


def _write_finish(one: LineTransform, k: int, writer: CWriter) -> None:
    """Write the epilogue of the pixels in column k."""
    lane = f"l * {one.lanes}"
    place = VectorPosition("r", lane, f"r * x_row + {k} * x_column + {lane}", "")
    if one.epilogue:
        value = with_finish(f"q{k}", one.epilogue, one.name, one.dtype, place, "n")
        writer.line(f"q{k} = {value};")


def _unrolled(counter: str, count: int, writer: CWriter) -> AbstractContextManager[None]:
    writer.line(f"#pragma GCC unroll {count}")
    return writer.block(f"for (long {counter} = 0; {counter} < {count}; {counter}++)")


def _write_sums(
    matrix: Matrix,
    values: Sequence[str],
    divisor: float,
    kind: DType,
    writer: CWriter,
    *,
    finished: bool = True,
) -> None:
    """Write q0, q1, ... = matrix x values / divisor, as constants if `finished`."""
    for k, value in enumerate(values):
        writer.line(f"const tw_vector_{kind} p{k} = {value};")
    for one in shared_sums(matrix):
        scale = divisor if one.name.startswith("q") else 1.0
        const = "const " if finished else ""
        writer.line(f"{const}tw_vector_{kind} {one.name} = {_expression(one, kind, scale)};")


def _expression(one: Sum, kind: DType, divisor: float) -> str:
    """C text of a sum over `divisor`, in C's operators; a constant applies to all lanes.

    >>> from tilewright.common.dtypes import F32
    >>> _expression(Sum("q", ((-0.5, "a"), (1.0, "b"), (-1.0, "c"), (3.0, "d"))), F32, 1.0)
    'b - 0.5f * a - c + 3.0f * d'
    """
    if not one.terms:
        return f"tw_broadcast_{kind}(0)"
    suffix = "f" if kind.size_bytes == 4 else ""
    text = ""
    for coefficient, name in sorted(one.terms, key=lambda term: term[0] != 1):
        size = abs(coefficient)
        term = name if size == 1 else f"{size!r}{suffix} * {name}"
        if text:
            text += f" {'-' if coefficient < 0 else '+'} {term}"
        else:
            text = f"-{term}" if coefficient < 0 else term
    return text if divisor == 1.0 else f"({text}) / {divisor!r}{suffix}"
