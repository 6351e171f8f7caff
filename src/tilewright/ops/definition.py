"""An operator as its definition: axes, the access of the result and of each operand, a body.

An example is `y[n,o,r,c] += x[n,i,2*r+u-1,2*c+v-1] * w[o,i,u,v]`: at each step of the axes the body
is evaluated on the operands' elements, then gathered over the axes that the result lacks. Shapes,
operations, the operands' regions for a part of the result, parts, divisions and the NumPy reference
are derived here once for every operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import ClassVar, Literal, TypeAlias

from tilewright.common.errors import ProgramError, ShapeError
from tilewright.ir.scalar import (
    Apply,
    Element,
    Scalar,
    integral,
    operand_count,
    operations,
    parse_scalar,
)
from tilewright.ops.access import Access
from tilewright.ops.box import Box, Interval
from tilewright.ops.evaluation import evaluated
from tilewright.ops.numerics import Numerics, partial_types, require_products
from tilewright.ops.op import Array, Follows, Op, Shape, require_shape, show_shape
from tilewright.ops.piece import Divided, intervals, operator_piece

Gather: TypeAlias = Literal["sum", "max", "min", "prod", "any"]
"""The reduction of steps that share an element of the result; `any` is 1 if one is not zero."""
SIGNS: dict[Gather | None, str] = {
    None: "=", "sum": "+=", "max": "max=", "min": "min=", "prod": "*=", "any": "any=",
}  # fmt: skip
"""The assignment sign of each gather in statements."""
MOST_EXTENT = 1 << 31
"""The extent of an axis is less: steps are counted in signed words of 32 bits."""
_MOST_AXES = 16
_FACTORS = 2


@dataclass(frozen=True)
class Definition(Op):
    """Each element of the result is the `body` (over x0, x1, ... of the operands), gathered over
    the axes that do not move `result`, then passed through `finish` (over x0).

    `axes` and `tensors` are display names, the result's first, and do not count in comparisons.
    Elements of the result that no step writes are zero. Raises ShapeError for an index outside a
    tensor, an element that two steps write without a gather, or types that cannot hold the body.
    """

    is_named: ClassVar[bool] = False
    extents: Shape
    result: Access
    operands: tuple[Access, ...]
    body: str = "x0"
    gather: Gather | None = None
    finish: str = "x0"
    dtype: str = "f64"
    axes: tuple[str, ...] = field(default=(), compare=False)
    tensors: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        require_shape(self._word, "extents", self.extents)
        if len(self.extents) > _MOST_AXES:
            raise ShapeError(
                f"{self._word}: {len(self.extents)} axes, at most {_MOST_AXES} are taken"
            )
        if max(self.extents, default=1) >= MOST_EXTENT:
            raise ShapeError(
                f"{self._word}: an axis takes less than {MOST_EXTENT:,} steps, found "
                f"{show_shape(self.extents)}"
            )
        for access in (self.result, *self.operands):
            access.check(self._word, self.extents)
            self._require_indices(access)
        self._require_written_once()
        if operand_count(self.scalar) > len(self.operands):
            raise ShapeError(
                f"{self._word}: {self.body[:60]!r} reads more than {len(self.operands)} operands"
            )
        if operand_count(parse_scalar(self.finish)) > 1:
            raise ShapeError(f"{self._word}: {self.finish[:60]!r} reads more than the gathered x0")
        if self.gather is None and self.finish != "x0":
            raise ShapeError(
                f"{self._word}: {self.finish[:60]!r} finishes what is not gathered",
                fix="write it around the body",
            )
        if not self.numerics.is_float:
            self._require_integral()

    def _require_indices(self, access: Access) -> None:
        """Require that indices are read from integer operands whose own access has no look-up."""
        for operand in access.looked_up.values():
            if not 0 <= operand < len(self.operands) or self.operands[operand].read_from:
                raise ShapeError(f"definition: no index can be read from operand {operand}")
            kind = self.numerics.operands[operand]
            if kind.kind != "integer":
                raise ShapeError(
                    f"definition: an index of {kind}", fix="integers, such as i64, name places"
                )

    def _require_written_once(self) -> None:
        """Require that steps that differ in an axis of the result write different elements."""
        if self.result.fill is not None:
            raise ShapeError("definition: the result has no places beyond its border")
        if self.result.read_from and self.gather != "sum":
            raise ShapeError("definition: elements that may meet in one place are summed")
        seen: set[int] = set()
        for d, terms in enumerate(self.result.terms):
            reach = 1
            for axis, step in sorted(terms, key=lambda term: term[1]):
                if self.extents[axis] == 1:
                    continue
                if step < reach or axis in seen:
                    raise ShapeError(
                        f"definition: dimension {d} of the result is written twice by steps of "
                        f"{self.axis_name(axis)}",
                        fix="solve the index for the result's own axes",
                    )
                seen.add(axis)
                reach = step * (self.extents[axis] - 1) + reach
        idle = [a for a in self.gathered if self.gather is None and self.extents[a] > 1]
        if idle:
            raise ShapeError(
                f"{self._word}: the result is written twice by steps of {self.axis_name(idle[0])}",
                fix="gather them: += for their sum, max= for the largest",
            )

    def _require_integral(self) -> None:
        try:
            integral(self.scalar)
            integral(parse_scalar(self.finish))
        except ProgramError as error:
            raise ShapeError(f"{self._word}: {error.message}", fix=error.fix) from error
        if self.is_contraction and len(self.operands) == _FACTORS:
            require_products("definition", self.numerics)

    @property
    def _word(self) -> str:
        """The first word of error messages."""
        return "definition"

    @property
    def kind(self) -> str:
        """`contraction` for the sum of products of two operands, else `map` or `reduce`."""
        if self.is_contraction and len(self.operands) == _FACTORS:
            return "contraction"
        return "map" if self.gather is None else "reduce"

    @cached_property
    def scalar(self) -> Scalar:
        """The body as a tree."""
        return parse_scalar(self.body)

    @cached_property
    def is_contraction(self) -> bool:
        """True if it sums products of one element of each operand, and nothing else."""
        factors = sorted(factors_of(self.scalar) or ())
        plain = self.gather == "sum" and self.finish == "x0" and not self.has_look_ups
        return plain and len(factors) > 1 and factors == list(range(len(self.operands)))

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """The axes of the result, and of operands that hold its indices."""
        named = (self.operands[k].axes for k in self.result.looked_up.values())
        own = self.result.axes.union(*named)
        return tuple(a for a in range(len(self.extents)) if a in own)

    @cached_property
    def gathered(self) -> tuple[int, ...]:
        """The axes that are gathered over: all but `kept`."""
        return tuple(a for a in range(len(self.extents)) if a not in self.kept)

    def axis_name(self, axis: int) -> str:
        """The name of an axis, derived from its number if it has none."""
        return self.axes[axis] if self.axes else f"i{axis}"

    def tensor_name(self, number: int) -> str:
        """The name of the result (0) or of an operand (from 1 on)."""
        if self.tensors:
            return self.tensors[number]
        return "y" if number == 0 else f"x{number - 1}"

    @property
    def numerics(self) -> Numerics:
        return Numerics.parse(self.dtype, len(self.operands), mixed=not self.is_contraction)

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The operands' shapes as stored."""
        return tuple(access.shape for access in self.operands)

    @property
    def out_shape(self) -> Shape:
        """The result's shape as stored."""
        return self.result.shape

    @property
    def flops(self) -> int:
        """Operations of the body, one more per gathered step, and those of `finish` per element."""
        each = operations(self.scalar) + (self.gather is not None)
        last = operations(parse_scalar(self.finish))
        return prod(self.extents) * each + prod(self.extents[a] for a in self.kept) * last

    def describe(self) -> str:
        """The definition as text, then the extents.

        >>> row = Access((8,), (((0, 1), (1, 1)),), (0,))
        >>> Definition((6, 3), Access((6,), (((0, 1),),), (0,)), (row,), gather="max").describe()
        'y[i0] max= x0[i0+i1]; i0=6, i1=3'
        """
        sign = SIGNS[self.gather]
        names = [self.element_text(i + 1) for i in range(len(self.operands))]
        body = _body_text(self.scalar, names)
        if self.finish != "x0":
            body += f" then {self.finish}"
        extents = ", ".join(f"{self.axis_name(a)}={n}" for a, n in enumerate(self.extents))
        return f"{self.element_text(0)} {sign} {body}; {extents}"

    def element_text(self, number: int) -> str:
        """The result's element (0), or an operand's (from 1 on), as text."""
        access = (self.result, *self.operands)[number]
        pairs = zip(access.terms, access.offsets, strict=True)
        places = [self._place(*pair) for pair in pairs]
        for d, operand in access.looked_up.items():
            places[d] = self.element_text(operand + 1)
        return f"{self.tensor_name(number)}[{','.join(places)}]"

    def _place(self, terms: Sequence[tuple[int, int]], offset: int) -> str:
        words = [_signed(step, self.axis_name(axis)) for axis, step in terms]
        text = "".join(words) + (f"{offset:+d}" if offset or not words else "")
        return text.removeprefix("+")

    def reference(self, *operands: Array) -> Array:
        """The result in NumPy: floats are computed in double precision and rounded once; integers
        exactly, modulo the bits of their sums, and rounded once.
        """
        return evaluated(self, operands)

    # Regions and parts, by interval arithmetic on the indices.

    @cached_property
    def _divisible(self) -> tuple[int, ...]:
        """The axes over which sums may be divided."""
        plain = self.gather == "sum" and self.finish == "x0" and not self.has_look_ups
        return self.gathered if plain else ()

    @cached_property
    def has_look_ups(self) -> bool:
        """True if an operand's elements are indices of another operand or of the result."""
        return any(access.read_from for access in (self.result, *self.operands))

    @property
    def terms(self) -> Shape:
        """The extents of the axes over which sums may be divided; empty where `finish` follows."""
        return tuple(self.extents[a] for a in self._divisible)

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """For each dimension the dimension of the result and the term that move its index."""
        of_result = {a: d for d, place in enumerate(self.result.terms) for a, _ in place}
        of_terms = {a: i for i, a in enumerate(self._divisible)}
        found: list[Follows] = [tuple((d, None) for d in range(len(self.result.terms)))]
        for access in self.operands:
            own = []
            for place in access.terms:
                by_result, by_terms = (
                    self._moved_by(place, of_result),
                    self._moved_by(place, of_terms),
                )
                if len(by_result) > 1 or len(by_terms) > 1:
                    return None
                own.append((next(iter(by_result), None), next(iter(by_terms), None)))
            found.append(tuple(own))
        return tuple(found)

    def _moved_by(self, place: Sequence[tuple[int, int]], among: dict[int, int]) -> set[int]:
        """Entries of `among` whose axes move an index; of several, axes of extent 1 are dropped."""
        found = {among[a] for a, _ in place if a in among}
        several = {among[a] for a, _ in place if a in among and self.extents[a] > 1}
        return found if len(found) == 1 else several

    @cached_property
    def unchanged(self) -> frozenset[tuple[int, int]]:
        """Dimensions of the result that a single axis enumerates, and dimensions of operands that
        the same axis, or an axis of the terms, enumerates.
        """
        if self.has_look_ups:
            return frozenset()
        every = {
            (which, d): place[0][0]
            for which, access in enumerate((self.result, *self.operands))
            for d, place in enumerate(access.terms)
            if len(place) == 1 and place[0][1] == 1 and access.offsets[d] == 0
            and self.extents[place[0][0]] == access.shape[d]
        }  # fmt: skip
        moved = {axis for (which, _), axis in every.items() if which == 0}.union(self._divisible)
        return frozenset(at for at, axis in every.items() if axis in moved)

    def axes_of(self, result: Box, terms: Box | None = None) -> Box:
        """The smallest box of steps that contains all writes into a region; one step if none do."""
        sides = [(0, n) for n in self.extents]
        if terms is not None:
            for axis, side in zip(self._divisible, terms.sides, strict=True):
                sides[axis] = side
        for place, offset, side in zip(
            self.result.terms, self.result.offsets, result.sides, strict=True
        ):
            for axis, found in _solved(place, offset, side, self.extents):
                sides[axis] = found
        return Box.of(*sides)

    @cached_property
    def _is_plain(self) -> bool:
        """True if a single axis enumerates each dimension of the result."""
        places = zip(self.result.terms, self.result.offsets, self.out_shape, strict=True)
        return all(
            len(terms) == 1 and terms[0][1] == 1 and offset == 0 and self.extents[terms[0][0]] == n
            for terms, offset, n in places
        )

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        """The region, grown to all elements that its steps write. Where two axes form one dimension
        and the region touches several blocks of the outer one, it grows to whole blocks.
        """
        if self.result.read_from:
            return Box.whole(self.out_shape)
        if self._is_plain and all(a < b for a, b in result.sides):
            return result
        axes = self.axes_of(result, terms)
        spans = [self.result.span(d, axes) for d in range(len(self.out_shape))]
        pairs = zip(spans, result.sides, strict=True)
        return Box.of(*((min(a, c), max(b, d)) for (a, b), (c, d) in pairs))

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """The region of each operand that a region of the result reads, clipped to the tensor; the
        nearest element if only fill is read.
        """
        axes = self.axes_of(result, terms)
        return tuple(
            Box.of(*(_inside(x.span(d, axes), n) for d, n in enumerate(x.shape)))
            for x in self.operands
        )

    def part(self, result: Box, terms: Box | None = None) -> Definition:
        """The definition restricted to a computable region, on the operands' needed regions."""
        return self.within(result, self.needed(result, terms), terms)

    def within(self, result: Box, operands: Sequence[Box], terms: Box | None = None) -> Definition:
        """The definition restricted to a computable region, on given regions of its operands, which
        must contain the needed ones.
        """
        axes = self.axes_of(result, terms)
        accesses = zip((self.result, *self.operands), (result, *operands), strict=True)
        y, *given = (_shifted(access, axes, box) for access, box in accesses)
        partial = terms is not None and terms.shape != self.terms
        types = partial_types(self.numerics) if partial else self.dtype
        return replace(self, extents=axes.shape, result=y, operands=tuple(given), dtype=types)

    def divided(self, groups: int) -> Divided:
        """Equal pieces along each axis that is outermost in its dimension of the result."""
        found: Divided = []
        if self.result.read_from:
            return found
        whole = Box.whole(self.out_shape)
        for d, terms in enumerate(self.result.terms):
            if not terms:
                continue
            axis, step = max(terms, key=lambda term: term[1])
            if self.extents[axis] == 1:
                continue
            first = self.result.offsets[d]
            cut = [(first + a * step, first + b * step) for a, b in intervals(
                self.extents[axis], groups)]  # fmt: skip
            sides = [(a, min(b, self.out_shape[d])) for a, b in cut]
            pieces = tuple(operator_piece(self, whole.along(d, side)) for side in sides)
            found.append((self.axis_name(axis), pieces))
        return found

    @property
    def definitions(self) -> tuple[Computed, ...]:
        return one(self)

    def with_magnitudes(self) -> Definition:
        return replace(self, body=str(_magnitudes(self.scalar)))


