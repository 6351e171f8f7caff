"""Listings: address, bytes, cycle and source line side by side.

    address   bytes         cycle   line    source
    00000014  00 00 df 3c       3     16  > vldd $7, 0($1)

`>` marks a line that comes from a macro, a repetition or an included file, once per level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilewright.asm.objects.object import LineEntry, Object

_BYTES_PER_ROW = 8
_SHOWN_ROWS = 4


def listing(source: Object, cycles: Mapping[int, int] | None = None) -> str:
    """The listing of an object or image.

    `cycles` gives the cycle in which an instruction (by its index in `source.instructions`) is
    issued, as a scheduler or simulator found it; without it there is no cycle column.
    """
    index_of = {(p.section, p.offset): i for i, p in enumerate(source.instructions)}
    lines = source.lines or tuple(_decoded_lines(source))
    rows = [f"{source.file_name}: {source.instruction_set}", _heading(cycles is not None)]
    section = ""
    for entry in lines:
        if entry.section != section and entry.size_bytes:
            section = entry.section
            rows.append(f"section {section}")
        rows += _rows(source, entry, cycles, index_of)
    return "\n".join(row.rstrip() for row in rows) + "\n"


def _heading(has_cycles: bool) -> str:
    cycle = "  cycle" if has_cycles else ""
    return f"{'address':<8}  {'bytes':<{3 * _BYTES_PER_ROW - 1}}{cycle}   line    source"


def _rows(
    source: Object,
    entry: LineEntry,
    cycles: Mapping[int, int] | None,
    index_of: Mapping[tuple[str, int], int],
) -> Iterator[str]:
    """The row of a line, and more if its bytes do not fit one."""
    data, address = _bytes_of(source, entry)
    shown = data[: _SHOWN_ROWS * _BYTES_PER_ROW]
    chunks = [shown[i : i + _BYTES_PER_ROW] for i in range(0, len(shown), _BYTES_PER_ROW)] or [b""]
    place = f"{address:08x}" if entry.size_bytes else ""
    cycle = ""
    if cycles is not None:
        index = index_of.get((entry.section, entry.offset)) if entry.size_bytes else None
        found = cycles.get(index) if index is not None else None
        cycle = f"  {'' if found is None else found:>5}"
    mark = ">" * entry.depth
    text = printable(entry.text)
    yield f"{place:<8}  {_hex(chunks[0])}{cycle}  {entry.number:>5}  {mark:<2}{text}"
    for number, chunk in enumerate(chunks[1:], 1):
        yield f"{address + number * _BYTES_PER_ROW:08x}  {_hex(chunk)}"
    if len(data) > len(shown):
        yield f"          ... {len(data) - len(shown)} more bytes"


def _bytes_of(source: Object, entry: LineEntry) -> tuple[bytes, int]:
    """The bytes that a line made and their address; a section that was dropped had none."""
    found = next((s for s in source.sections if s.name == entry.section), None)
    if found is None:
        return b"", 0
    return found.data[entry.offset : entry.offset + entry.size_bytes], found.address + entry.offset


def _hex(chunk: bytes) -> str:
    return f"{chunk.hex(' '):<{3 * _BYTES_PER_ROW - 1}}"


def printable(text: str) -> str:
    """A line with nothing in it that a terminal would obey."""
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text).expandtabs(8)


def _decoded_lines(source: Object) -> Iterator[LineEntry]:
    """Lines made up from the instructions, for an object read from a file."""
    for index, placed in enumerate(source.instructions, 1):
        for label in placed.instruction.labels:
            yield LineEntry(placed.section, placed.offset, 0, source.file_name, index, f"{label}:")
        text = f"\t{placed.instruction.text()}"
        size = source.word_bytes
        yield LineEntry(placed.section, placed.offset, size, source.file_name, index, text)


# The trace of an expansion: what each line of a source became, indented below it.
#
# 4  @fc_fp y, x, w
#      block 'fc_fp'
#      smove $32, #0

_INDENT = "  "


def expansion_trace(source: Object) -> str:
    """The lines of an assembled source in the order in which they were taken.

    An object that was read from a file has none.
    """
    return "\n".join([f"{source.file_name}: {source.instruction_set}", *_trace_rows(source)]) + "\n"


def _trace_rows(source: Object) -> Iterator[str]:
    origin, depth = "", 0
    for entry in source.lines:
        indent = _INDENT * entry.depth
        if entry.depth and (entry.origin, entry.depth) != (origin, depth) and entry.depth >= depth:
            yield f"{'':5}  {indent}{printable(entry.origin)}"
        origin, depth = entry.origin, entry.depth
        number = "" if entry.depth else str(entry.number)
        yield f"{number:>5}  {indent}{printable(entry.text)}".rstrip()
