"""In-memory work divided over several core groups: one share each.

In: a map or a reduction. Out: the operator of one group's share, and the distance between the
groups' starts in each whole tensor: the groups launch one program with different addresses. The
work is divided along the outermost loop that divides evenly. `network.planning.pieces` does the
same for products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.machine import Machine
from tilewright.network.waits import moving_cycles
from tilewright.ops.access import Access
from tilewright.ops.mapping import InMemory

ELEMENTS = "elements"


@dataclass(frozen=True)
class StageDivision:
    """A stage divided by `kind` over `groups` groups. `steps` holds, for each tensor, the elements
    between the starts of successive groups' shares; 0 if all groups read the same.
    """

    kind: str
    groups: int
    steps: tuple[int, ...]

    def starts(self, group: int) -> tuple[int, ...]:
        """Offset of the first element of each tensor for a group."""
        return tuple(group * step for step in self.steps)


def share_of(op: InMemory, groups: int) -> tuple[InMemory, StageDivision] | None:
    """The share of `op` that each of at most `groups` groups computes, and where the shares of
    operands and result start; None if no kept loop divides evenly.

    >>> from tilewright.ops.mapping import mapping
    >>> share, division = share_of(mapping(12, "x0 + 1"), 4)
    >>> share.extents, division
    ((3,), StageDivision(kind='elements', groups=4, steps=(3, 3)))
    """
    for count in range(groups, 1, -1):
        for loop in (i for i in range(op.outer) if op.extents[i] % count == 0):
            size = op.extents[loop] // count
            extents = (*op.extents[:loop], size, *op.extents[loop + 1 :])
            every = [_part(access, loop, extents) for access in (*op.operands, op.result)]
            found = [part for part in every if part is not None]
            if len(found) == len(every):
                *given, result = (access for access, _ in found)
                share = replace(op, extents=extents, result=result, operands=tuple(given))
                return share, StageDivision(
                    ELEMENTS, count, tuple(size * step for _, step in found)
                )
    return None


def least_cycles_alone(op: InMemory, machine: Machine) -> float:
    """Lower bound on the cycles of one group for the whole of `op`: read each place of an operand
    and write each place of the result once, at the engine's peak.
    """
    kinds, places = op.numerics.operands, prod(op.extents[: op.outer])
    read = sum(_fewest_places(access, op.extents) for access in op.operands)
    smallest = min((kind.size_bytes for kind in kinds), default=0)
    return moving_cycles(machine, read * smallest, places * op.numerics.result.size_bytes)


def _fewest_places(access: Access, extents: Sequence[int]) -> int:
    """Lower bound on the distinct places of a tensor that all steps reach; 0 where some lie beyond
    its border or are looked up.

    >>> _fewest_places(Access((9, 12), (((0, 2), (1, 1)), ((2, 4), (3, 1))), (0, 0)), (4, 3, 3, 4))
    48
    """
    if access.fill is not None or access.read_from:
        return 0
    places, seen = 1, set[int]()
    for terms in access.terms:
        found = reach = 1
        for axis, step in sorted(terms, key=lambda term: abs(term[1])):
            own = 1 if axis in seen else extents[axis]
            found = found * own if abs(step) >= reach else max(found, own)
            reach += abs(step) * (own - 1)
        places *= found
        seen.update(axis for axis, _ in terms)
    return places


def _part(access: Access, loop: int, extents: Sequence[int]) -> tuple[Access, int] | None:
    """The access to a share's part of a tensor along `loop`, and the elements per step of the loop;
    None where other elements would be seen as well.

    The dimension that the loop runs along ends with the share. If it is not the outermost one, it
    is split into shares, of which this access sees the first.
    """
    moved = [d for d, terms in enumerate(access.terms) if any(own == loop for own, _ in terms)]
    if not moved:
        return access, 0
    d, shape, terms = moved[0], access.shape, access.terms[moved[0]]
    before, behind = shape[:d], shape[d + 1 :]
    along = sum(step for own, step in terms if own == loop)
    reach = access.offsets[d] + sum((extents[own] - 1) * step for own, step in terms) + 1
    if len(moved) > 1 or any(step < 0 for _, step in terms):
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
