"""Operators as sequences of definitions, from which their properties are derived once for all.

In: an operator's definitions in sequence: tensors, each the sum of the results of definitions over
the operands and earlier tensors. A convolution is one definition, an average over windows a sum and
a quotient, a concatenation one definition per tensor. Out: operations, the NumPy reference, the
operands' regions for a part of the result, and divisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
from math import gcd
from typing import ClassVar, Self

from tilewright.common.errors import ShapeError
from tilewright.ops.access import Access, Term, straight
from tilewright.ops.box import Box
from tilewright.ops.definition import Addend, Computed, Definition, one
from tilewright.ops.op import (
    Array,
    Follows,
    Op,
    Shape,
    in_double,
    in_own_type,
    require_operands,
    rounded,
    same_dimensions,
    show_shape,
)
from tilewright.ops.piece import Divided, pieces_along

Place = tuple[tuple[Term, ...], int]
"""An index along one dimension: terms, and an offset."""
_MOST_REGIONS = 1 << 14
"""Cached regions: planning and taking a part of an operator query the same ones."""


def access(shape: Shape, *places: Place, fill: float | None = None) -> Access:
    """The access with one `Place` per dimension."""
    return Access(shape, tuple(p[0] for p in places), tuple(p[1] for p in places), fill)


def along(*axes: int) -> tuple[Place, ...]:
    """Indices of one axis per dimension."""
    return tuple((((axis, 1),), 0) for axis in axes)


def moved(op: Op, extents: Shape, target: Access, source: Access) -> tuple[Computed, ...]:
    """The definition of a copy from `source` to `target` that keeps the element type."""
    return one(Definition(extents, target, (source,), "x0", None, "x0", op.out_dtype))


def evaluated_in_order(op: Named, operands: Sequence[Array]) -> Array:
    """An operator's result by its definitions; float intermediates stay in double precision."""
    if op.numerics.in_reals:
        return rounded(op, op.in_doubles().reference(*in_double(op, operands)))
    held = list(operands)
    *before, last = op.definitions
    for tensor in before:
        held.append(_sum(tensor, held, doubles=op.numerics.is_float))
    return _sum(last, held)


def _sum(tensor: Computed, held: Sequence[Array], *, doubles: bool = False) -> Array:
    parts = []
    for addend in tensor.addends:
        own = replace(addend.definition, dtype="f64") if doubles else addend.definition
        parts.append(own.reference(*(held[i] for i in addend.reads)))
    total: Array = sum(parts[1:], parts[0])
    return total


class Named(Op):
    """An operator with named extents whose properties follow from its `definitions`. Unless a
    subclass overrides `computable`, it computes any region of its result.
    """

    divides: ClassVar[tuple[str, ...]] = ()
    """Names of the leading dimensions of the result that core groups may divide."""

    @property
    def definition(self) -> Definition:
        """The first definition, which holds the sums."""
        return self.definitions[0].addends[0].definition

    @property
    def flops(self) -> int:
        return sum(a.definition.flops for tensor in self.definitions for a in tensor.addends)

    @property
    def terms(self) -> Shape:
        return self.definition.terms if self.definition.kind == "contraction" else ()

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        if not _is_one(self):
            return None
        found, terms = self.definition.follows, self.terms
        if found is None or terms:
            return found
        return tuple(tuple((d, None) for d, _ in own) for own in found)

    @property
    def unchanged(self) -> frozenset[tuple[int, int]]:
        return self.definition.unchanged if _is_one(self) else frozenset()

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        return result

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        return needed_in_order(self, result, terms)

    def in_doubles(self) -> Self:
        """The operator on floats in double precision."""
        return replace(self, dtype="f64")  # type: ignore[type-var]  # a dataclass

    def divided(self, groups: int) -> Divided:
        """Equal pieces along the dimensions that `divides` names; sums are never divided."""
        names = enumerate(self.divides)
        return [(name, pieces_along(self, dimension, groups)) for dimension, name in names]

    def reference(self, *operands: Array) -> Array:
        """The result by the definitions: floats in double precision and rounded once, with BLAS for
        sums of products; integers exactly and rounded once.
        """
        require_operands(self, operands)
        exact = not self.numerics.is_float
        found = evaluated_in_order(self, in_own_type(self, operands) if exact else operands)
        return found if found.flags.writeable else found.copy()


