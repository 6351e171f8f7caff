"""Products that write or read a tensor at the places that a copy would give its elements.

In: a candidate, and new places for the elements of one of its tensors. Out: the candidate with
transfers to and from a box of a larger tensor, priced anew; None where the places form no box. A
copy maps each place of one tensor to a place of another. Where steps along each dimension map to
equally long steps, the tensor is a box of one whose dimensions are as long as those steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, evaluate
from tilewright.ir.nodes import Program, Tensor
from tilewright.machine import Machine
from tilewright.network.planning.access import (
    access_of,
    along_blocks,
    counted_places,
    index_of,
    steps_in_memory,
)
from tilewright.network.planning.bordered import Bordered, LargerTensor, as_part_of, nests_by
from tilewright.network.planning.form import Form
from tilewright.network.planning.lowering import runs_along_blocks
from tilewright.network.planning.memory import is_unblocked
from tilewright.network.planning.pieces import Share
from tilewright.ops.access import Access
from tilewright.ops.definition import Definition
from tilewright.ops.mapping import InMemory
from tilewright.ops.op import Shape
from tilewright.tune.candidate import Candidate


@dataclass(frozen=True)
class PlaceMap:
    """Map from places of a tensor to places of another one. `loops` count the tensor's places,
    innermost first: (places per step here, number of steps, places per step there). `start` is
    where the first place maps to.
    """

    loops: tuple[tuple[int, int, int], ...]
    start: int

    def place(self, own: int) -> int:
        """The place there for a place here.

        >>> [PlaceMap(((1, 3, 1), (3, 4, 6)), 3).place(own) for own in range(6)]
        [3, 4, 5, 9, 10, 11]
        """
        return self.start + sum(own // step % n * to for step, n, to in self.loops)

    def step_along(self, stride: int, extent: int) -> int | None:
        """Places there per step along a dimension of the tensor; None where steps differ.

        >>> PlaceMap(((1, 64, 1), (64, 33, 128)), 0).step_along(64, 33)
        128
        >>> PlaceMap(((1, 64, 1), (64, 33, 128)), 0).step_along(32, 4) is None
        True
        """
        steps = list[tuple[int, int]]()
        for own, count, placed in self.loops:
            first, last = max(own, stride), min(own * count, stride * extent)
            if first < last:
                if first % own or last % first or (own * count) % first:
                    return None
                steps.append((first // stride, placed * (first // own)))
        if not steps or steps[0][0] != 1:
            return None
        step = steps[0][1]
        return step if all(placed == reach * step for reach, placed in steps) else None


def places_written(copy: InMemory) -> PlaceMap | None:
    """The map from a copy's operand to its result; None if some place is not moved so.

    >>> from tilewright.ops.access import straight
    >>> odd_rows = Access((8, 3), (((0, 2),), ((1, 1),)), (1, 0))
    >>> places_written(InMemory((4, 3), odd_rows, (straight((4, 3)),)))
    PlaceMap(loops=((1, 3, 1), (3, 4, 6)), start=3)
    """
    return _places(copy.operands[0], copy.result, copy.extents) if is_plain_copy(copy) else None


def places_read(copy: InMemory) -> PlaceMap | None:
    """The map from a copy's result to its operand; None if some place is not written so."""
    return _places(copy.result, copy.operands[0], copy.extents) if is_plain_copy(copy) else None


def places_within(own: Form, form: Form) -> PlaceMap | None:
    """The map from a form's places, border included, to the same form inside wider borders; None
    where `form` has no such places, or another order.

    >>> from tilewright.network.planning.form import StoredDim, row_major
    >>> wider = Form((4, 3), (StoredDim(0, 1, 6), StoredDim(1, 1, 4)), (1, 0))
    >>> places_within(row_major((4, 3)), wider)
    PlaceMap(loops=((1, 3, 1), (3, 4, 4)), start=4)
    """
    kinds = [[(d.axis, d.step) for d in f.dims] for f in (own, form)]
    if own.shape != form.shape or kinds[0] != kinds[1]:
        return None
    loops, start = list[tuple[int, int, int]](), 0
    for inner, stride, d, placed in zip(
        own.dims, own.strides, form.dims, form.strides, strict=True
    ):
        first = (form.before[d.axis] - own.before[d.axis]) // d.step
        if first < 0 or first + inner.extent > d.extent:
            return None
        loops.append((stride, inner.extent, placed))
        start += first * placed
    return PlaceMap(tuple(reversed(loops)), start)


