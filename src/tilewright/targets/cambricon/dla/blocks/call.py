"""The call of a block: its data and numbers as a lowering reads them, and blocks fused after it.

A block is a function of a `BlockCall` that writes statements; modules register theirs in `BLOCKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.asm.diagnostics import Fault, Span
from tilewright.targets.cambricon.dla.builder import Builder, Place
from tilewright.targets.cambricon.dla.declarations import MOST_TILES, Data
from tilewright.targets.cambricon.dla.error_codes import DlaError

ONE = 256
"""1.0 with the eight fraction bits of the family's machines."""


@dataclass(frozen=True)
class BlockArgument:
    """An argument as written: data, or a number."""

    value: Data | int
    span: Span


@dataclass(frozen=True)
class ResultTile:
    """Results in the vector scratchpad: rows, columns and channels; `turn` counts the tiles."""

    place: Place
    shape: tuple[int, int, int]
    turn: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


Stage = Callable[[Builder, ResultTile], ResultTile]
"""A computation fused after a block: it continues on a tile before the tile is stored."""


@dataclass(frozen=True)
class BlockCall:
    """A call of a block. `stages` are the computations fused after it; they write `last`."""

    name: str
    arguments: tuple[BlockArgument, ...]
    builder: Builder
    span: Span
    stages: tuple[Stage, ...] = ()
    last: Data | None = None

    def data(self, index: int, kind: str) -> Data:
        """The declared data at argument `index`. Raises Fault for an argument of another kind."""
        argument = self.arguments[index]
        value = argument.value
        if not isinstance(value, Data) or value.kind != kind:
            shown = f"{value.kind} {value.name}" if isinstance(value, Data) else f"number {value}"
            raise Fault(
                DlaError.ARGUMENTS,
                f"{self.name}: argument {index + 1} must be a {kind}, not the {shown}",
                argument.span,
            )
        return value

    def number(self, index: int, default: int, smallest: int) -> int:
        """The number at an argument, or `default` if it is not given. Raises Fault."""
        if index >= len(self.arguments):
            return default
        argument = self.arguments[index]
        if isinstance(argument.value, Data) or argument.value < smallest:
            shown = argument.value.name if isinstance(argument.value, Data) else argument.value
            raise Fault(
                DlaError.ARGUMENTS,
                f"{self.name}: argument {index + 1} must be a number of at least {smallest}, "
                f"not {shown}",
                argument.span,
            )
        return argument.value

    def output(self, index: int = 0) -> Data:
        """The neuron that the block writes. Raises Fault if it is read-only."""
        return self.written(index, "neuron")

    def written(self, index: int, kind: str) -> Data:
        """Data that the block writes. Raises Fault if it is read-only."""
        found = self.data(index, kind)
        if found.read_only:
            raise Fault(
                DlaError.READ_ONLY,
                f"{self.name} writes {found.name}, which is declared in .static_ro",
                self.arguments[index].span,
                fix=f"declare {found.name} in .static_rw",
            )
        return found

    def require(
        self, holds: bool, error_code: DlaError, message: str, index: int, fix: str = ""
    ) -> None:
        """Refuse an argument. Raises Fault."""
        if not holds:
            raise Fault(error_code, f"{self.name}: {message}", self.arguments[index].span, fix=fix)

    def require_tiles(self, count: int) -> None:
        """Refuse a block with too many tiles. Raises Fault."""
        if count > MOST_TILES:
            raise Fault(
                DlaError.SEGMENTS,
                f"{self.name}: {count} tiles, the limit is {MOST_TILES}",
                self.span,
                fix="give larger segments",
            )

    def require_shape(
        self, index: int, data: Data, extents: tuple[int, ...], segments: tuple[int, ...]
    ) -> None:
        """Refuse data of other extents or segments. Raises Fault."""
        kind = DlaError.EXTENTS if data.extents != extents else DlaError.SEGMENTS
        self.require(
            (data.extents, data.segments) == (extents, segments),
            kind,
            f"the {data.places} has to be {'x'.join(map(str, extents))} in segments of "
            f"{'x'.join(map(str, segments))}",
            index,
            f"declare {data.name}, {', '.join(map(str, (*extents, *segments)))}",
        )

    @property
    def target(self) -> Data:
        """Data that is stored: the block's result, or that of the last block fused after it."""
        if self.last is not None:
            return self.last
        found = self.arguments[0].value
        assert isinstance(found, Data), "a block writes its first argument"
        return found

    def complete(self, place: Place, shape: Sequence[int], turn: int = 0) -> ResultTile:
        """The tile to store, after all fused computations on it."""
        rows, columns, channels = shape
        tile = ResultTile(place, (rows, columns, channels), turn)
        for stage in self.stages:
            tile = stage(self.builder, tile)
        return tile


@dataclass(frozen=True)
class Block:
    """A block of the language: its number of arguments, its syntax and its lowering."""

    arguments: tuple[int, int]
    form: str
    lower: Callable[[BlockCall], None]
    stage: Callable[[BlockCall], Stage] | None = None
    """Makes the block a computation on another block's tiles; None if it cannot be fused. Raises
    Fault if it cannot follow that block.
    """
