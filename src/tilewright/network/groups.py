"""An operator on all core groups: what each of them takes, computes and gives.

In: a partition and the candidate that computes its pieces. Out: for each tensor of the pieces'
program its form, and for each group its region of the whole operand and the border of zeros that
its piece has. A family's driver is generated from it: it cuts whole operands in C order into the
pieces' tensors, starts all groups, and puts the result together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from tilewright.codegen.artifact import Artifact
from tilewright.machine import Capability
from tilewright.network.form import Form, StoredDim
from tilewright.network.forms import Forms
from tilewright.ops import Op
from tilewright.ops.box import Box
from tilewright.partition import Partition
from tilewright.tune.candidate import Candidate

_MANY = 8
"""Forms are found on operators with no more images, channels, rows or columns of matrices: they are
alike, and this is two blocks of any storage.
"""
_FREE_EXTENTS = ("batch", "m", "n", "k")
_CHANNELS = ("in_channels", "out_channels")


@dataclass(frozen=True)
class Cut:
    """One tensor of the pieces: `forms` and `regions` of the whole array, one for each group.

    `shared`: the groups read one array together.
    """

    name: str
    shape: tuple[int, ...]
    forms: tuple[Form, ...]
    regions: tuple[Box, ...]
    shared: bool = False

    @property
    def elements(self) -> int:
        """Elements that are written into the groups' tensors, or read from them."""
        return self.forms[0].elements * (1 if self.shared else len(self.forms))


@dataclass(frozen=True)
class GroupWork:
    """The operands and the result of an operator, cut for the groups."""

    groups: int
    operands: tuple[Cut, ...]
    result: Cut


class Drives(Protocol):
    """Generates what starts a kernel on all core groups."""

    def drive(self, kernel: Artifact, work: GroupWork) -> Artifact:
        """The kernel's artifact with the driver, whose tensors are whole arrays in C order."""


DRIVES: Capability[Drives] = Capability("groups", ("drive",), "driver for all core groups")


def group_work(partition: Partition, candidate: Candidate) -> GroupWork:
    """What the groups do for the whole operator of a partition."""
    seed, pieces = candidate.seed, partition.pieces
    found = [_forms(replace(candidate, op=piece.op)) for piece in pieces]
    shared = partition.shared_operands
    operands = []
    for number, name in enumerate(seed.operands):
        forms = tuple(forms[name] for forms in found)
        regions = tuple(piece.operands[number] for piece in pieces)
        together = shared[number] and len(set(forms)) == 1
        shape = partition.op.input_shapes[number]
        operands.append(Cut(name, shape, forms, regions, together))
    forms = tuple(forms[seed.result] for forms in found)
    regions = tuple(piece.result for piece in pieces)
    result = Cut(seed.result, partition.op.out_shape, forms, regions)
    return GroupWork(len(pieces), tuple(operands), result)


def _forms(candidate: Candidate) -> dict[str, Form]:
    """The forms of a candidate's tensors, found where there are few elements."""
    op = candidate.op
    free = _FREE_EXTENTS if getattr(op, "groups", 1) > 1 else (*_FREE_EXTENTS, *_CHANNELS)
    few = {f: min(getattr(op, f), _MANY) for f in free if hasattr(op, f)}
    small: Op = replace(op, **few)  # type: ignore[type-var]  # operators are dataclasses
    found = Forms().of(replace(candidate, op=small))
    shapes = dict(zip(candidate.seed.operands, op.input_shapes, strict=True))
    shapes[candidate.seed.result] = op.out_shape
    return {name: _extended(form, shapes[name]) for name, form in found.items()}


def _extended(form: Form, shape: tuple[int, ...]) -> Form:
    """The form for the shape itself: what grows is the outermost dimension along an axis."""
    dims = []
    for d in form.dims:
        outermost = d.step == max(other.step for other in form.along(d.axis))
        grown = shape[d.axis] - form.shape[d.axis]
        extent = d.extent + -(-grown // d.step) if outermost else d.extent
        dims.append(StoredDim(d.axis, d.step, extent))
    return Form(shape, tuple(dims), form.before)
