"""A network on one machine, in execution order: stages on values, as data.

`network.build` makes these values, `network.interpret` and `network.simulate` run them, and a
family emits them. A plan is for one group of cores: groups divide the images, and each runs all
stages on its own. With few images they divide stages instead (`network.planning.pieces`,
`network.planning.shares`): all see the same values, and meet before a stage that needs other
groups' results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from tilewright.codegen.artifact import Array
from tilewright.common.dtypes import dtype
from tilewright.common.remembered import remembered
from tilewright.graph.graph import Node
from tilewright.graph.liveness import most_bytes
from tilewright.ir.nodes import Program
from tilewright.machine import Machine
from tilewright.network.planning.arena import Life, place
from tilewright.network.planning.form import Form
from tilewright.network.planning.shares import StageDivision
from tilewright.network.results import LayoutChoice
from tilewright.network.waits import StageUse, cycles_before, meetings, steps
from tilewright.ops import Op
from tilewright.tune.candidate import Candidate

Role: TypeAlias = Literal["input", "output", "constant", "state", "scratch", "elsewhere"]
"""A state is an input written in place; an "elsewhere" value is another group's scratch."""
Work: TypeAlias = Literal["product", "elementwise", "window", "layout"]
"""Kind of work of a stage, as tables print it; `layout` moves elements and computes nothing."""


@dataclass(frozen=True)
class Value:
    """Memory that holds a tensor in a form.

    Places without an element are `filled`, by a stage or `ahead` of the first one. A constant is
    `made` of weights by an expression over their elements, or holds known `numbers`. Where groups
    have images of their own, a `shared` value is still the same for all. An "elsewhere" value is
    value `origin[0]` of group `origin[1]`.
    """

    name: str
    form: Form
    dtype: str
    role: Role
    made: tuple[str, tuple[str, ...]] | None = None
    numbers: Array | None = field(default=None, compare=False, repr=False)
    filled: float = 0.0
    ahead: bool = False
    shared: bool = False
    origin: tuple[int, int] | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the value in one group's memory."""
        return self.form.elements * dtype(self.dtype).size_bytes


@dataclass(frozen=True, eq=False)
class Scheduled:
    """The schedule of an operator and its modelled cycles: a candidate, or, without one, the
    operator's own accesses. `division` holds where each group's tensors start if several groups
    compute it together.
    """

    cycles: float
    candidate: Candidate | None = None
    division: StageDivision | None = None


Schedules = dict[Op, Scheduled]
"""Schedules of operators that no candidate was chosen for yet."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One operator on memory or on tensors of its own, as `scheduled`.

    `arguments` pairs each tensor name with a value number; the last one is written. `nodes` are the
    network's nodes that the stage computes.
    """

    name: str
    label: str
    work: Work
    op: Op
    scheduled: Scheduled
    arguments: tuple[tuple[str, int], ...]
    nodes: tuple[str, ...]
    flops: int

    @property
    def candidate(self) -> Candidate:
        """The stage's candidate, which must exist."""
        assert self.scheduled.candidate is not None
        return self.scheduled.candidate

    @property
    def division(self) -> StageDivision | None:
        """Starts of each group's tensors; None if one group computes all, or each its own."""
        return self.scheduled.division

    @property
    def groups(self) -> int:
        """Number of groups that compute the stage together."""
        return 1 if self.division is None else self.division.groups

    def starts(self, group: int) -> tuple[int, ...]:
        """Offset of the first element of each tensor that a group works on."""
        alone = (0,) * len(self.arguments)
        return alone if self.division is None else self.division.starts(group)

    @property
    def reads(self) -> tuple[int, ...]:
        return tuple(value for _, value in self.arguments[:-1])

    @property
    def writes(self) -> int:
        """The number of the value that is written, wholly or in part."""
        return self.arguments[-1][1]


def overwritable(op: Op, reads: Sequence[int]) -> Iterator[int]:
    """Operands that a map's result may overwrite: each is read just where it is written."""
    own = op.in_memory
    if own is None or own.gather is not None or {*own.operand_dtypes} != {own.out_dtype}:
        return
    for access, value in zip(own.operands, reads, strict=True):
        if access == own.result and reads.count(value) == 1:
            yield value


