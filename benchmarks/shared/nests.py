"""The best of a whole space by simulation, without simulating what cannot win.

In: one operator and algorithm, and a floor: no candidate is taken to run faster than `floor` times
its estimate. Out: a `Search`. Nests of a program run one after the other, so a program's time is
the sum of its nests' and each nest is searched alone under each joint layout of the tensors it
shares. Candidates are simulated in the order of their estimates until floor x estimate reaches the
fastest time seen: none after that can win, unless its simulated time is below floor x estimate. The
lowest ratio among all that were simulated is kept, as evidence for the floor.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from time import monotonic

from tilewright.ir.printer import print_program
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.seeds.space import Seed
from tilewright.simulate.kernel_level import simulate
from tilewright.tune.measure import EVERYTHING
from tilewright.tune.search import Candidate, NestChoice, Ranking, rank


@dataclass
class Simulator:
    """Simulated cycles of nests, each program once; extreme ratios of simulated to estimate."""

    op: Op
    seed: Seed
    machine: Machine
    deadline: float
    cycles: dict[int, int] = field(default_factory=dict)
    programs: dict[str, int] = field(default_factory=dict)
    lowest: float = float("inf")
    highest: float = 0.0

    def known(self, choice: NestChoice) -> bool:
        """Whether the choice needs no more simulating."""
        return id(choice) in self.cycles

    def __call__(self, choice: NestChoice) -> int:
        if id(choice) not in self.cycles:
            program = Candidate(self.op, self.seed, (choice,)).program(self.machine)
            text = print_program(program)
            if text not in self.programs:
                self.programs[text] = simulate(program, self.machine).cycles
            self.cycles[id(choice)] = self.programs[text]
            ratio = self.cycles[id(choice)] / choice.cycles
            self.lowest, self.highest = min(self.lowest, ratio), max(self.highest, ratio)
        return self.cycles[id(choice)]


@dataclass(frozen=True, eq=False)
class Search:
    """What a search by simulation found; `left_out` candidates could have won but time was up."""

    picked: Candidate
    picked_cycles: int
    best: tuple[NestChoice, ...]
    best_cycles: int
    simulated: int
    programs: int
    space: int
    priced: int
    left_out: int
    lowest_ratio: float
    highest_ratio: float

    @property
    def loss(self) -> float:
        """Performance that the model's pick loses against the best, as a fraction of the best."""
        return 1 - self.best_cycles / self.picked_cycles


def search_by_simulation(
    op: Op, seed: Seed, machine: Machine, *, floor: float, seconds: float
) -> Search | None:
    """Simulate all that could win; a floor of 0 simulates all. None where nothing fits."""
    (ranking,) = rank([(op, seed)], machine, keep=EVERYTHING)
    if not ranking.best:
        return None
    run = Simulator(op, seed, machine, monotonic() + seconds)
    picked = ranking.best[0]
    picked_cycles = sum(run(choice) for choice in picked.nests)
    best, best_cycles, skipped = picked.nests, picked_cycles, set[int]()
    for nests in _joint_choices(seed, ranking):
        bounds = [choices[0].cycles for choices in nests]
        if floor * sum(bounds) >= best_cycles:
            continue
        found = []
        for i, choices in enumerate(nests):
            others = sum(bounds) - bounds[i]
            found.append(_fastest(choices, run, floor, best_cycles - floor * others, skipped))
        if sum(run(choice) for choice in found) < best_cycles:
            best, best_cycles = tuple(found), sum(run(choice) for choice in found)
    return Search(
        picked,
        picked_cycles,
        best,
        best_cycles,
        len(run.cycles),
        len(run.programs),
        ranking.candidates,
        ranking.fitting,
        len(skipped),
        run.lowest,
        run.highest,
    )


def _joint_choices(seed: Seed, ranking: Ranking) -> Iterable[list[list[NestChoice]]]:
    """Under each joint layout the choices of each nest, best estimate first."""
    count = len(seed.spaces)
    nests = [{id(c.nests[i]): c.nests[i] for c in ranking.best} for i in range(count)]
    for joint in seed.layout_combinations():
        layouts = frozenset(joint)
        under = [
            sorted((c for c in n.values() if c.structure.layouts <= layouts), key=_estimate)
            for n in nests
        ]
        if all(under):
            yield under


def _estimate(choice: NestChoice) -> float:
    return choice.cycles


def _fastest(
    choices: list[NestChoice], run: Simulator, floor: float, limit: float, skipped: set[int]
) -> NestChoice:
    """The fastest by simulation of those that could take less than `limit` and win."""
    fastest = choices[0]
    for choice in choices:
        if floor * choice.cycles >= min(limit, run(fastest)):
            break
        if not run.known(choice) and monotonic() > run.deadline:
            skipped.add(id(choice))
        elif run(choice) < run(fastest):
            fastest = choice
    return fastest
