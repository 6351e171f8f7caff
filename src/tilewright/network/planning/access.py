"""Accesses to a network's tensors: forms in, accesses of in-memory work out.

A stage runs over loops; the index of an element along each axis of a tensor is a sum of loop
indices. `access_of` finds the element's place in memory. `normalised` reduces the loops and memory
dimensions to the fewest that describe the same access, so that equal work becomes equal operators
whatever the tensors are called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.common.errors import ProgramError
from tilewright.network.planning.form import Form
from tilewright.ops.access import Access, Term
from tilewright.ops.definition import Definition
from tilewright.ops.mapping import InMemory

Index = tuple[tuple[Term, ...], int]
"""The index along one axis: terms of (loop, step), and a constant."""


def plain(axes: int) -> tuple[Index, ...]:
    """The index of one loop per axis."""
    return tuple((((axis, 1),), 0) for axis in range(axes))


def access_of(form: Form, index: Sequence[Index], extents: Sequence[int]) -> Access:
    """The place in memory of the element at `index`.

    Raises ProgramError where the form stores blocks that no loop runs along.
    """
    terms: list[list[Term]] = [[] for _ in form.dims]
    offsets = [0] * len(form.dims)
    for axis, (own, constant) in enumerate(index):
        dims = [d for d, stored in enumerate(form.dims) if stored.axis == axis]
        offset = constant + form.before[axis]
        if offset:
            if len(dims) != 1 or form.dims[dims[0]].step != 1:
                raise _not_along(axis)
            offsets[dims[0]] += offset
        for loop, step in own:
            if extents[loop] > 1:
                d = _dimension(form, dims, step, extents[loop], axis)
                terms[d].append((loop, step // form.dims[d].step))
    shape = tuple(stored.extent for stored in form.dims)
    return Access(shape, tuple(tuple(t) for t in terms), tuple(offsets))


def _dimension(form: Form, dims: Sequence[int], step: int, extent: int, axis: int) -> int:
    """The memory dimension that a loop runs along."""
    for d in dims:
        own = form.dims[d].step
        larger = [form.dims[o].step for o in dims if form.dims[o].step > own]
        if step % own == 0 and (extent - 1) * abs(step) < min(larger, default=1 << 62):
            return d
    raise _not_along(axis)


def _not_along(axis: int) -> ProgramError:
    return ProgramError(f"the loops do not run along the blocks that axis {axis} is stored in")


def split_extents(shape: Sequence[int], forms: Sequence[Form]) -> tuple[tuple[int, ...], ...]:
    """For each axis the steps of loops that run along the blocks of every form, largest first."""
    found = []
    for axis, size in enumerate(shape):
        steps = {1} | {d.step for form in forms for d in form.along(axis)}
        chain = sorted((s for s in steps if s < max(size, 2)), reverse=True)
        whole = [size, *chain]
        if any(a % b for a, b in zip(whole, chain, strict=False)):
            raise _not_along(axis)
        found.append(tuple(chain))
    return tuple(found)


def run_together(shape: Sequence[int], forms: Sequence[Form]) -> bool:
    """True if some set of loops runs along the blocks of every form."""
    try:
        split_extents(shape, forms)
    except ProgramError:
        return False
    return True


def blocked_loops(
    shape: Sequence[int], forms: Sequence[Form]
) -> tuple[tuple[int, ...], tuple[Index, ...]]:
    """(extents of loops that run along the blocks of every form, index along each axis)."""
    extents: list[int] = []
    index: list[Index] = []
    for size, steps in zip(shape, split_extents(shape, forms), strict=True):
        terms, outer = [], size
        for step in steps:
            terms.append((len(extents), step))
            extents.append(outer // step)
            outer = step
        index.append((tuple(terms), 0))
    return tuple(extents), tuple(index)


def steps_in_memory(access: Access, axes: int) -> tuple[list[int], int]:
    """(places in memory per step of each axis, offset of the first place)."""
    found, first = [0] * axes, 0
    for d, (terms, offset) in enumerate(zip(access.terms, access.offsets, strict=True)):
        stride = prod(access.shape[d + 1 :])
        first += offset * stride
        for axis, step in terms:
            found[axis] += step * stride
    return found, first


def counted_places(access: Access, extents: Sequence[int]) -> list[tuple[int, int, int]] | None:
    """(places per step, number of steps, axis) of each axis that counts a tensor's places,
    innermost first; None unless the axes count every place exactly once.

    >>> counted_places(Access((2, 3), (((1, 1),), ((0, 1),)), (0, 0)), (3, 2))
    [(1, 3, 0), (3, 2, 1)]
    """
    steps, start = steps_in_memory(access, len(extents))
    loops = sorted((steps[a], n, a) for a, n in enumerate(extents) if n > 1)
    reach = 1
    for step, count, _ in loops:
        if step != reach:
            return None
        reach *= count
    whole = reach == prod(access.shape) and not start and access.fill is None
    return loops if whole else None


def index_of(access: Access, number: Mapping[int, int]) -> tuple[Index, ...]:
    """The index along each axis of a tensor, with loops renumbered by `number`."""
    return tuple(zip(access.renamed(number).terms, access.offsets, strict=True))


def along_blocks(op: Definition, form: Form) -> Definition:
    """A copy of elements with axes split to run along and through the form's blocks."""
    for d, place in enumerate(op.operands[0].terms):
        for step in [own.step for own in form.along(d) if own.step > 1]:
            axis, number = place[0][0], len(op.extents)
            outer = op.extents[axis] // step
            extents = (*op.extents[:axis], step, *op.extents[axis + 1 :], outer)
            accesses = [_in_steps(x, axis, number, step) for x in (op.result, *op.operands)]
            op = replace(op, extents=extents, result=accesses[0], operands=tuple(accesses[1:]))
    return op


