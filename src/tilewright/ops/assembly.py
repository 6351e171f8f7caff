"""Results put together of several definitions, each of which writes its own places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.common.errors import ShapeError
from tilewright.ops.definition import Definition
from tilewright.ops.op import Array, Shape, Typed, show_shape


@dataclass(frozen=True)
class Assembly(Typed):
    """The sum of the results of `parts`; `reads` are for each the numbers of its operands among
    those of the whole. Raises ShapeError where parts differ in the shape of the result or of an
    operand.
    """

    kind: ClassVar[str] = "assembly"
    parts: tuple[Definition, ...]
    reads: tuple[tuple[int, ...], ...]
    dtype: str = "f64"

    def __post_init__(self) -> None:
        shapes: dict[int, Shape] = {-1: self.parts[0].out_shape}
        for part, numbers in zip(self.parts, self.reads, strict=True):
            own = zip((-1, *numbers), (part.out_shape, *part.input_shapes), strict=True)
            for number, shape in own:
                if shapes.setdefault(number, shape) != shape:
                    name = "the result" if number < 0 else f"operand {number}"
                    raise ShapeError(
                        f"assembly: {name} is {show_shape(shapes[number])} and {show_shape(shape)}"
                    )

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The operands, in the order of their numbers."""
        pairs = zip(self.parts, self.reads, strict=True)
        found = {n: s for part, own in pairs for n, s in zip(own, part.input_shapes, strict=True)}
        return tuple(found[number] for number in sorted(found))

    @property
    def out_shape(self) -> Shape:
        """Any part's."""
        return self.parts[0].out_shape

    @property
    def flops(self) -> int:
        """All parts'."""
        return sum(part.flops for part in self.parts)

    def describe(self) -> str:
        """The first part, and how many there are."""
        return f"{len(self.parts)} parts, the first {self.parts[0].describe()}"

    def reference(self, *operands: Array) -> Array:
        """The parts' results, added up."""
        total: Array | None = None
        for part, numbers in zip(self.parts, self.reads, strict=True):
            own = part.reference(*(operands[number] for number in numbers))
            total = own if total is None else total + own
        assert total is not None
        return total