@dataclass(frozen=True)
class Addend:
    """A definition and the numbers of its operands: the operator's first, then earlier tensors."""

    definition: Definition
    reads: tuple[int, ...]


@dataclass(frozen=True)
class Computed:
    """A tensor: the sum of its addends' results. If it is `constant`, the operator's result does
    not depend on its values, as with the largest element that a softmax subtracts.
    """

    addends: tuple[Addend, ...]
    constant: bool = False


def one(definition: Definition, *reads: int) -> tuple[Computed, ...]:
    """A sequence of one definition; its operands are all in order, unless `reads` numbers them."""
    found = reads or tuple(range(len(definition.operands)))
    return (Computed((Addend(definition, found),)),)


def factors_of(scalar: Scalar) -> list[int] | None:
    """The operand numbers of a product of operands; None for any other expression.

    >>> factors_of(parse_scalar("x0 * x2 * x1")), factors_of(parse_scalar("x0 + x1"))
    ([0, 2, 1], None)
    """
    match scalar:
        case Element(index):
            return [index]
        case Apply("*", (left, right)):
            a, b = factors_of(left), factors_of(right)
            return None if a is None or b is None else a + b
        case _:
            return None


def _magnitudes(scalar: Scalar) -> Scalar:
    """The expression with differences replaced by sums: on absolute values it bounds its terms."""
    match scalar:
        case Apply("negative", (inner,)):
            return _magnitudes(inner)
        case Apply(function, arguments):
            name = "+" if function == "-" else function
            return Apply(name, tuple(map(_magnitudes, arguments)))
        case _:
            return scalar


