"""The trace of an expansion: what each line of a source became, indented below it.

4  @fc_fp y, x, w
     block 'fc_fp'
     smove $32, #0
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.asm.objects.listing import printable
from tilewright.asm.objects.object import Object

_INDENT = "  "


def expansion_trace(source: Object) -> str:
    """The lines of an assembled source in the order in which they were taken.

    An object that was read from a file has none.
    """
    return "\n".join([f"{source.file_name}: {source.instruction_set}", *_rows(source)]) + "\n"


def _rows(source: Object) -> Iterator[str]:
    origin, depth = "", 0
    for entry in source.lines:
        indent = _INDENT * entry.depth
        if entry.depth and (entry.origin, entry.depth) != (origin, depth) and entry.depth >= depth:
            yield f"{'':5}  {indent}{printable(entry.origin)}"
        origin, depth = entry.origin, entry.depth
        number = "" if entry.depth else str(entry.number)
        yield f"{number:>5}  {indent}{printable(entry.text)}".rstrip()
