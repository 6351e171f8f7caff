"""A product in equal pieces at even distances in its tensors: one program computes them all.

In: an operator and a number of groups. Out: every way to cut it, with the operator of a piece and
where the pieces start in each tensor. Pieces of a convolution's rows each have the border of the
whole image, and border places may hold the neighbours' rows. Pieces of a sum's terms have partial
results, stored one after the other and then added up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.network.planning.form import Form, StoredDim, canonical
from tilewright.network.planning.shares import StageDivision
from tilewright.ops import Conv2d, Op
from tilewright.ops.access import Access, straight
from tilewright.ops.box import Box
from tilewright.ops.mapping import InMemory
from tilewright.ops.op import Shape
from tilewright.partition import TERMS, Partition, split
from tilewright.seeds.pooling import PoolWindows
from tilewright.seeds.space import Seed
from tilewright.tune.candidate import Candidate

Beside = tuple[tuple[int, ...], bool]
"""A further epilogue operand: the axes of the result along which it varies, and True if it is
stored in the result's form, False for a C array.
"""
OUT_CHANNELS, CHANNEL_GROUPS, ROWS = "out_channels", "channel_groups", "rows"


@dataclass(frozen=True)
class Spacing:
    """Pieces of a tensor: along `axis` each starts `step` indices after the one before, and covers
    `places` in memory, its border included.
    """

    axis: int
    step: int
    places: int


@dataclass(frozen=True)
class Pieces:
    """An operator, `whole`, in `count` equal pieces. `spacings` holds one entry per operand and one
    for the result; None marks a tensor that every piece reads whole. With `windows`, the result is
    pooled.
    """

    kind: str
    whole: Op
    piece: Op
    count: int
    spacings: tuple[Spacing | None, ...]
    windows: PoolWindows | None = None

    @property
    def partial(self) -> bool:
        """True if each piece holds partial sums of every element of the result."""
        return self.kind == TERMS

    @property
    def adding(self) -> InMemory:
        """The sum of the partial results, which are stored one after the other in one tensor."""
        size, numbers = prod(self.whole.out_shape), range(self.count)
        parts = tuple(Access((self.count, size), ((), ((0, 1),)), (i, 0)) for i in numbers)
        terms = " + ".join(f"x{i}" for i in numbers)
        return InMemory((size,), straight((size,)), parts, terms, dtype=self.whole.out_dtype)

    @property
    def out_shape(self) -> Shape:
        """Shape of the whole result, after pooling."""
        shape = self.whole.out_shape
        return self.windows.pooled(shape) if self.windows else shape

    def pooled(self, windows: PoolWindows) -> Pieces | None:
        """The pieces with pooled results; None if a window spans two pieces."""
        *operands, result = self.spacings
        if result is not None and result.axis in (2, 3):
            extent = windows.extents[result.axis - 2]
            if result.step % extent or result.places != result.step:
                return None
            result = Spacing(result.axis, result.step // extent, result.places // extent)
        return replace(self, spacings=(*operands, result), windows=windows)

    def shared(self, seed: Seed) -> frozenset[str]:
        """Seed operands that every piece reads whole."""
        pairs = zip(seed.operands, self.spacings[:-1], strict=True)
        return frozenset(name for name, spacing in pairs if spacing is None)

    def whole_form(self, number: int, form: Form) -> Form | None:
        """The form of whole tensor `number` whose pieces have the given form, or None. Overlapping
        pieces are slices along the slowest memory dimension; pieces of terms may be slices along
        any.
        """
        shape = (*self.whole.input_shapes, self.out_shape)[number]
        spacing = self.spacings[number]
        if spacing is None:
            return form if form.shape == shape else None
        axis, step, before = spacing.axis, spacing.step, form.before
        own = form.along(axis)
        places = prod(d.extent for d in own)
        if places != spacing.places:
            return None
        if self.partial:
            wider = [StoredDim(d.axis, d.step, shape[axis]) if d in own else d for d in form.dims]
            return canonical(shape, wider, before) if len(own) == 1 else None
        if places == step and not before[axis] and step * self.count == shape[axis]:
            return canonical(shape, [StoredDim(axis, step, self.count), *form.dims], before)
        if own != form.dims[: len(own)] or any(d.step > 1 for d in own):
            return None
        extent = max((self.count - 1) * step + places, before[axis] + shape[axis])
        return canonical(shape, [StoredDim(axis, 1, extent), *form.dims[len(own) :]], before)

    def steps(self, forms: Sequence[Form]) -> tuple[int, ...]:
        """Elements in memory from one piece to the next, for the forms of the whole tensors."""
        *given, result = map(_step, self.spacings, forms)
        return (*given, forms[-1].elements if self.partial else result)

    def step_along(self, axes: Sequence[int]) -> int | None:
        """Elements from one piece to the next of a C array along `axes` of the result; None where
        the pieces are no slices of it.
        """
        own, shape = self.spacings[-1], self.out_shape
        if own is None or own.axis not in axes:
            return 0
        at = axes.index(own.axis)
        outer, inner = (prod(shape[a] for a in part) for part in (axes[:at], axes[at + 1 :]))
        return own.step * inner if outer == 1 else None


@dataclass(frozen=True, eq=False, kw_only=True)
class Share(Candidate):
    """A candidate of one piece of a product, of which each group computes one. Adding up partial
    results afterwards takes `adding_cycles`.
    """

    pieces: Pieces
    adding_cycles: float = 0.0

    @property
    def cycles(self) -> float:
        return super().cycles + self.adding_cycles

    def whole_form(self, name: str, form: Form) -> Form | None:
        """The form of a whole tensor whose pieces have the given form, or None."""
        return self.pieces.whole_form(self.tensors.index(name), form)

    def division(self, whole: Mapping[str, Form], beside: Sequence[Beside] = ()) -> StageDivision:
        """Starts of the groups' pieces of each tensor, given the whole forms, and of the operands
        `beside` the result.
        """
        *own, result = self.pieces.steps([whole[name] for name in self.tensors])
        further = [result if alike else self.pieces.step_along(axes) or 0 for axes, alike in beside]
        return StageDivision(self.pieces.kind, self.pieces.count, (*own, *further, result))

    @property
    def tensors(self) -> tuple[str, ...]:
        """The seed's names of the operands and of the result."""
        return (*self.seed.operands, self.seed.result)


