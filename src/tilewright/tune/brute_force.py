"""Search a whole space by simulation, with bounds that skip losers (swATOP 5.2).

In: one operator and algorithm. Out: a `BruteForce`: the model's pick, the fastest candidate, and
how many were simulated. A candidate is skipped only if its calls or its transfers alone take as
long as the fastest run so far (`NestChoice.bound_cycles`, less `BOUND_MARGIN`); the quality of the
estimate does not matter. The nests of a program run one after the other and their times add up, so
each nest is searched alone under each joint layout of the tensors it shares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright.ir.nodes import Program
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.seeds.space import Seed
from tilewright.simulate.kernel.level import simulate
from tilewright.tune.candidate import Candidate, NestChoice
from tilewright.tune.measure import EVERYTHING
from tilewright.tune.search import Ranking, rank

Nests = tuple[NestChoice, ...]


BOUND_MARGIN = 0.03
"""Fraction by which a run may undercut its bound. All iterations between a loop's first and last
are priced as the middle one (of two, the earlier), and later ones do less at the end of an image.
"""


@dataclass
class Simulator:
    """Simulates nests, each distinct program once; tracks cycles over estimates and bounds."""

    op: Op
    seed: Seed
    machine: Machine
    cycles: dict[int, int] = field(default_factory=dict)
    programs: dict[Program, int] = field(default_factory=dict)
    lowest_ratio: float = float("inf")
    highest_ratio: float = 0.0
    lowest_bound_ratio: float = float("inf")

    def __call__(self, choice: NestChoice) -> int:
        """Simulated cycles of one nest."""
        if id(choice) not in self.cycles:
            program = Candidate(self.op, self.seed, (choice,)).program(self.machine)
            if program not in self.programs:
                self.programs[program] = simulate(program, self.machine, refills=False).cycles
            self._note(choice, self.programs[program])
        return self.cycles[id(choice)]

    def _note(self, choice: NestChoice, cycles: int) -> None:
        self.cycles[id(choice)] = cycles
        ratio = cycles / choice.cycles
        self.lowest_ratio = min(self.lowest_ratio, ratio)
        self.highest_ratio = max(self.highest_ratio, ratio)
        if choice.bound_cycles:
            bound_ratio = cycles / choice.bound_cycles
            self.lowest_bound_ratio = min(self.lowest_bound_ratio, bound_ratio)


@dataclass(frozen=True, eq=False)
class BruteForce:
    """Outcome of a search by simulation, in cycles, and the evidence for it.

    `lowest_bound_ratio` is the lowest ratio of simulated cycles to the bound that skips candidates:
    below 1 - `BOUND_MARGIN`, skipping proves nothing.
    """

    picked: Candidate
    picked_cycles: int
    best: Nests
    best_cycles: int
    candidates: int
    priced: int
    simulated: int
    lowest_ratio: float
    highest_ratio: float
    lowest_bound_ratio: float

    @property
    def loss(self) -> float:
        """Performance lost by the model's pick, as a fraction of the best performance."""
        return 1 - self.best_cycles / self.picked_cycles


def search_by_simulation(
    op: Op, seed: Seed, machine: Machine, *, everything: bool = False
) -> BruteForce | None:
    """Simulate all candidates that could win, or all with `everything`; None if nothing fits."""
    (ranking,) = rank([(op, seed)], machine, keep=EVERYTHING)
    if not ranking.best:
        return None
    run = Simulator(op, seed, machine)
    picked = ranking.best[0]
    best = picked.nests
    for nests in _joint_choices(seed, ranking):
        if everything:
            best = _faster(best, tuple(min(choices, key=run) for choices in nests), run)
        else:
            best = _better(best, nests, run)
    return BruteForce(
        picked,
        _total(picked.nests, run),
        best,
        _total(best, run),
        ranking.counts.considered,
        ranking.counts.priced,
        len(run.cycles),
        run.lowest_ratio,
        run.highest_ratio,
        run.lowest_bound_ratio,
    )


def _faster(nests: Nests, others: Nests, run: Simulator) -> Nests:
    return others if _total(others, run) < _total(nests, run) else nests


def _total(nests: Nests, run: Simulator) -> int:
    return sum(run(choice) for choice in nests)


def _joint_choices(seed: Seed, ranking: Ranking) -> Iterator[list[list[NestChoice]]]:
    """For each joint layout, the choices of each nest, best estimate first."""
    nests = [
        {id(c.nests[i]): c.nests[i] for c in ranking.best}.values() for i in range(len(seed.spaces))
    ]
    for joint in seed.layout_combinations():
        layouts = frozenset(joint)
        under = [
            sorted((c for c in n if c.structure.layouts <= layouts), key=lambda c: c.cycles)
            for n in nests
        ]
        if all(under):
            yield under


def _better(best: Nests, nests: list[list[NestChoice]], run: Simulator) -> Nests:
    """The faster of `best` and the fastest combination of `nests`, which share a joint layout."""
    # A nest can be part of a winner only in the cycles that the bounds of all others leave to it.
    limit = _total(best, run)
    least = [min(_least_cycles(c) for c in choices) for choices in nests]
    if sum(least) >= limit:
        return best
    rooms = [limit - sum(least) + own for own in least]
    found = tuple(_fastest(n, run, room) for n, room in zip(nests, rooms, strict=True))
    return _faster(best, found, run)


def _fastest(choices: list[NestChoice], run: Simulator, room: float) -> NestChoice:
    """The fastest choice; those whose bound reaches `room` or the fastest so far are skipped."""
    fastest = choices[0]
    for choice in choices:
        if _least_cycles(choice) < min(room, run(fastest)) and run(choice) < run(fastest):
            fastest = choice
    return fastest


def _least_cycles(choice: NestChoice) -> float:
    """Cycles that no run of the choice undercuts: its bound less the margin."""
    return (1 - BOUND_MARGIN) * choice.bound_cycles