def _in_steps(access: Access, axis: int, outer: int, size: int) -> Access:
    """The access with an axis split into `size` steps, an `outer` axis counting the blocks."""
    own = (((outer, s * size) for a, s in place if a == axis) for place in access.terms)
    terms = ((*more, *place) for more, place in zip(own, access.terms, strict=True))
    return replace(access, terms=tuple(terms))


@dataclass(frozen=True)
class _Loops:
    """Loops and the accesses over them; the first access is the result's."""

    extents: tuple[int, ...]
    accesses: tuple[Access, ...]


def normalised(op: InMemory) -> InMemory:
    """`op` with the fewest loops and memory dimensions; unchanged if it looks up places."""
    if op.has_look_ups:
        return op
    found = _normalised(_Loops(op.extents, (op.result, *op.operands)), op.outer)
    result, *operands = found.accesses
    return replace(op, extents=found.extents, result=result, operands=tuple(operands))


def forwards_gathered(op: InMemory) -> InMemory:
    """`op` with gathered axes reversed where every operand is read backwards along them."""
    for axis in range(op.outer, len(op.extents)):
        steps = [s for x in op.operands for place in x.terms for a, s in place if a == axis]
        if steps and max(steps) < 0:
            operands = tuple(x.turned(op.extents, {axis}) for x in op.operands)
            op = replace(op, operands=operands)
    return op


def _normalised(loops: _Loops, kept: int) -> _Loops:
    """Drop loops of one iteration, order the others as the result's dimensions, and join
    neighbours. Loops from `kept` on stay last and unjoined.
    """
    split = tuple(_split(_of_diagonals(a), loops.extents) for a in loops.accesses)
    split = tuple(_joined_dims(a) for a in split)
    order = [loop for terms in split[0].terms for loop, _ in terms if loop < kept]
    rest = [loop for loop in range(kept) if loop not in order]
    behind = [loop for loop in range(kept, len(loops.extents)) if loops.extents[loop] > 1]
    used = [loop for loop in (*order, *rest) if loops.extents[loop] > 1]
    named = [*(used or list(range(kept))[:1]), *behind]
    place = {loop: i for i, loop in enumerate(named)}
    extents = tuple(loops.extents[loop] for loop in named)
    found = _Loops(extents, tuple(a.renamed(place) for a in split))
    count = len(named) - len(behind)
    if not count:  # a single number: keep one loop of one iteration
        shifted = {loop: loop + 1 for loop in range(len(extents))}
        accesses = tuple(a.renamed(shifted) for a in found.accesses)
        found, count = _Loops((1, *extents), accesses), 1
    if found.extents == (1,) and not any(a.shape for a in found.accesses):
        # one core computes it, as it may be read in its place
        return _Loops((1,), (Access((1,), (((0, 1),),), (0,)),) * len(found.accesses))
    outer = 0
    while outer + 1 < count:
        joined = _joined_loops(found, outer)
        if joined is None:
            outer += 1
        else:
            found, count = joined, count - 1
    return found


