"""Declarations of data: `@neuron`, `@synapse`, `@parameter`.

In: the text of a declaration. Out: a `Data` value, and the directives that reserve its memory. What
is declared is also written into a section of the object, so that the runtime can arrange arrays.

How data with segments lies in main memory: in the order in which segments are loaded.

In: four extents and four segment sizes. Out: offsets of segments, and arrays there and back. The
segments follow each other in row-major order, and so do the elements of each; the last segment
along an extent may be smaller, and nothing is padded. So each segment is one transfer (Lan et al.
2019, section 3 and Fig. 9).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tilewright.asm import Object
from tilewright.asm.diagnostics import Fault, Span
from tilewright.common.errors import AssemblyError
from tilewright.targets.cambricon.dla.error_codes import DlaError

COMMENT = re.compile(r";|//")


@dataclass(frozen=True)
class ArgumentText:
    """An argument as text, and the column where it starts."""

    text: str
    column: int

    @property
    def span(self) -> Span:
        return Span(self.column, max(len(self.text), 1))


def argument_texts(text: str, column: int) -> list[ArgumentText]:
    """The comma-separated arguments outside brackets, without the comment."""
    text = COMMENT.split(text)[0]
    if not text.strip():
        return []
    found, start, depth = [], 0, 0
    for place, char in enumerate([*text, ","]):
        depth += (char == "(") - (char == ")")
        if char == "," and (depth <= 0 or place == len(text)):
            part = text[start:place]
            indent = len(part) - len(part.lstrip())
            found.append(ArgumentText(part.strip(), column + start + indent))
            start = place + 1
    return found


NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
AXES = {"neuron": "B, H, W, C", "synapse": "CO, KH, KW, CI"}
SECTION = ".declarations"
ELEMENT_BYTES = 2
ALIGNMENT_BYTES = 64
_LARGEST = 1 << 29
MOST_TILES = 1 << 16
"""Most segments of data and tiles of a block; each is a value while a block is written."""
Record = TypeVar("Record", bound=msgspec.Struct)


class Data(msgspec.Struct, frozen=True):
    """A neuron (batch, height, width, channels) or a synapse (output channels, kernel height and
    width, input channels) with its segment sizes.
    """

    name: str
    kind: str
    extents: tuple[int, ...]
    segments: tuple[int, ...]
    read_only: bool

    @property
    def layout(self) -> Layout:
        """The layout of its elements."""
        return _layout(self.extents, self.segments)

    @property
    def places(self) -> str:
        """Its sizes as messages show them."""
        sizes = "x".join(map(str, self.extents))
        return f"{self.kind} {self.name} ({sizes} in segments of {_extents_text(self.segments)})"

    def directives(self) -> tuple[str, ...]:
        """Directives that reserve its memory."""
        size = self.layout.size * ELEMENT_BYTES
        return (f".balign {ALIGNMENT_BYTES}", f"{self.name}:", f".space {size}")


def _extents_text(numbers: Sequence[int]) -> str:
    return "x".join(map(str, numbers))


def name_of(
    kind: str, pieces: Sequence[ArgumentText], word: Span, refused: set[str]
) -> tuple[ArgumentText, Sequence[ArgumentText]]:
    """The name of a declaration, refused until its numbers are valid, and the rest; or Fault."""
    name = NAME.match(pieces[0].text) if pieces else None
    if name is None:
        span = pieces[0].span if pieces else word
        raise Fault(
            DlaError.DECLARATION, f"@{kind} needs a name", span, fix=f"write @{kind} name, ..."
        )
    refused.add(name[0])
    if name[0] != pieces[0].text:
        rest = pieces[0].text[name.end() :].strip()
        raise Fault(
            DlaError.DECLARATION,
            f"@{kind} {name[0]} has no comma behind its name",
            Span(pieces[0].column, name.end()),
            fix=f"write @{kind} {name[0]}, {', '.join([rest, *(p.text for p in pieces[1:])])}",
        )
    return pieces[0], pieces[1:]


def data_of(
    kind: str, name: str, numbers: Sequence[int], section: str, spans: Sequence[Span]
) -> Data:
    """A validated declaration; `spans` are the places of its numbers. Raises Fault."""
    if len(numbers) == 4:
        numbers = [*numbers, *numbers]
    if len(numbers) != 8:
        raise Fault(
            DlaError.DECLARATION,
            f"@{kind} {name} takes 4 extents ({AXES[kind]}) and 4 segment sizes, "
            f"{len(numbers)} numbers given",
            spans[-1] if spans else None,
            fix="give 8 numbers, or 4 for one segment",
        )
    extents, segments = tuple(numbers[:4]), tuple(numbers[4:])
    axes = AXES[kind].split(", ")
    for axis, extent, segment, span in zip(axes, extents, segments, spans[-4:], strict=False):
        if not 1 <= extent <= _LARGEST:
            raise Fault(
                DlaError.DECLARATION, f"{name}: {axis} = {extent} is outside 1 .. {_LARGEST}", span
            )
        if not 1 <= segment <= extent:
            raise Fault(
                DlaError.SEGMENT,
                f"{name}: the segment size {axis}S = {segment} is outside 1 .. {axis} = {extent}",
                span,
                fix=f"write a segment size of at most {extent}",
            )
    data = Data(name, kind, extents, segments, section == ".static_ro")
    count = prod(data.layout.counts)
    if count > MOST_TILES:
        raise Fault(
            DlaError.SEGMENT,
            f"{name} has {count} segments, the limit is {MOST_TILES}",
            spans[0],
            fix="give larger segments",
        )
    return data


def declared_in(image: Object) -> dict[str, Data]:
    """Data declared by the sources of an object, by name. Raises AssemblyError."""
    return {data.name: data for data in json_records(image, SECTION, Data)}


def json_records(image: Object, section: str, kind: type[Record]) -> list[Record]:
    """The values of a section with one line of JSON each. Raises AssemblyError."""
    if not any(found.name == section for found in image.sections):
        return []
    rows = image.section(section).data.split(b"\n")
    try:
        return [
            msgspec.json.decode(row.strip(b"\0"), type=kind) for row in rows if row.strip(b"\0")
        ]
    except msgspec.DecodeError as error:
        raise AssemblyError(f"section {section}: {error}", where=image.file_name) from error


def stored_records(section: str, values: Sequence[msgspec.Struct]) -> tuple[str, ...]:
    """The lines that store values in a section of the object."""
    if not values:
        return ()
    texts = (msgspec.json.encode(one).decode() for one in values)
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return (f'.section {section}, ""', *(f'.ascii "{text}\\n"' for text in quoted))


Index = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """Four extents, each divided into segments of one size, the last perhaps smaller."""

    extents: Index
    segments: Index

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.extents)

    @cached_property
    def counts(self) -> Index:
        """Segments along each extent."""
        return tuple(-(-x // s) for x, s in zip(self.extents, self.segments, strict=True))

    def indices(self) -> Iterator[Index]:
        """The segments' indices in storage order."""
        return product(*map(range, self.counts))

    def shape(self, index: Index) -> Index:
        """The extents of a segment."""
        sizes = zip(self.extents, self.segments, index, strict=True)
        return tuple([s if (left := x - i * s) > s else left for x, s, i in sizes])

    def offset(self, index: Index) -> int:
        """Offset of a segment's first element.

        Along each extent, the segments before this one come first, cut to this segment's size along
        the outer extents.
        """
        offset, thickness = 0, 1
        for i, size, extent in zip(index, self._sizes, self.shape(index), strict=True):
            offset += thickness * i * size
            thickness *= extent
        return offset

    @cached_property
    def _sizes(self) -> Index:
        """Elements of one segment's slice of each extent, over all inner extents."""
        behind = [prod(self.extents[axis + 1 :]) for axis in range(len(self.extents))]
        return tuple(s * n for s, n in zip(self.segments, behind, strict=True))

    def element(self, place: Index) -> int:
        """Offset of an element."""
        index = tuple(p // s for p, s in zip(place, self.segments, strict=True))
        inside = 0
        for p, s, extent in zip(place, self.segments, self.shape(index), strict=True):
            inside = inside * extent + p % s
        return self.offset(index) + inside

    def arranged(self, array: NDArray[Any]) -> NDArray[Any]:
        """The elements of an array of these extents in storage order."""
        return np.concatenate([array[self._slices(i)].reshape(-1) for i in self.indices()])

    def restored(self, flat: NDArray[Any]) -> NDArray[Any]:
        """The array of these extents, from elements in storage order."""
        array = np.empty(self.extents, flat.dtype)
        for index in self.indices():
            shape, first = self.shape(index), self.offset(index)
            array[self._slices(index)] = flat[first : first + prod(shape)].reshape(shape)
        return array

    def _slices(self, index: Index) -> tuple[slice, ...]:
        places = zip(index, self.segments, self.shape(index), strict=True)
        return tuple(slice(i * s, i * s + extent) for i, s, extent in places)


@lru_cache(maxsize=256)
def _layout(extents: Index, segments: Index) -> Layout:
    return Layout(extents, segments)