def _step(spacing: Spacing | None, form: Form) -> int:
    if spacing is None:
        return 0
    pairs = zip(form.dims, form.strides, strict=True)
    outermost, stride = next((d, s) for d, s in pairs if d.axis == spacing.axis)
    return spacing.step // outermost.step * stride


def pieces_of(op: Op, groups: int, sums: Sequence[Partition] = ()) -> list[Pieces]:
    """Every way to cut a product into equal pieces, each with the largest even count up to
    `groups`, and the ways that cut its `sums`.
    """
    found: dict[str, Pieces] = {}
    for count in range(groups, 1, -1):
        for pieces in _conv2d_pieces(op.convolution, count) if op.convolution else ():
            found.setdefault(pieces.kind, pieces)
        for part in split(op, count):
            if (regular := _regular(part)) is not None:
                found.setdefault(part.kind, regular)
    partial = (_regular(part) for part in sums)
    return [*found.values(), *(own for own in partial if own is not None)]


def _conv2d_pieces(op: Conv2d, count: int) -> Iterator[Pieces]:
    """Pieces of channels, which see all rows of their images, skipped ones too; and of rows."""
    outputs, inputs = op.out_channels // count, op.in_channels // count
    weights, result = Spacing(0, outputs, outputs), Spacing(1, outputs, outputs)
    if op.groups == 1 and op.out_channels % count == 0:
        piece = replace(op, out_channels=outputs)
        yield Pieces(OUT_CHANNELS, op, piece, count, (None, weights, result))
    if op.groups > 1 and op.groups % count == 0:
        groups = op.groups // count
        piece = replace(op, in_channels=inputs, out_channels=outputs, groups=groups)
        images = Spacing(1, inputs, inputs)
        yield Pieces(CHANNEL_GROUPS, op, piece, count, (images, weights, result))
    if op.out_height % count == 0:
        rows = op.out_height // count
        step = rows * op.stride[0]
        places = step - op.stride[0] + (op.kernel[0] - 1) * op.dilation[0] + 1
        height = places - op.padding[0] - op.padding[2]
        if height > 0:
            spacings = Spacing(2, step, places), None, Spacing(2, rows, rows)
            yield Pieces(ROWS, op, replace(op, height=height), count, spacings)


def _regular(part: Partition) -> Pieces | None:
    """The pieces of a partition, if they are equal and adjacent."""
    op, count, own = part.op, len(part.pieces), part.piece
    if count == 1 or any(p.op != own for p in part.pieces):
        return None
    tensors = [*zip(*(p.operands for p in part.pieces), strict=True)]
    tensors.append(tuple(p.result for p in part.pieces))
    spacings = tuple(_spacing(regions) for regions in tensors)
    for regions, spacing, shape in zip(
        tensors, spacings, (*op.input_shapes, op.out_shape), strict=True
    ):
        if list(regions) != list(_regions(spacing, shape, count)):
            return None
    return Pieces(part.kind, op, own, count, spacings)


def _spacing(regions: Sequence[Box]) -> Spacing | None:
    """Spacing of the first two regions along the axis where they differ, or None."""
    first, second = (box.sides for box in regions[:2])
    axes = (axis for axis, side in enumerate(first) if second[axis] != side)
    axis = next(axes, None)
    if axis is None:
        return None
    size = regions[0].shape[axis]
    return Spacing(axis, size, size)


def _regions(spacing: Spacing | None, shape: Shape, count: int) -> Iterator[Box]:
    """The regions of a tensor's adjacent pieces."""
    whole = Box.whole(shape)
    for start in range(count):
        if spacing is None:
            yield whole
        else:
            size = spacing.step
            yield whole.along(spacing.axis, (start * size, (start + 1) * size))
