"""A candidate of the search: an algorithm, and for each of its nests a schedule with its price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.common.digest import digest, own_sources
from tilewright.common.errors import ScheduleError
from tilewright.ir.nodes import Program
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.passes.base import Observer
from tilewright.passes.pipeline import make_explicit
from tilewright.schedule.lower import declare
from tilewright.schedule.structures import Structure
from tilewright.seeds.space import Seed, parameters
from tilewright.seeds.steps import Schedule


@dataclass(frozen=True, eq=False)
class NestChoice:
    """One priced candidate of one nest: estimated cycles, those of them in which the cores run
    primitives, and cycles that no run falls below.

    The cores run one call at a time and the engine serves one transfer at a time, so either sum is
    such a bound (0 where it was not priced). It takes every iteration of a loop but the last for a
    whole one: where each has less to do, at the end of an image, a run may fall a hundredth or two
    below it; copies of the baseline "padded", which run on beyond their source, may fall further.
    """

    structure: Structure
    factors: Mapping[str, int]
    cycles: float
    compute_cycles: float = 0.0
    bound_cycles: float = 0.0

    @property
    def schedule(self) -> Schedule:
        """The candidate as a replayable schedule."""
        return Schedule(self.structure.steps, tuple(sorted(self.factors.items())))


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to compute an operator: an algorithm and a choice for each of its nests.

    `blocks` are the sizes of the blocks that its nests share, `refill_cycles` what its routines
    add by evicting each other from the instruction cache (`tune.refills`).
    """

    op: Op
    seed: Seed
    nests: tuple[NestChoice, ...]
    blocks: Mapping[str, int] = field(default_factory=dict)
    refill_cycles: float = 0.0

    @property
    def values(self) -> Mapping[str, int]:
        """The extents that the seed names."""
        return {**parameters(self.op), **self.blocks}

    @property
    def cycles(self) -> float:
        """Estimated cycles of one core group."""
        return sum(n.cycles for n in self.nests) + self.refill_cycles

    def key(self, machine: Machine) -> str:
        """Digest of all that decides its program on a machine, by these sources of tilewright."""
        seed = self.seed
        kept = (
            seed.name,
            seed.tensors,
            seed.layouts,
            seed.together,
            self.op,
            [*self.values.items()],
        )
        nests = ((n.structure.key, sorted(n.factors.items())) for n in self.nests)
        return digest(repr(kept), repr([*nests]), machine.content_hash(), own_sources())

    def program(self, machine: Machine, observer: Observer | None = None) -> Program:
        """The candidate's program, ready to run, simulate and emit."""
        bound = [{**self.values, **n.factors} for n in self.nests]
        layouts = self.joint_layouts()
        tensors = [declare(t, layouts, self.op.dtype) for t in self.seed.tensors if not t.storage]
        staged = [n.structure.staged for n in self.nests]
        hooks = (observer,) if observer else ()
        together = self.seed.together
        return make_explicit(
            self.seed.name, staged, bound, machine, tensors, *hooks, together=together
        )

    @property
    def shared(self) -> tuple[str, ...]:
        """Names of the tensors that every group of cores reads at the same time."""
        tensors = (t for n in self.nests for t in n.structure.staged.tensors)
        return tuple(sorted({t.name for t in tensors if t.shared}))

    def joint_layouts(self) -> dict[str, tuple[str, ...]]:
        """A joint layout of the seed that agrees with every nest; tensors of no nest follow."""
        own = frozenset().union(*(n.structure.layouts for n in self.nests))
        for joint in self.seed.layout_combinations():
            if own <= frozenset(joint):
                return {x.tensor: x.dims for x in joint}
        raise ScheduleError(f"the nests of {self.seed.name!r} disagree on layouts")
