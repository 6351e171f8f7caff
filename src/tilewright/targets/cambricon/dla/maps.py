"""Maps of an object: the segments of its data, and the scratchpad buffers of its blocks.

In: the buffers recorded while blocks were expanded. Out: a section of the object with one line of
JSON per buffer, and the maps as readable text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

import msgspec

from tilewright.asm import Object
from tilewright.asm.diagnostics import SourceLine
from tilewright.targets.cambricon.dla.builder import Builder
from tilewright.targets.cambricon.dla.declarations import (
    ELEMENT_BYTES,
    Data,
    declared_in,
    json_records,
    stored_records,
)
from tilewright.targets.cambricon.dla.host import SECTION as HOST
from tilewright.targets.cambricon.dla.host import HostStep

SECTION = ".buffers"
_SHOWN_SEGMENTS = 8


class PlacedBuffer(msgspec.Struct, frozen=True):
    """Scratchpad elements used by a block that is called at a line."""

    block: str
    file: str
    line: int
    memory: str
    name: str
    address: int
    size: int


def placed_buffers(block: str, line: SourceLine, builder: Builder) -> list[PlacedBuffer]:
    """The buffers of a block."""
    return [
        PlacedBuffer(block, line.file, line.number, b.memory, b.name, b.address, b.size)
        for b in builder.buffers
    ]


def stored(buffers: Sequence[PlacedBuffer]) -> tuple[str, ...]:
    """The lines that store buffers in the object."""
    return stored_records(SECTION, buffers)


def maps(source: Object) -> tuple[str, ...]:
    """Rows for data segments, each block's scratchpads, and the host. Raises AssemblyError."""
    data = declared_in(source).values()
    found = json_records(source, SECTION, PlacedBuffer)
    rows: list[str] = []
    if data:
        rows += ["", "segments, in elements", *_segments(source, data)]
    if found:
        rows += ["", "scratchpads, in elements", *_scratchpads(found)]
    steps = json_records(source, HOST, HostStep)
    if steps:
        rows += ["", "host program", *(f"  {step.text()}" for step in steps)]
    return tuple(rows)


def _segments(source: Object, data: Iterable[Data]) -> Iterator[str]:
    for one in data:
        section = source.symbol(one.name).section or ""
        first = source.address_of(one.name) // ELEMENT_BYTES
        yield f"  {first:08x} .. {first + one.layout.size - 1:08x}  {section:<10}  {one.places}"
        indices = list(one.layout.indices())
        for index in indices[:_SHOWN_SEGMENTS] if len(indices) > 1 else ():
            offset, size = first + one.layout.offset(index), prod(one.layout.shape(index))
            place = ", ".join(map(str, index))
            yield f"    {offset:08x} .. {offset + size - 1:08x}  segment {place}"
        if len(indices) > _SHOWN_SEGMENTS:
            yield f"    ... {len(indices) - _SHOWN_SEGMENTS} more segments"


def _scratchpads(buffers: Sequence[PlacedBuffer]) -> Iterator[str]:
    place = ("", 0, "")
    for one in buffers:
        if (one.file, one.line, one.block) != place:
            place = (one.file, one.line, one.block)
            yield f"  {one.block} at {one.file}:{one.line}"
        last = one.address + one.size - 1
        yield f"    {one.memory:<6} {one.address:08x} .. {last:08x}  {one.name}"
