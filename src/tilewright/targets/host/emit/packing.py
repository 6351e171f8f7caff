"""Packing copies as C text: a strided matrix in, panels for a micro-kernel out, padded with zeros.

Panels are blocks of an operand's rows (its extent along m or n), stored one after the other with k
outside, as `Microkernel` reads them. The loops are plain C. If the source is contiguous across
panels, the inner loop copies a constant count of neighbours, for several panels at once, and
prefetches later rows, as processors do not prefetch rows a page or more apart. If it is contiguous
along k, squares that fill registers of 16 bytes are transposed.
"""

from __future__ import annotations

from tilewright.common.dtypes import DType
from tilewright.targets.host.vectors.instruction_sets import InstructionSet
from tilewright.targets.host.vectors.microkernel import LINE_BYTES

_SQUARE = """\
/* Transposes a square of x, whose rows are `step` apart, to rows that are BLOCK apart. */
static inline void NAME_square(const TYPE *restrict x, long step, TYPE *restrict to)
{
#if defined(__GNUC__) && !defined(__clang__)
    typedef WORD row __attribute__((vector_size(BYTES)));
    const row low = {LOW}, high = {HIGH};
INTERLEAVED
#else
    for (long p = 0; p < SIDE; p++)
        for (long r = 0; r < SIDE; r++)
            to[p * BLOCK + r] = x[r * step + p];
#endif
}
"""
SQUARE_BYTES = 16
"""Bytes of a row of a square: every processor has registers of so many."""
_WORDS = {1: "signed char", 2: "short", 4: "int", 8: "long long"}

_TURN = """\
/* Transposes `rows` rows of x, `step` apart, of `columns` elements to rows that are BLOCK apart,
   and fetches what follows in x ahead. */
static void NAME(long rows, long columns, const TYPE *restrict x, long step, TYPE *restrict to)
{
    const long last = rows - rows % SIDE, end = columns - columns % SIDE;
    for (long r = 0; r < rows; r++)
        __builtin_prefetch(x + r * step + BLOCK);
    for (long r = 0; r < last; r += SIDE)
        for (long p = 0; p < end; p += SIDE)
            NAME_square(x + r * step + p, step, to + p * BLOCK + r);
    for (long r = 0; r < rows; r++)
        for (long p = r < last ? end : 0; p < columns; p++)
            to[p * BLOCK + r] = x[r * step + p];
}
"""

_PACK = """\
/* Packs `extent` x k elements of x into panels of BLOCK: to[i / BLOCK][p][i % BLOCK]. Neighbours
   along the extent are `step` elements apart, those along k `k_step`, panels `pitch`; new elements
   are zero. */
static void NAME(long extent, long k, const TYPE *restrict x, long step, long k_step,
        TYPE *restrict to, long pitch)
{
    long i = 0;
    for (; step == 1 && extent - i >= SEVERAL; i += SEVERAL, x += SEVERAL, to += PANELS * pitch)
        for (long p = 0; p < k; p++) {
            const TYPE *const from = x + p * k_step;
            for (long r = 0; r < SEVERAL; r += LINE)
                __builtin_prefetch(from + AHEAD * k_step + r, 0, 2);
            for (long b = 0; b < PANELS; b++)
                memcpy(to + b * pitch + p * BLOCK, from + b * BLOCK, BLOCK * sizeof *to);
        }
    for (; i < extent; i += BLOCK, x += BLOCK * step, to += pitch) {
        const long height = extent - i < BLOCK ? extent - i : BLOCK;
        if (height == BLOCK && step == 1) {
            for (long p = 0; p < k; p++)
                memcpy(to + p * BLOCK, x + p * k_step, BLOCK * sizeof *to);
        } else if (height == BLOCK && k_step == 1) {
            const long squares = k - k % SIDE;
            for (long p = 0; p < squares; p += SIDE) {
                for (long r = 0; r < WHOLE; r += SIDE)
                    NAME_square(x + r * step + p, step, to + p * BLOCK + r);
                for (long r = WHOLE; r < BLOCK; r++)
                    for (long q = p; q < p + SIDE; q++)
                        to[q * BLOCK + r] = x[r * step + q];
            }
            for (long p = squares; p < k; p++)
                for (long r = 0; r < BLOCK; r++)
                    to[p * BLOCK + r] = x[r * step + p];
        } else {
            for (long p = 0; p < k; p++) {
                for (long r = 0; r < height; r++)
                    to[p * BLOCK + r] = x[r * step + p * k_step];
                for (long r = height; r < BLOCK; r++)
                    to[p * BLOCK + r] = 0;
            }
        }
    }
}
"""