def _is_one(op: Op) -> bool:
    """True if the operator is a single definition."""
    return len(op.definitions) == 1 and len(op.definitions[0].addends) == 1


@lru_cache(_MOST_REGIONS)
def needed_in_order(op: Op, result: Box, terms: Box | None) -> tuple[Box, ...]:
    """Each operand's region for a region of the result; `terms` belong to the first definition."""
    count = len(op.input_shapes)
    tensors = op.definitions
    found: dict[int, Box] = {count + len(tensors) - 1: result}
    for number in reversed(range(len(tensors))):
        wanted = found.get(count + number)
        if wanted is None:
            continue
        for addend in tensors[number].addends:
            own = addend.definition
            if len(tensors[number].addends) > 1 and not _meets(own, wanted):
                continue
            needed = own.needed(wanted, terms if number == 0 else None)
            for read, box in zip(addend.reads, needed, strict=True):
                found[read] = _hull(found[read], box) if read in found else box
    none = (Box((0,) * len(s), (0,) * len(s)) for s in op.input_shapes)
    return tuple(found.get(i, empty) for i, empty in enumerate(none))


def _meets(definition: Definition, region: Box) -> bool:
    """True if some step may write into a region."""
    axes = definition.axes_of(region)
    spans = [definition.result.span(d, axes) for d in range(len(definition.out_shape))]
    return (Box.of(*spans) & region).size > 0


def _hull(a: Box, b: Box) -> Box:
    """The smallest box around two boxes."""
    return Box(tuple(map(min, a.start, b.start)), tuple(map(max, a.stop, b.stop)))


def definitions_in(op: Op) -> list[Definition]:
    """All definitions of an operator; empty if it has none."""
    try:
        return [addend.definition for tensor in op.definitions for addend in tensor.addends]
    except ShapeError:
        return []


def is_view(op: Op) -> bool:
    """True if the result is the operand's memory under other dimensions or in another order."""
    return op.reshapes or op.permutation is not None


def moves(op: Op) -> bool:
    """True if the operator only moves elements, whatever their type."""
    every = definitions_in(op)
    plain = all(own.gather is None and own.body == own.finish == "x0" for own in every)
    return is_view(op) or (every != [] and plain)


def pointwise(op: Op) -> Definition | None:
    """The definition of an operator that computes each element of its result from its operands'
    elements at the same index; a user's own definition counts only if it computes in one type of
    floats. None for any other operator.
    """
    if is_view(op):
        return None
    if not op.is_named and (not op.numerics.is_float or op.numerics.is_mixed):
        return None
    every = definitions_in(op)
    if len(every) != 1 or every[0].gather is not None or every[0].result != straight(op.out_shape):
        return None
    beside = all(_lies_beside(x, every[0].extents) for x in every[0].operands)
    return every[0] if beside and every[0].extents == op.out_shape else None


def _lies_beside(access: Access, extents: Shape) -> bool:
    """True if each dimension is an axis in order, at full extent, or has a single element."""
    moving = [(p, n) for p, n in zip(access.terms, access.shape, strict=True) if p]
    axes = [p[0][0] for p, _ in moving]
    plain = all(len(p) == 1 and p[0][1] == 1 and n == extents[p[0][0]] for p, n in moving)
    rest = all(n == 1 for p, n in zip(access.terms, access.shape, strict=True) if not p)
    return (
        plain
        and rest
        and len(access.shape) <= len(extents)
        and axes == sorted(axes)
        and not any(access.offsets)
        and not (access.fill is not None or access.read_from)
    )