def _body_text(scalar: Scalar, elements: Sequence[str]) -> str:
    """The text of a body, with the operands' elements substituted for x0, x1, ..."""
    text = str(scalar)
    for index in reversed(range(len(elements))):
        text = text.replace(f"x{index}", f"{{{index}}}")
    return text.format(*elements)


def _signed(step: int, name: str) -> str:
    sign = "-" if step < 0 else "+"
    return f"{sign}{name}" if abs(step) == 1 else f"{sign}{abs(step)}*{name}"


def _solved(
    terms: Sequence[tuple[int, int]], offset: int, side: Interval, extents: Shape
) -> list[tuple[int, Interval]]:
    """For each axis of an index, the interval of steps whose indices lie in `side`. If several
    steps of an outer axis reach into it, all steps of the inner axes are included.
    """
    low, high = side[0] - offset, side[1] - 1 - offset
    if len(terms) == 1:  # the common case, without sorting
        ((axis, step),) = terms
        last = extents[axis] - 1
        first = min(max(0, -(-low // step)), last)
        return [(axis, (first, max(min(last, high // step), first) + 1))]
    ordered = sorted(terms, key=lambda term: -term[1])
    inner = sum(step * (extents[axis] - 1) for axis, step in ordered)
    found: list[tuple[int, Interval]] = []
    for axis, step in ordered:
        last = extents[axis] - 1
        inner -= step * last
        first = min(max(0, -((inner - low) // step)), last)
        end = max(min(last, high // step), first)
        found.append((axis, (first, end + 1)))
        if first == end:
            low, high = low - first * step, high - first * step
        else:
            low, high = 0, inner
    return found


def _inside(side: Interval, extent: int) -> Interval:
    """The part of an interval inside a tensor; the nearest border element if there is none."""
    start = min(max(side[0], 0), extent - 1)
    return start, max(min(side[1], extent), start + 1)


def _shifted(access: Access, axes: Box, box: Box) -> Access:
    """The access with steps counted from the start of `axes`, and indices from that of `box`."""
    offsets = tuple(
        offset + sum(step * axes.start[axis] for axis, step in terms) - first
        for offset, terms, first in zip(access.offsets, access.terms, box.start, strict=True)
    )
    return replace(access, shape=box.shape, offsets=offsets)
