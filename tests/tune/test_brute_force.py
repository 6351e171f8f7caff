"""The best by simulation: what is left out could not have won."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tilewright.machine import load_machine
from tilewright.ops import conv2d, gemm
from tilewright.seeds.space import seeds_for
from tilewright.simulate.kernel.level import simulate
from tilewright.tune import brute_force
from tilewright.tune.brute_force import BOUND_MARGIN, search_by_simulation
from tilewright.tune.candidate import Candidate, NestChoice
from tilewright.tune.measure import EVERYTHING
from tilewright.tune.search import choice_of, rank

MACHINE = load_machine("sw26010_cg")
SMALL = conv2d(batch=1, in_channels=8, out_channels=32, height=8, width=8, kernel=3, padding=1)
CASES = {"gemm": gemm(40, 128, 16), "explicit": SMALL, "winograd2": SMALL}


@pytest.mark.parametrize("algorithm", CASES)
def test_leaving_out_what_cannot_win_loses_nothing(algorithm):
    op = CASES[algorithm]
    (seed,) = seeds_for(op, algorithm)
    few = search_by_simulation(op, seed, MACHINE)
    every = search_by_simulation(op, seed, MACHINE, everything=True)
    assert few.best_cycles == every.best_cycles <= few.picked_cycles == every.picked_cycles
    assert few.simulated < every.simulated == every.priced
    assert every.lowest_bound_ratio >= 1 - BOUND_MARGIN
    assert few.loss == 1 - every.best_cycles / every.picked_cycles
    program = Candidate(op, seed, few.best).program(MACHINE)
    warm = simulate(program, MACHINE, refills=False).cycles
    assert warm == pytest.approx(few.best_cycles, rel=0.01)


@pytest.mark.parametrize("everything", [True, False])
def test_the_best_is_found_whatever_the_model_picks(monkeypatch, everything):
    """A model that puts the slowest first loses what the search finds."""
    op = gemm(100, 128, 8)
    (seed,) = seeds_for(op, "gemm")
    right = search_by_simulation(op, seed, MACHINE)
    (ranking,) = rank([(op, seed)], MACHINE, keep=EVERYTHING)
    turned = replace(ranking, best=ranking.best[::-1])
    monkeypatch.setattr(brute_force, "rank", lambda *_, **__: [turned])
    found = search_by_simulation(op, seed, MACHINE, everything=everything)
    assert found.picked is ranking.best[-1]
    assert found.best_cycles == right.best_cycles < found.picked_cycles
    assert 0 < found.loss < 1


@pytest.mark.parametrize("algorithm", ["implicit", "explicit", "winograd4"])
def test_no_candidate_runs_below_its_bound(algorithm):
    op = conv2d(batch=1, in_channels=32, out_channels=48, height=14, width=14, kernel=3, padding=1)
    (seed,) = seeds_for(op, algorithm)
    (ranking,) = rank([(op, seed)], MACHINE, keep=EVERYTHING)
    nests = list({id(n): n for c in ranking.best for n in c.nests}.values())
    for nest in random.Random(0).sample(nests, 25):
        program = Candidate(op, seed, (nest,)).program(MACHINE)
        assert simulate(program, MACHINE).cycles >= (1 - BOUND_MARGIN) * nest.bound_cycles > 0


def test_candidates_of_structures_that_are_alike_are_one_program():
    """It does not matter outside which loop over the one tap of a kernel tiles are transferred."""
    op = conv2d(batch=2, in_channels=32, out_channels=32, height=4, width=4, kernel=1)
    (seed,) = seeds_for(op, "implicit")
    (ranking,) = rank([(op, seed)], MACHINE, keep=EVERYTHING)
    alike: dict[object, list[Candidate]] = {}
    for candidate in ranking.best:
        (nest,) = candidate.nests
        alike.setdefault((nest.structure.alike, nest.schedule.factors), []).append(candidate)
    pairs = [own for own in alike.values() if len(own) > 1]
    for one, other in random.Random(0).sample(pairs, 20):
        assert one.nests[0].schedule.steps != other.nests[0].schedule.steps
        assert one.program(MACHINE) == other.program(MACHINE)
        assert one.cycles == other.cycles
        apart = choice_of(
            other.nests[0].schedule,
            op,
            seed,
            seed.spaces[0],
            MACHINE,
            blocks={},
            shared=frozenset(),
        )
        assert apart.cycles == pytest.approx(other.cycles, rel=1e-12)


def test_there_is_no_best_where_nothing_fits():
    machine = load_machine("sw26010_cg", {"memory.spm.capacity_bytes": "4608"})
    op = gemm(256, 256, 256)
    (seed,) = seeds_for(op, "gemm")
    assert search_by_simulation(op, seed, machine) is None


def test_only_what_could_win_is_simulated():
    """By its bound, against the room that other nests leave and the fastest one so far."""
    bounds, cycles = (4.0, 9.0, 5.0, 3.0, 1.0), (8, 1, 6, 7, 5)
    choices = [NestChoice(None, {}, 0.0, bound_cycles=b / (1 - BOUND_MARGIN)) for b in bounds]
    ran = []

    def run(choice):
        ran.append(choices.index(choice))
        return cycles[ran[-1]]

    assert brute_force._fastest(choices, run, 10.0) is choices[4]
    assert 1 not in ran
    ran.clear()
    assert brute_force._fastest(choices, run, 2.0) is choices[4]
    assert {*ran} == {0, 4}


def test_of_equally_fast_candidates_the_first_is_the_best():
    assert brute_force._faster(("first",), ("other",), lambda _: 5) == ("first",)


@pytest.mark.parametrize("extents", [(1, 32, 48, 14), (8, 16, 32, 7), (128, 64, 64, 14)])
def test_the_candidates_kept_are_the_best_of_all(extents):
    """Of each joint layout, too: a bound leaves out none of them."""
    batch, inner, outer, size = extents
    sizes = {"batch": batch, "in_channels": inner, "out_channels": outer}
    op = conv2d(**sizes, height=size, width=size, kernel=3, padding=1)
    for seed in seeds_for(op):
        every, few = (rank([(op, seed)], MACHINE, keep=n)[0] for n in (EVERYTHING, 3))
        assert few.counts.priced == every.counts.priced
        chosen = {texts(c): c.cycles for c in every.best}
        assert [texts(c) for c in few.best[:3]] == [texts(c) for c in every.best[:3]]
        assert all(chosen[texts(c)] == c.cycles for c in few.best)
        assert len(seed.spaces) > 1 or few.counts.played < every.counts.played


def texts(candidate: Candidate) -> tuple[object, ...]:
    """Choices that tell a candidate from others of its operator and algorithm."""
    return tuple(sorted(candidate.blocks.items())), *(n.schedule for n in candidate.nests)


def test_a_joint_layout_under_which_a_nest_has_no_candidate_is_left_out():
    """Two nests: the first has candidates of both layouts, the second of the second one alone."""
    nests = [
        NestChoice(SimpleNamespace(layouts=frozenset({layout})), {}, cycles)
        for layout, cycles in (("rows", 5.0), ("columns", 7.0), ("columns", 3.0))
    ]
    first, other, second = nests
    seed = SimpleNamespace(spaces=(0, 1), layout_combinations=lambda: [("rows",), ("columns",)])
    ranking = SimpleNamespace(
        best=[SimpleNamespace(nests=(first, second)), SimpleNamespace(nests=(other, second))]
    )
    assert list(brute_force._joint_choices(seed, ranking)) == [[[other], [second]]]
