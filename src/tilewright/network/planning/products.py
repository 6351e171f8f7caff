"""The products of a network: their candidates on one group of a machine, best first.

In: operators and a machine. Out: for each operator its ranked candidates, of every algorithm and
every layout of operands and result, for a group that computes all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import TypeVar

from msgspec import structs

from tilewright.common.progress import Progress, Steps, uncounted
from tilewright.graph.graph import Network
from tilewright.machine import Machine
from tilewright.network.plan import Scheduled
from tilewright.network.planning.pieces import Share
from tilewright.network.plans import Search
from tilewright.network.waits import MOST_SPARED
from tilewright.ops import CONTRACTIONS, Op
from tilewright.seeds.space import Seed
from tilewright.tune.accuracy import few_roundings
from tilewright.tune.candidate import Candidate
from tilewright.tune.choose import choose
from tilewright.tune.kept import kept_rankings
from tilewright.tune.refills import Refills, steadied
from tilewright.tune.search import Floors, Ranking
from tilewright.tune.ways import ways

_Kind = TypeVar("_Kind", bound=Candidate)
_OUTRUN = 2
"""Factor by which a product must exceed its share for its refills not to matter."""


def one_group(machine: Machine) -> Machine:
    """The machine with one of its groups of cores."""
    return structs.replace(machine, groups=structs.replace(machine.groups, count=1))


@dataclass(frozen=True)
class Ranked:
    """The candidates of each operator, best first. `images` groups have images of their own.
    `shares` are candidates by which all groups compute one operator together; once they are among
    `candidates`, `groups` groups divide other work as well. `floors` are those of `Ranking`, by
    operator and identity of the seed.
    """

    candidates: Mapping[Op, tuple[Candidate, ...]]
    images: int = 1
    shares: Mapping[Op, tuple[Share, ...]] = field(default_factory=dict)
    groups: int = 1
    floors: Mapping[tuple[Op, int], Floors] = field(default_factory=dict)

    @property
    def shared(self) -> bool:
        """True if groups compute images of their own with the same weights."""
        return self.images > 1

    def together(self, groups: int) -> Ranked:
        """A copy for `groups` groups, with the shares among the candidates."""
        every = {
            op: by_cycles((*own, *self.shares.get(op, ()))) for op, own in self.candidates.items()
        }
        return replace(self, candidates=every, shares={}, groups=groups)

    def best(self, op: Op) -> Candidate:
        """The fastest candidate of an operator."""
        return self.candidates[op][0]

    def least_cycles(self, network: Network) -> float:
        """Cycles of all products, each by its fastest candidate whatever the layouts."""
        return sum(self.best(op).cycles for _, op in network.layers())


@dataclass(frozen=True)
class Question:
    """Pairs of a product and a seed to rank on one group of a machine, each with the tensors that
    all groups read together.
    """

    pairs: Sequence[tuple[Op, Seed]]
    shared: Sequence[frozenset[str]]


def answered(
    questions: Sequence[Question], machine: Machine, keep: int, steps: Steps
) -> list[list[Ranking]]:
    """The rankings of each question, all searched together: pairs that share a seed share the walk
    over its structures. `steps` counts the pairs.
    """
    found = kept_rankings(
        [pair for own in questions for pair in own.pairs],
        one_group(machine),
        shared=[names for own in questions for names in own.shared],
        keep=keep,
        steps=steps,
    )
    ends = accumulate((len(own.pairs) for own in questions), initial=0)
    return [found[first:end] for first, end in pairwise(ends)]


def asked_products(network: Network, machine: Machine, search: Search, *, images: int) -> Question:
    """Every way to compute each product of a network on one group, where `images` groups have
    images of their own and read the same weights. Raises ScheduleError where nothing computes one.
    """
    ops = [*first_layers(network)]
    found = (
        ways(
            ops,
            one_group(machine),
            algorithm=search.algorithm,
            max_error=search.max_error,
            max_roundings=search.max_roundings,
            strict=False,
        )
        if ops
        else []
    )
    # a seed's own arrangement repeats elements, which no form describes
    pairs = [
        (op, seed)
        for op, own in zip(ops, found, strict=True)
        for _, seed in own
        if seed.arrange is None
    ]
    none = frozenset[str]()
    return Question(pairs, [constants_of(seed) if images > 1 else none for _, seed in pairs])


def products_of(
    network: Network,
    machine: Machine,
    search: Search,
    asked: Question,
    rankings: Sequence[Ranking],
    *,
    images: int,
) -> Ranked:
    """The candidates of a network's products, from the rankings of what was asked; refills are not
    yet priced. Raises CapacityError where a product fits in no way.
    """
    names, single = first_layers(network), one_group(machine)
    candidates: dict[Op, list[Candidate]] = {op: [] for op in names}
    for (op, _), ranking in zip(asked.pairs, rankings, strict=True):
        candidates[op] += ranking.best
    if short := [op for op, own in candidates.items() if not own]:  # in words of the search
        choose(short, single, names=[names[op] for op in short], strict=False)
    if search.max_roundings is not None:
        most = search.max_roundings
        candidates = {
            op: few_roundings(own, single, most, lambda c: c) for op, own in candidates.items()
        }
    ranked = zip(asked.pairs, rankings, strict=True)
    floors = {(op, id(seed)): ranking.floors for (op, seed), ranking in ranked}
    return Ranked({op: by_cycles(own) for op, own in candidates.items()}, images, floors=floors)


def steady(ranked: Ranked, machine: Machine) -> Ranked:
    """The products with the cycles that refills add (`tune.refills.steadied`). Products that all
    groups together compute in a fraction of the time are skipped; one chosen for its layouts all
    the same is refilled then.
    """
    spared = MOST_SPARED * machine.groups.meet_cycles
    near = {
        op: own
        for op, own in ranked.candidates.items()
        if not any(_OUTRUN * s.cycles + spared < own[0].cycles for s in ranked.shares.get(op, ()))
    }
    single = one_group(machine)
    best = steadied([*near.values()], single, lambda c: c, lambda _, candidate: candidate)
    return replace(ranked, candidates={**ranked.candidates, **dict(zip(near, best, strict=True))})


def ranked_products(
    network: Network, machine: Machine, search: Search, *, images: int, progress: Progress
) -> Ranked:
    """`products_of` a network, asked alone and `steady`. Raises as it and `asked_products` do."""
    asked = asked_products(network, machine, search, images=images)
    (rankings,) = answered([asked], machine, search.keep, partial(progress, "choose"))
    return steady(products_of(network, machine, search, asked, rankings, images=images), machine)


def first_layers(network: Network) -> dict[Op, str]:
    """The products of a network, each with the name of the first layer that computes it."""
    return {op: name for name, op in reversed(list(network.layers()))}


def asked_stages(ops: Iterable[Op], machine: Machine) -> Question:
    """Every way to compute each of these maps or reductions on one group."""
    distinct = [op for op in ops if op.kind not in CONTRACTIONS]
    found = ways(distinct, one_group(machine)) if distinct else []
    pairs = [(op, seed) for op, own in zip(distinct, found, strict=True) for _, seed in own]
    return Question(pairs, [frozenset()] * len(pairs))


def stages_of(
    ops: Mapping[Op, str], machine: Machine, asked: Question, rankings: Sequence[Ranking]
) -> dict[Op, Scheduled]:
    """The best candidate of each map or reduction, from the rankings of what was asked. Raises
    CapacityError, with the operator's name in `ops`, where one fits in no way.
    """
    single = one_group(machine)
    found: dict[Op, list[Candidate]] = {op: [] for op, _ in asked.pairs}
    for (op, _), ranking in zip(asked.pairs, rankings, strict=True):
        found[op] += ranking.best
    if short := [op for op, own in found.items() if not own]:  # in words of the search
        choose(short, single, names=[ops[op] for op in short])
    best = steadied([*found.values()], single, lambda c: c, lambda _, candidate: candidate)
    firsts = zip(found, (own[0] for own in best), strict=True)
    return {op: Scheduled(c.cycles, c) for op, c in firsts}


def ranked_stages(ops: Mapping[Op, str], machine: Machine) -> dict[Op, Scheduled]:
    """`stages_of` maps and reductions, asked alone."""
    asked = asked_stages(ops, machine)
    (rankings,) = answered([asked], machine, 1, uncounted)
    return stages_of(ops, machine, asked, rankings)


def constants_of(seed: Seed) -> frozenset[str]:
    """The names of the tensors that are weights."""
    return frozenset(t.name for t in seed.tensors if t.kind == "constant")


def by_cycles(candidates: Iterable[_Kind]) -> tuple[_Kind, ...]:
    """Candidates, best first."""
    return tuple(sorted(candidates, key=lambda c: c.cycles))


def refilled(own: Scheduled, refills: Refills) -> Scheduled:
    """A stage's schedule with the cycles that its routines add by evicting each other; the choice
    of layouts may have included an expected part of them.
    """
    if own.candidate is None:
        return own
    candidate = refills.added(own.candidate)
    if candidate.refill_cycles == own.candidate.refill_cycles:
        return own
    added = candidate.refill_cycles - own.candidate.refill_cycles
    return replace(own, candidate=candidate, cycles=own.cycles + added)
