"""An operator on all core groups: inputs, work and result of each group.

In: a partition and the candidate that computes its pieces. Out: for each tensor of the pieces'
program its form, and for each group its region of the whole operand and the zero border of its
piece. A family generates a driver from it: the driver starts all groups, whose cores arrange whole
C-order operands as the pieces' tensors (`network.planning.arranging`), compute, and write the
result to its place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Protocol

from tilewright.codegen.artifact import Artifact
from tilewright.common.dtypes import dtype
from tilewright.machine import Capability, Machine
from tilewright.network.plan import Stage
from tilewright.network.planning.form import Form
from tilewright.network.planning.forms import Forms
from tilewright.ops.box import Box
from tilewright.partition import Partition
from tilewright.tune.candidate import Candidate


@dataclass(frozen=True)
class CutTensor:
    """One tensor of the pieces: `forms` and `regions` of the whole array, one per group.

    `shared`: the groups read one array together, or accumulate into one. `stages` are the programs
    by which each group (the first, for a shared array) arranges its tensor or stores its result;
    empty where the region already lies so.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    forms: tuple[Form, ...]
    regions: tuple[Box, ...]
    shared: bool = False
    stages: tuple[tuple[Stage, ...], ...] = ()

    @property
    def is_moved(self) -> bool:
        """True if stages copy between the whole array and the groups' tensors."""
        return any(self.stages)

    @property
    def moved_bytes(self) -> int:
        """Bytes copied into or out of the groups' tensors."""
        copies = 1 if self.shared else len(self.forms)
        written = self.forms[0].elements * copies if self.is_moved else 0
        return written * dtype(self.dtype).size_bytes

    def first(self, group: int) -> int:
        """Offset in elements of a group's region in the whole array."""
        starts = enumerate(self.regions[group].start)
        return sum(start * prod(self.shape[axis + 1 :]) for axis, start in starts)


@dataclass(frozen=True)
class GroupWork:
    """The operands and the result of an operator, cut for the groups.

    Where the groups' results are partial, `adding` sums one group's share of them; all groups share
    the sum.
    """

    groups: int
    operands: tuple[CutTensor, ...]
    result: CutTensor
    adding: Candidate | None = None


class Drives(Protocol):
    """Generator of drivers that start a kernel on all core groups."""

    def drive(self, kernel: Artifact, work: GroupWork, machine: Machine) -> Artifact:
        """The kernel's artifact with the driver, whose tensors are whole arrays in C order."""


DRIVES: Capability[Drives] = Capability("groups", ("drive",), "driver for all core groups")


def group_work(
    partition: Partition, candidate: Candidate, adding: Candidate | None = None
) -> GroupWork:
    """Operands and result of a partition's operator, cut for the groups."""
    seed, pieces = candidate.seed, partition.pieces
    known = Forms()
    found = [known.of(replace(candidate, op=piece.op)) for piece in pieces]
    shared, numerics = partition.shared_operands, partition.op.numerics
    operands = []
    for number, name in enumerate(seed.operands):
        forms = tuple(forms[name] for forms in found)
        regions = tuple(piece.operands[number] for piece in pieces)
        together = shared[number] and len(set(forms)) == 1
        shape = partition.op.input_shapes[number]
        kind = numerics.operands[number].name
        operands.append(CutTensor(name, kind, shape, forms, regions, together))
    forms = tuple(forms[seed.result] for forms in found)
    regions = tuple(piece.result for piece in pieces)
    shape, kind = partition.op.out_shape, numerics.result.name
    result = CutTensor(seed.result, kind, shape, forms, regions, partition.partial)
    return GroupWork(len(pieces), tuple(operands), result, adding)
