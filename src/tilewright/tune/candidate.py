"""Candidates of the search: an algorithm, with a priced schedule for each of its nests."""

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
    """One priced candidate of one nest: `cycles` is the estimate, `compute_cycles` the part of it
    in which cores run primitives, and `bound_cycles` a lower bound, 0 where none was priced.

    The cores run one call at a time and the engine serves one transfer at a time, so the sum over
    either is a bound. It prices every iteration but the last as a full one: at the end of an image,
    where iterations do less, a run may undercut it by a hundredth or two. Copies of the baseline
    "padded", which run on beyond their source, may undercut it by more.
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

    `blocks` maps the blocks that the nests share to their sizes. `refill_cycles` is the time lost
    where routines evict each other from the instruction cache (`tune.refills`).
    """

    op: Op
    seed: Seed
    nests: tuple[NestChoice, ...]
    blocks: Mapping[str, int] = field(default_factory=dict)
    refill_cycles: float = 0.0

    @property
    def values(self) -> Mapping[str, int]:
        """Values of the seed's parameters: the operator's extents and the sizes of blocks."""
        return {**parameters(self.op), **self.blocks}

    @property
    def cycles(self) -> float:
        """Estimated cycles of one core group."""
        return sum(n.cycles for n in self.nests) + self.refill_cycles

    def key(self, machine: Machine) -> str:
        """Digest of everything that determines the candidate's program on `machine`."""
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
        """The candidate's explicit program, ready to run, simulate and emit."""
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
        """Dimension order of each tensor, by the first joint layout that agrees with every nest."""
        own = frozenset().union(*(n.structure.layouts for n in self.nests))
        for joint in self.seed.layout_combinations():
            if own <= frozenset(joint):
                return {x.tensor: x.dims for x in joint}
        raise ScheduleError(f"the nests of {self.seed.name!r} disagree on layouts")