def _of_diagonals(access: Access) -> Access:
    """Join the dimensions that one loop runs along at once, and those between, into one.

    >>> _of_diagonals(Access((5, 5), (((0, 1),), ((0, 1),)), (0, 0)))
    Access(shape=(25,), terms=(((0, 6),),), offsets=(0,), fill=None, read_from=())
    """
    for loop in access.axes:
        dims = [d for d, terms in enumerate(access.terms) if any(own == loop for own, _ in terms)]
        if len(dims) > 1:
            first, end = dims[0], dims[-1] + 1
            steps: dict[int, int] = {}
            offset = 0
            for d in range(first, end):
                stride = prod(access.shape[d + 1 : end])
                offset += access.offsets[d] * stride
                for own, step in access.terms[d]:
                    steps[own] = steps.get(own, 0) + step * stride
            joined = Access(
                (*access.shape[:first], prod(access.shape[first:end]), *access.shape[end:]),
                (*access.terms[:first], tuple(steps.items()), *access.terms[end:]),
                (*access.offsets[:first], offset, *access.offsets[end:]),
                access.fill,
            )
            return _of_diagonals(joined)
    return access


def _split(access: Access, extents: Sequence[int]) -> Access:
    """Split a dimension through which several nested loops run into one dimension per loop."""
    shape: list[int] = []
    terms: list[tuple[Term, ...]] = []
    offsets: list[int] = []
    for size, own, offset in zip(access.shape, access.terms, access.offsets, strict=True):
        ordered = sorted((t for t in own if extents[t[0]] > 1), key=lambda t: -t[1])
        sizes = [extents[loop] for loop, _ in ordered]
        whole = offset == 0 and prod(sizes) == size and len(ordered) > 1
        if whole and all(s == prod(sizes[i + 1 :]) for i, (_, s) in enumerate(ordered)):
            shape += sizes
            terms += [((loop, 1),) for loop, _ in ordered]
            offsets += [0] * len(ordered)
        else:
            shape.append(size)
            terms.append(tuple(ordered))
            offsets.append(offset)
    return Access(tuple(shape), tuple(terms), tuple(offsets), access.fill)


def _joined_dims(access: Access) -> Access:
    """Drop dimensions of extent 1, unless an index other than 0 is read along them."""
    kept = [
        d for d, size in enumerate(access.shape) if size > 1 or access.terms[d] or access.offsets[d]
    ]
    return replace(
        access,
        shape=tuple(access.shape[d] for d in kept),
        terms=tuple(access.terms[d] for d in kept),
        offsets=tuple(access.offsets[d] for d in kept),
    )


def _joined_loops(loops: _Loops, outer: int) -> _Loops | None:
    """Loop `outer` and the next one joined; None where some access does not allow it."""
    inner, accesses = outer + 1, []
    for access in loops.accesses:
        if not access.axes & {outer, inner}:
            accesses.append(access)
            continue
        single = [t[0] if len(t) == 1 else (-1, 0) for t in access.terms]
        d = next((d for d, own in enumerate(single) if own in ((outer, 1), (outer, -1))), None)
        if d is None or d + 1 == len(access.shape):
            return None
        step, size, first = single[d][1], access.shape[d + 1], access.offsets[d + 1]
        whole = size == loops.extents[inner] and first == (0 if step > 0 else size - 1)
        if single[d + 1] != (inner, step) or not whole:
            return None
        shape = (*access.shape[:d], access.shape[d] * size, *access.shape[d + 2 :])
        offsets = (*access.offsets[:d], access.offsets[d] * size + first, *access.offsets[d + 2 :])
        terms = (*access.terms[: d + 1], *access.terms[d + 2 :])
        accesses.append(Access(shape, terms, offsets, access.fill))
    place = {i: i if i <= outer else i - 1 for i in range(len(loops.extents)) if i != inner}
    extents = [n for i, n in enumerate(loops.extents) if i != inner]
    extents[outer] = loops.extents[outer] * loops.extents[inner]
    return _Loops(tuple(extents), tuple(a.renamed(place) for a in accesses))