class Shaped(Named):
    """An operator whose first operand has its `shape`; so has its result, unless overridden."""

    shape: Shape

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The tensor."""
        return (self.shape,)

    @property
    def out_shape(self) -> Shape:
        """Shape of the tensor."""
        return self.shape

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """Dimensions as in a single definition; with several, each follows itself."""
        return super().follows if _is_one(self) else (same_dimensions(len(self.shape)),) * 2

    def part(self, result: Box, terms: Box | None = None) -> Self:
        return replace(self, shape=self.needed(result)[0].shape)  # type: ignore[type-var]  # a dataclass


@dataclass(frozen=True)
class Assembly(Named):
    """The results of `parts` in one tensor. `reads` holds the operand numbers of each part among
    the operands of the whole. Raises ShapeError if parts differ in the shape of the result or of an
    operand, or may write an element twice.
    """

    kind: ClassVar[str] = "assembly"
    is_named: ClassVar[bool] = False
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

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        return (Computed(tuple(map(Addend, self.parts, self.reads))),)

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The operands, in the order of their numbers."""
        pairs = zip(self.parts, self.reads, strict=True)
        found = {n: s for part, own in pairs for n, s in zip(own, part.input_shapes, strict=True)}
        return tuple(found[number] for number in sorted(found))

    @property
    def out_shape(self) -> Shape:
        """Shape of the result, which all parts share."""
        return self.parts[0].out_shape

    def in_doubles(self) -> Assembly:
        return replace(self, parts=tuple(replace(p, dtype="f64") for p in self.parts), dtype="f64")

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        """The region, made whole along dimensions that some part does not fully enumerate."""
        own = [all(p.result.runs_by_one(d, p.extents) for p in self.parts)
               for d in range(len(self.out_shape))]  # fmt: skip
        sides = zip(own, result.sides, self.out_shape, strict=True)
        return Box.of(*(side if apart else (0, n) for apart, side, n in sides))

    def part(self, result: Box, terms: Box | None = None) -> Assembly:
        boxes = self.needed(result)
        pairs = zip(self.parts, self.reads, strict=True)
        parts = (part.within(result, [boxes[n] for n in own]) for part, own in pairs)
        return replace(self, parts=tuple(parts))

    def describe(self) -> str:
        return f"{len(self.parts)} parts, the first {self.parts[0].describe()}"


def assembled(
    parts: Sequence[Definition], reads: Sequence[Sequence[int]], dtype: str
) -> Definition | Assembly:
    """The parts as one operator; raises ShapeError as `Assembly` does."""
    if len(parts) == 1:
        return parts[0]
    return Assembly(tuple(parts), tuple(map(tuple, reads)), dtype)


def put_together(
    parts: Sequence[tuple[Definition, Sequence[str]]], dtype: str
) -> tuple[Definition | Assembly, tuple[str, ...]]:
    """One operator of parts that each come with the names of the tensors they read, and the names
    of its operands, each once. Raises ShapeError as `Assembly` does.
    """
    names = tuple(dict.fromkeys(name for _, read in parts for name in read))
    if len(parts) == 1:
        ((part, read),) = parts
        return part, tuple(read)
    reads = [[names.index(name) for name in read] for _, read in parts]
    return assembled([part for part, _ in parts], reads, dtype), names


def are_apart(parts: Sequence[Definition]) -> bool:
    """True if no two parts can write the same element."""
    places = [(part.result, Box.whole(part.extents)) for part in parts]
    return all(_differ(*a, *b) for a, b in combinations(places, 2))


def _differ(a: Access, axes_a: Box, b: Access, axes_b: Box) -> bool:
    """True if along some dimension the intervals are disjoint, or strides never let them meet."""
    for d in range(len(a.shape)):
        (first_a, end_a), (first_b, end_b) = a.span(d, axes_a), b.span(d, axes_b)
        if end_a <= first_b or end_b <= first_a:
            return True
        steps = (
            step
            for own, axes in ((a, axes_a), (b, axes_b))
            for axis, step in own.terms[d]
            if axes.stop[axis] > 1
        )
        if (a.offsets[d] - b.offsets[d]) % (gcd(*steps) or 1):
            return True
    return False