def _places(own: Access, other: Access, extents: Sequence[int]) -> PlaceMap | None:
    """The map from the places of `own` to the places that `other` pairs them with, or None."""
    loops = counted_places(own, extents)
    to, start = steps_in_memory(other, len(extents))
    if loops is None or other.fill is not None or any(to[axis] < 1 for *_, axis in loops):
        return None
    return PlaceMap(tuple((step, count, to[axis]) for step, count, axis in loops), start)


def is_plain_copy(op: Definition) -> bool:
    """True for a definition that only moves the elements of one tensor, without changing type."""
    moves = (op.body, op.finish, op.gather, len(op.operands)) == ("x0", "x0", None, 1)
    return moves and op.operand_dtypes == (op.out_dtype,) and not op.has_look_ups


def places_between(op: Definition, held: Form, whole: Form) -> PlaceMap | None:
    """Where a copy by definition `op`, from form `held` into form `whole`, puts its elements; None
    if unknown.
    """
    if not is_plain_copy(op):
        return None
    if not is_unblocked(held):
        if not runs_along_blocks(op, held):
            return None
        op = along_blocks(op, held)
    numbers = {axis: axis for axis in range(len(op.extents))}
    try:
        result, source = (
            access_of(form, index_of(access, numbers), op.extents)
            for form, access in ((whole, op.result), (held, op.operands[0]))
        )
    except ProgramError:  # the parts do not run along the blocks of the whole
        return None
    return places_written(InMemory(op.extents, result, (source,), dtype=op.dtype))


def lies_in_boxes(held: Form, there: PlaceMap) -> bool:
    """True if a product's result, or each group's part of it, is a box of the copy's result."""
    extents = tuple(d.extent for d in held.dims)
    return any(own and enclosing_box(own, there) for own in (extents, extents[1:]))


def in_places(
    candidate: Candidate, name: str, there: PlaceMap, machine: Machine
) -> Candidate | None:
    """The candidate with one of its tensors at other places, priced anew; None where steps along
    its dimensions differ there, or do not nest.
    """

    def boxed(program: Program, bound: Mapping[str, int]) -> Program | None:
        return _in_box(program, name, bound, there)

    nests = nests_by(candidate, boxed, f"{name} by {there}", machine)
    return None if nests is None else replace(candidate, nests=nests)


def viewing(candidate: Candidate, name: str, there: PlaceMap, machine: Machine) -> Candidate | None:
    """The candidate with an operand read at other places; None outside the loop IR."""
    kinds = (Candidate, Bordered, Share)
    return in_places(candidate, name, there, machine) if type(candidate) in kinds else None


def _in_box(
    program: Program, name: str, bound: Mapping[str, int], there: PlaceMap
) -> Program | None:
    """The program with a tensor as a box of a larger one; unchanged if it has no such tensor."""

    def larger(own: Tensor) -> LargerTensor | None:
        box = enclosing_box(tuple(int(evaluate(e, bound)) for e in own.shape), there)
        if box is None:
            return None
        shape, first = box
        return replace(own, shape=tuple(map(Const, shape)), zeros=()), first

    return as_part_of(program, name, larger)


def enclosing_box(extents: Shape, there: PlaceMap) -> tuple[Shape, Shape] | None:
    """(shape of a tensor, first index along each dimension) in which a copy's operand of these
    extents is a box; None where steps do not nest.

    >>> enclosing_box((4, 3), PlaceMap(((1, 3, 1), (3, 4, 6)), 3))
    ((4, 6), (0, 3))
    """
    shape, first, last = [1] * len(extents), [0] * len(extents), len(extents) - 1
    inner, rest, reach, stride = last, there.start, 1, 1
    for d in reversed(range(len(extents))):
        if extents[d] == 1:
            continue
        step = there.step_along(stride, extents[d])
        if step is None or step % reach or (d == last and step != 1):
            return None
        if d != last:
            shape[inner] = step // reach
            first[inner], rest = rest % shape[inner], rest // shape[inner]
            if first[inner] + extents[inner] > shape[inner]:
                return None
        inner, reach, stride = d, step, stride * extents[d]
    first[inner], shape[inner] = rest, rest + extents[inner]
    return tuple(shape), tuple(first)