def use_of(values: Sequence[Value], arguments: Sequence[int], groups: int) -> StageUse:
    """The use of values by a stage on `groups` core groups; the last argument is written.

    A value that all groups see counts as several groups' even if one group writes it.
    """
    *given, writes = arguments
    groups = max(groups, 2) if values[writes].shared else groups
    origins = [(values[v].origin or (v,))[0] for v in given]
    across = tuple(own for v, own in zip(given, origins, strict=True) if v != own)
    return StageUse(tuple(origins), writes, groups, across)


def lives_of(values: Sequence[Value], uses: Sequence[StageUse]) -> dict[int, Life]:
    """For each scratch value its bytes, and the first and last step that uses it. A value that
    other groups read lives until the next meeting.
    """
    found: dict[int, Life] = {}
    apart, meets = any(use.across for use in uses), meetings(uses)
    numbers = range(len(uses)) if apart else steps(uses)
    for at, (number, use) in enumerate(zip(numbers, uses, strict=True)):
        for value in (*use.reads, use.writes):
            if values[value].role == "scratch":
                first, last = found[value].first if value in found else number, number
                if value in use.across:
                    later = (n for n in range(at + 1, len(uses)) if meets[n])
                    last = next(later, len(uses)) - 1
                last = max(last, found[value].last if value in found else last)
                found[value] = Life(values[value].size_bytes, first, last)
    return found


@dataclass(frozen=True, eq=False)
class Plan:
    """All stages in order on all values, for one of `groups` groups. `lower_bound_cycles` sums the
    products' modelled cycles, each by its fastest candidate and without layout changes;
    `layout_choice` says how layouts were chosen for the whole. Constants are computed from the
    weights and from what the nodes `ahead` compute of those.
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
    ahead: tuple[Node, ...] = ()

    @remembered
    def program(self, stage: Stage) -> Program:
        """The program of a stage, built once."""
        return stage.candidate.program(self.machine)

    @property
    def given(self) -> tuple[tuple[str, int], ...]:
        """The inputs other than states, by name and value number."""
        return tuple((n, v) for n, v in self.inputs if self.values[v].role != "state")

    @property
    def states(self) -> tuple[tuple[str, str], ...]:
        """(input name, output name) of each state, which is written in place."""
        after = {value: name for name, value, _ in self.outputs}
        return tuple((n, after[v]) for n, v in self.inputs if self.values[v].role == "state")

    @property
    def together(self) -> int:
        """Most groups that compute one stage together; 1 where each has its own images."""
        alone = self.groups > 1
        return 1 if alone else max((stage.groups for stage in self.stages), default=1)

    def groups_of(self, stage: Stage) -> int:
        """Number of groups that run a stage, on a share or on images of their own."""
        return self.groups if stage.division is None else stage.groups

    @property
    def uses(self) -> list[StageUse]:
        """For each stage the values it reads and writes, and how many groups compute it."""
        return [
            use_of(self.values, (*stage.reads, stage.writes), stage.groups) for stage in self.stages
        ]

    @property
    def meetings(self) -> tuple[bool, ...]:
        """For each stage, True if all groups meet before it."""
        return meetings(self.uses)

    @property
    def lives(self) -> dict[int, Life]:
        """For each scratch value its bytes, and the first and last step that uses it."""
        return lives_of(self.values, self.uses)

    @property
    def arena(self) -> tuple[dict[int, int], int]:
        """(byte offset of each scratch value, bytes of the arena)."""
        return place(self.lives)

    @cached_property
    def before(self) -> tuple[dict[str, int], ...]:
        """Cycles before each stage by cause: launch, barrier, meeting."""
        return cycles_before(self.uses, self.machine.groups)

    @property
    def estimate_cycles(self) -> float:
        """Modelled cycles of a group, with the launch and waits before the stages."""
        pairs = zip(self.stages, self.before, strict=True)
        return sum(stage.scheduled.cycles + sum(before.values()) for stage, before in pairs)

    @property
    def live_bytes(self) -> int:
        """Bytes of the scratch values that live at once; 0 without states."""
        lives = self.lives.values() if self.states else ()
        return most_bytes((life.size_bytes, life.first, life.last) for life in lives)

    @property
    def constant_bytes(self) -> int:
        return self._bytes_of("constant")

    @property
    def state_bytes(self) -> int:
        """Bytes of all states; each has memory once."""
        return self._bytes_of("state")

    def _bytes_of(self, role: Role) -> int:
        return sum(v.size_bytes for v in self.values if v.role == role)
