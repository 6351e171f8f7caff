"""A network on one machine, in the order in which it is computed: stages on values, as data.

In: nothing; these are the values that `network.build` makes, `network.interpret` and
`network.simulate` run and a family emits. The plan is that of one group of cores: groups divide the
images, each runs all stages on its own. Of few images they divide stages (`network.pieces`,
`network.shares`): all see the same values, and a stage begins when the one before it has ended on
all groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tilewright.codegen.artifact import Array
from tilewright.common.dtypes import dtype
from tilewright.machine import Machine
from tilewright.network.arena import Life, place
from tilewright.network.form import Form
from tilewright.network.results import LayoutChoice
from tilewright.network.shares import Division
from tilewright.ops import Op
from tilewright.tune.candidate import Candidate

Role: TypeAlias = Literal["input", "output", "constant", "scratch"]
Work: TypeAlias = Literal["product", "elementwise", "window", "layout"]
"""What a stage does, in words of a table: `layout` moves elements and computes nothing."""


@dataclass(frozen=True)
class Value:
    """Memory that holds a tensor in a form; places that hold no element are `filled`.

    A constant is `made` of weights by an expression over their elements, or holds known `numbers`.
    """

    name: str
    form: Form
    dtype: str
    role: Role
    made: tuple[str, tuple[str, ...]] | None = None
    numbers: Array | None = field(default=None, compare=False, repr=False)
    filled: float = 0.0

    @property
    def size_bytes(self) -> int:
        """Bytes of one group's."""
        return self.form.elements * dtype(self.dtype).size_bytes


@dataclass(frozen=True, eq=False)
class Stage:
    """One program: `op` on memory or on the operator's own tensors, by `candidate`.

    `arguments` say which value each tensor of the program is; the last one is written. `nodes` are
    those of the network that it computes. Where several groups compute it together, `division` says
    where in these values the tensors of each begin.
    """

    name: str
    label: str
    work: Work
    op: Op
    candidate: Candidate
    arguments: tuple[tuple[str, int], ...]
    nodes: tuple[str, ...] = ()
    flops: int = 0
    division: Division | None = None

    @property
    def groups(self) -> int:
        """How many groups compute it together."""
        return 1 if self.division is None else self.division.groups

    def starts(self, group: int) -> tuple[int, ...]:
        """The first element of each tensor that a group works on."""
        alone = (0,) * len(self.arguments)
        return alone if self.division is None else self.division.starts(group)

    @property
    def reads(self) -> tuple[int, ...]:
        """The values that are read."""
        return tuple(value for _, value in self.arguments[:-1])

    @property
    def writes(self) -> int:
        """The value that is written, or a part of it."""
        return self.arguments[-1][1]


def lives_of(values: Sequence[Value], uses: Sequence[Sequence[int]]) -> dict[int, Life]:
    """For each scratch value its bytes and the first and last of the stages that use it, from the
    values that each stage uses.
    """
    found: dict[int, Life] = {}
    for number, used in enumerate(uses):
        for value in used:
            if values[value].role == "scratch":
                first = found[value].first if value in found else number
                found[value] = Life(values[value].size_bytes, first, number)
    return found


@dataclass(frozen=True, eq=False)
class Plan:
    """All stages in order on all values, of one of `groups` groups. `lower_bound_cycles` are those
    of the products by the model, each by its fastest candidate and without a change of layout;
    `layout_choice` is how layouts were chosen for the whole.
    """

    name: str
    machine: Machine
    dtype: str
    groups: int
    values: tuple[Value, ...]
    stages: tuple[Stage, ...]
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int, Form], ...]
    lower_bound_cycles: float = 0.0
    layout_choice: LayoutChoice | None = None

    @property
    def together(self) -> int:
        """How many groups compute stages of it together."""
        return max((stage.groups for stage in self.stages), default=1)

    @property
    def lives(self) -> dict[int, Life]:
        """For each scratch value its bytes and the first and last stage that uses it."""
        return lives_of(self.values, [(*stage.reads, stage.writes) for stage in self.stages])

    @property
    def arena(self) -> tuple[dict[int, int], int]:
        """(byte offset of each scratch value, bytes of the arena)."""
        return place(self.lives)

    @property
    def launch_cycles(self) -> int:
        """Cycles to start and join one stage's program."""
        return self.machine.groups.launch_cycles

    @property
    def estimate_cycles(self) -> float:
        """Cycles of a group by the model, launches included."""
        return sum(stage.candidate.cycles + self.launch_cycles for stage in self.stages)

    @property
    def constant_bytes(self) -> int:
        """Bytes of all constants."""
        return sum(v.size_bytes for v in self.values if v.role == "constant")
