"""Results put together of several definitions, each of which writes places of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import gcd
from typing import ClassVar

from tilewright.common.errors import ShapeError
from tilewright.ops.access import Access
from tilewright.ops.box import Box
from tilewright.ops.definition import Definition
from tilewright.ops.op import Array, Shape, Typed, show_shape


@dataclass(frozen=True)
class Assembly(Typed):
    """The results of `parts` in one tensor; `reads` are for each the numbers of its operands among
    those of the whole. Raises ShapeError where parts differ in the shape of the result or of an
    operand, or may write one place twice.
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
        if not are_apart(self.parts):
            raise ShapeError("assembly: two parts write the same places")

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the result and of the operands, in the order of their numbers."""
        pairs = zip(self.parts, self.reads, strict=True)
        found = {n: part.tensor_name(i + 1) for part, own in pairs for i, n in enumerate(own)}
        return (self.parts[0].tensor_name(0), *(found[number] for number in sorted(found)))

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
        pairs = zip(self.parts, self.reads, strict=True)
        first, *others = (part.reference(*(operands[n] for n in own)) for part, own in pairs)
        return sum(others, first)


def assembled(
    parts: Sequence[Definition], reads: Sequence[Sequence[int]], dtype: str
) -> Definition | Assembly:
    """The parts as one operator; raises ShapeError as `Assembly` does."""
    if len(parts) == 1:
        return parts[0]
    return Assembly(tuple(parts), tuple(map(tuple, reads)), dtype)


def are_apart(parts: Sequence[Definition]) -> bool:
    """True if no two of the parts can write the same place."""
    places = [(part.result, Box.whole(part.extents)) for part in parts]
    return all(_differ(*a, *b) for a, b in combinations(places, 2))


def _differ(a: Access, axes_a: Box, b: Access, axes_b: Box) -> bool:
    """True if along some dimension the intervals are disjoint, or the steps never meet."""
    for d in range(len(a.shape)):
        (first_a, end_a), (first_b, end_b) = a.span(d, axes_a), b.span(d, axes_b)
        if end_a <= first_b or end_b <= first_a:
            return True
        steps = (
            step
            for access, axes in ((a, axes_a), (b, axes_b))
            for axis, step in access.terms[d]
            if axes.stop[axis] > 1
        )
        if (a.offsets[d] - b.offsets[d]) % (gcd(*steps) or 1):
            return True
    return False
