"""The elementwise primitives in portable C, as `tw_primitives.h` and `.c` or as static functions.

The matrices of Winograd's transforms become straight-line sums over integers (`ir.winograd`).
Elements are widened to double inside a transform, so single-precision results are rounded once.
"""

from __future__ import annotations

import re
from functools import cache

from tilewright.codegen.c.loop_nest import MAXIMUM_LOOPS
from tilewright.codegen.c.winograd_text import winograd_functions, winograd_prototypes
from tilewright.codegen.c.writer import library_text
from tilewright.common.dtypes import FLOATS, DType

STRIDED_ARGUMENTS = "const long *count,\n        const long *y_stride, const long *x_stride"

_LIMITS = f"enum {{ TW_LOOPS = {MAXIMUM_LOOPS}, TW_RANK = 8 }};"

_ARITHMETIC = library_text("arithmetic.h")

_LOOPS = library_text("loops.h")


def _over_elements(
    function: str, statement: str, *, reads: bool = True, constants: str = ""
) -> str:
    """A function over the elements `to[i * dy]` of y, and `from[i * dx]` of x if it `reads`, whose
    innermost loop executes `statement`.
    """
    stride = ", dx = x_stride[last]" if reads else ""
    source = "        const TYPE *const from = x + tw_place(at, x_stride);\n" if reads else ""
    return f"""\
void tw_{function}
{{
    const long last = TW_LOOPS - 1, n = count[last], dy = y_stride[last]{stride};
{constants}    long at[TW_LOOPS] = {{0}}, i;
    if (tw_empty(count))
        return;
    do {{
        TYPE *const to = y + tw_place(at, y_stride);
{source}        for (i = 0; i < n; i++)
            {statement};
    }} while (tw_next(at, count));
}}
"""


_FILL = _over_elements(
    "fill_SUFFIX(TYPE *y, const long *count, const long *y_stride, double value)",
    "to[i * dy] = (TYPE)value",
    reads=False,
)
_COPY = _over_elements("copy_SUFFIX(TYPE *y, const TYPE *x, STRIDED)", "to[i * dy] = from[i * dx]")
_SCALE_ADD = _over_elements(
    "scale_add_SUFFIX(TYPE *y, const TYPE *x, STRIDED, double alpha, double beta)",
    "to[i * dy] = a * to[i * dy] + b * from[i * dx]",
    constants="    const TYPE a = (TYPE)alpha, b = (TYPE)beta;\n",
)
_ELEMENTWISE = f"{_FILL}\n{_COPY}\n{_SCALE_ADD}"

_REPACK = library_text("repack.h")

_REPACK_ROWS = library_text("repack_rows.h")


_PROTOTYPES = """\
/* Another length for the rows of a tile in its place. */
void tw_repack_rows_SUFFIX(TYPE *tile, long rows, long new_length, long old_length);

"""

_WINOGRAD_COMMENT = """\
/* Winograd's transforms of one tile of points; _row and _column are the strides of its points. */
"""


@cache
def primitives_header() -> str:
    """The text of `tw_primitives.h`."""
    prototypes = "\n".join(_prototypes(kind) for kind in FLOATS)
    return f"""\
/* Elementwise primitives on one core's LDM. Generated.
 *
 * `count` holds the extents of TW_LOOPS nested loops, outermost first; `y_stride` and `x_stride`
 * say how many elements apart the steps of each loop are. The result is always y. */
#ifndef TW_PRIMITIVES_H
#define TW_PRIMITIVES_H

{_LIMITS}

/* Integer arithmetic that rounds towards minus infinity; the modulus has the sign of b. */
{_ARITHMETIC}
{prototypes}
#endif
"""


@cache
def primitives_source() -> str:
    """The text of `tw_primitives.c`."""
    parts = [
        "/* Elementwise primitives on one core's LDM. Generated. */",
        '#include "tw_primitives.h"',
    ]
    parts.append(_LOOPS)
    for kind in FLOATS:
        parts.append(_for_type(_REPACK_ROWS, kind))
        parts.append(winograd_functions(kind))
    return "\n".join(parts)


def integer_arithmetic() -> str:
    """C text of the functions that `c_expression` calls."""
    return _ARITHMETIC


@cache
def static_primitives(kinds: tuple[DType, ...], *, winograd: tuple[str, ...] = ()) -> str:
    """The primitives of some element types as static functions, for inclusion in one file, with the
    Winograd transforms of the given points.
    """
    parts = [_LIMITS, _LOOPS]
    for kind in kinds:
        elementwise = _for_type(f"{_ELEMENTWISE}\n{_REPACK}", kind)
        functions = [elementwise, winograd_functions(kind, winograd)]
        for text in functions:
            parts.append(re.sub(r"^void ", "static void ", text, flags=re.MULTILINE))
    return "\n\n".join(part.rstrip("\n") for part in parts if part)


@cache
def inline_primitives(kind: DType) -> str:
    """The primitives that move elements of a type without a library, guarded against repetition."""

    def once(guard: str, text: str) -> str:
        inline = re.sub(r"^(static )?(void|int|long) ", r"static inline \2 ", text, flags=re.M)
        return f"#ifndef {guard}\n#define {guard}\n{inline.rstrip()}\n#endif"

    own = _for_type(f"{_FILL}\n{_COPY}\n{_REPACK_ROWS}", kind)
    return f"{once('TW_NESTS', _LOOPS)}\n{once(f'TW_MOVES_{kind.name}', own)}"


def _for_type(text: str, kind: DType) -> str:
    names = {"SUFFIX": kind.name, "TYPE": kind.c_name, "STRIDED": STRIDED_ARGUMENTS}
    for word, value in names.items():
        text = text.replace(word, value)
    return text


def _prototypes(kind: DType) -> str:
    elementwise = _for_type(_PROTOTYPES, kind)
    return f"{elementwise}{_WINOGRAD_COMMENT}{winograd_prototypes(kind)}\n"