_COPY = """\
/* Copies rows of `columns` elements; zeros follow them up to `padded` elements. */
static void NAME(long rows, long columns, long padded, const TYPE *restrict x, long x_stride,
        TYPE *restrict to, long to_stride)
{
    for (long i = 0; i < rows; i++, x += x_stride, to += to_stride) {
        for (long j = 0; j < columns; j++)
            to[j] = x[j];
        for (long j = columns; j < padded; j++)
            to[j] = 0;
    }
}
"""


_STREAM = """\
/* The same where no cache keeps what is written: whole lines go to memory unread. Others see them
   after a fence. */
static void NAME(long rows, long columns, long padded, const TYPE *restrict x, long x_stride,
        TYPE *restrict to, long to_stride)
{
    if ((unsigned long)to % BYTES || to_stride % LANES || padded % LANES || padded != columns) {
        PLAIN(rows, columns, padded, x, x_stride, to, to_stride);
        return;
    }
    for (long i = 0; i < rows; i++, x += x_stride, to += to_stride)
        for (long j = 0; j < columns; j += LANES)
            tw_stream_KIND(to + j, tw_load_KIND(x + j));
}
"""


def panels_at_once(ways: int) -> int:
    """Panels that a copy writes together: a power of two, which divides most extents. Panels of
    many k lie a multiple of what a way holds apart: their lines take at most half of a set of so
    many ways, and the rest is left to what is read.

    >>> [panels_at_once(ways) for ways in (1, 8, 12, 16)]
    [1, 4, 4, 8]
    """
    return 1 << max(ways // 2, 1).bit_length() - 1


def emit_pack(name: str, kind: DType, block: int, panels: int = 1, rows_ahead: int = 1) -> str:
    """C text of `static void name(extent, k, x, step, k_step, to, pitch)`, which packs into panels,
    so many at once where it copies rows, and fetches rows so far ahead.

    A panel takes block * k elements of `to`, `pitch` elements after the one before.
    """
    words = {"SEVERAL": panels * block, "PANELS": panels, "AHEAD": rows_ahead}
    text = _by_squares(_PACK, name, kind, block)
    for word, number in words.items():
        text = text.replace(word, str(number))
    return text


def emit_turn(name: str, kind: DType, block: int) -> str:
    """C text of `static void name(rows, columns, x, step, to)`, which transposes up to `block` rows
    of x into rows `block` elements apart.
    """
    return _by_squares(_TURN, name, kind, block)


def _by_squares(text: str, name: str, kind: DType, block: int) -> str:
    """C text of a function, preceded by the one that transposes a square: in rounds that interleave
    the rows of its upper half with those of its lower half.
    """
    side = SQUARE_BYTES // kind.size_bytes
    half = side // 2
    lines = [f"row a{r}; memcpy(&a{r}, x + {r} * step, {SQUARE_BYTES});" for r in range(side)]
    old = "a"
    for new in "bcde"[: side.bit_length() - 1]:
        for r in range(side):
            pair = f"{old}{r // 2}, {old}{r // 2 + half}"
            mask = "high" if r % 2 else "low"
            lines.append(f"const row {new}{r} = __builtin_shuffle({pair}, {mask});")
        old = new
    lines += [f"memcpy(to + {r} * BLOCK, &{old}{r}, {SQUARE_BYTES});" for r in range(side)]
    low, high = (
        ", ".join(f"{i}, {i + side}" for i in range(first, first + half)) for first in (0, half)
    )
    words = {"INTERLEAVED": "\n".join(f"    {line}" for line in lines), "LOW": low, "HIGH": high,
             "BYTES": str(SQUARE_BYTES),
             "WORD": _WORDS[kind.size_bytes], "BLOCK": str(block), "SIDE": str(side),
             "WHOLE": str(block // side * side),
             "LINE": str(LINE_BYTES // kind.size_bytes)}  # fmt: skip
    text = "#include <string.h>\n" + _filled_in(_SQUARE + text, name, kind)
    for word, own in words.items():
        text = text.replace(word, own)
    return text


def emit_copy(name: str, kind: DType) -> str:
    """C text of `static void name(rows, columns, padded, x, x_stride, to, to_stride)`."""
    return _filled_in(_COPY, name, kind)


def emit_stream(name: str, plain: str, kind: DType, isa: InstructionSet) -> str:
    """C text of the function `name`, which does what `plain` does, by non-temporal stores; `isa`
    must have them (`InstructionSet.streams`).
    """
    lanes = isa.lanes(kind)
    text = _filled_in(_STREAM, name, kind).replace("PLAIN", plain).replace("KIND", str(kind))
    return text.replace("LANES", str(lanes)).replace("BYTES", str(isa.vector_bytes))


def _filled_in(text: str, name: str, kind: DType) -> str:
    return text.replace("NAME", name).replace("TYPE", kind.c_name)
