"""What calls of the routines of maps and of reductions share: how pointers move along loops, and
the header that declares a routine, or defines it in C where `TW_MAPS_IN_C` is defined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.codegen.c.loop_nest import Loop
from tilewright.codegen.c.writer import CWriter
from tilewright.common.expr import Expr


def pointer_moves(loops: Sequence[Loop], operand: int) -> list[Expr]:
    """How far the pointer goes at the end of an iteration of each loop, outermost first."""
    strides = [loop.strides[operand] for loop in loops]
    inner = [loop.extent * s for loop, s in zip(loops, strides, strict=True)]
    return [*(s - after for s, after in zip(strides, inner[1:], strict=False)), strides[-1]]


def routine_header(
    name: str, what: str, types: tuple[str, str], twin: Callable[[CWriter], None]
) -> str:
    """The header of a routine of the result and the sources of these `types`, of which a comment
    says what it computes; `twin` writes its body in C.
    """
    writer, guard, numbers = CWriter(), name.upper(), "const long *"
    writer.comment(f"{name}.h: {what}. Generated.")
    writer.lines(f"#ifndef {guard}\n#define {guard}")
    writer.lines("#ifdef TW_MAPS_IN_C\n#include <math.h>")
    pairs = zip((*types, numbers, numbers), ("y", "x", "count", "move"), strict=True)
    writer.head(f"static void {name}", [f"{kind}{own}" for kind, own in pairs])
    twin(writer)
    writer.line("#else")
    writer.call(f"extern void {name}", [*types, numbers, numbers])
    writer.lines("#endif\n#endif")
    return writer.text()
