"""Stages that several core groups compute together: each its share, of tensors that all see.

In: an operator. Out: that of one group's share, and how far apart the groups' tensors begin in the
whole ones: the groups launch one program with other addresses. A product's piece keeps its own
form: the whole tensor is held as one piece after the other, a form like any other. Work on tensors
as they lie is divided along the outermost loop that comes out even.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.network.form import Form, StoredDim, canonical
from tilewright.ops.box import Box
from tilewright.ops.mapping import Access, Mapping, Reduction
from tilewright.partition import Partition
from tilewright.tune.candidate import Candidate

ELEMENTS = "elements"


@dataclass(frozen=True)
class Division:
    """So many groups compute one stage, divided by `kind`: `steps` are for each tensor the elements
    from where the share of one group begins to that of the next, 0 where all take the same.
    """

    kind: str
    groups: int
    steps: tuple[int, ...]

    def starts(self, group: int) -> tuple[int, ...]:
        """The first element of each tensor for a group."""
        return tuple(group * step for step in self.steps)


@dataclass(frozen=True, eq=False, kw_only=True)
class Share(Candidate):
    """A candidate of one piece of a partition, of which each group computes one."""

    partition: Partition

    def whole_form(self, name: str, form: Form) -> Form | None:
        """The form of a whole tensor whose pieces lie in a form; None where pieces overlap,
        leave elements out, or have places between their elements along what is divided.
        """
        regions, shape = self._regions(name)
        axis = divided_axis(regions)
        if axis is None:
            return form if form.shape == shape else None
        size = form.shape[axis]
        places = prod(d.extent for d in form.along(axis))
        even = all(r.start[axis] == i * size for i, r in enumerate(regions))
        joined = (*form.shape[:axis], size * len(regions), *form.shape[axis + 1 :])
        if not even or joined != shape or places != size:
            return None
        outer = StoredDim(axis, size, len(regions))
        return canonical(shape, [outer, *form.dims], form.before)

    def division(self, names: Sequence[str], whole: Sequence[Form]) -> Division:
        """Where the groups' pieces of tensors begin, whose whole forms are given."""
        count = len(self.partition.pieces)
        steps = (
            0 if divided_axis(self._regions(name)[0]) is None else form.elements // count
            for name, form in zip(names, whole, strict=True)
        )
        return Division(self.partition.kind, count, tuple(steps))

    def _regions(self, name: str) -> tuple[list[Box], tuple[int, ...]]:
        pieces, op = self.partition.pieces, self.partition.op
        if name == self.seed.result:
            return [p.result for p in pieces], op.out_shape
        number = self.seed.operands.index(name)
        return [p.operands[number] for p in pieces], op.input_shapes[number]


def divided_axis(regions: Sequence[Box]) -> int | None:
    """The axis along which regions differ, None where all are one."""
    first = regions[0]
    axes = (a for a, side in enumerate(first.sides) if any(r.sides[a] != side for r in regions))
    return next(axes, None)


def share_of(op: Mapping | Reduction, groups: int) -> tuple[Mapping | Reduction, Division] | None:
    """What one of at most so many groups computes of it, and where the shares of operands and
    result begin; None where no loop comes out even.

    >>> from tilewright.ops.mapping import mapping
    >>> share, division = share_of(mapping(12, "x0 + 1"), 4)
    >>> share.extents, division
    ((3,), Division(kind='elements', groups=4, steps=(3, 3)))
    """
    kept = op.kept if isinstance(op, Reduction) else len(op.extents)
    operands = op.operands if isinstance(op, Mapping) else (op.operand,)
    for count in range(groups, 1, -1):
        for loop in (i for i in range(kept) if op.extents[i] % count == 0):
            size = op.extents[loop] // count
            extents = (*op.extents[:loop], size, *op.extents[loop + 1 :])
            every = [_part(access, loop, extents) for access in (*operands, op.result)]
            found = [part for part in every if part is not None]
            if len(found) == len(every):
                *given, result = (access for access, _ in found)
                own = (
                    {"operands": tuple(given)} if isinstance(op, Mapping) else {"operand": given[0]}
                )
                share = replace(op, extents=extents, result=result, **own)
                return share, Division(ELEMENTS, count, tuple(size * step for _, step in found))
    return None


def _part(access: Access, loop: int, extents: Sequence[int]) -> tuple[Access, int] | None:
    """The access to a tensor of which a share along a loop is seen, as `extents` have it, and how
    many elements one step of the loop is; None where other elements would be seen as well.

    The dimension that the loop runs along ends with the share; where it is not the outermost one,
    it is split into shares, of which this is the first.
    """
    moved = [d for d, terms in enumerate(access.terms) if any(own == loop for own, _ in terms)]
    if not moved:
        return access, 0
    d, shape, terms = moved[0], access.shape, access.terms[moved[0]]
    before, behind = shape[:d], shape[d + 1 :]
    along = sum(step for own, step in terms if own == loop)
    reach = access.offsets[d] + sum((extents[own] - 1) * step for own, step in terms) + 1
    if len(moved) > 1:
        return None
    if prod(before) == 1:
        return replace(access, shape=(*before, reach, *behind)), along * prod(behind)
    size = along * extents[loop]
    if reach > size or shape[d] % size:
        return None
    split = Access(
        (*before, shape[d] // size, size, *behind),
        (*access.terms[:d], (), *access.terms[d:]),
        (*access.offsets[:d], 0, *access.offsets[d:]),
    )
    return split, along * prod(behind)
