"""Rankings of candidates, and those that are like one of them."""

from tilewright.machine import load_machine
from tilewright.ops import gemm
from tilewright.seeds.space import seeds_for
from tilewright.tune.measure import EVERYTHING
from tilewright.tune.search import candidates_like, rank

MACHINE = load_machine("sw26010_cg")


def test_all_candidates_of_an_algorithm_are_like_its_best_and_come_best_first():
    op = gemm(40, 128, 16)
    (seed,) = seeds_for(op, "gemm")
    (ranking,) = rank([(op, seed)], MACHINE, keep=EVERYTHING)
    found = [candidate for candidate, _ in candidates_like(ranking.best[0], MACHINE)]
    assert [own.cycles for own in found] == sorted(own.cycles for own in found)
    alike, all_of_it = (
        {own.nests[0].schedule for own in every if own.seed.name == "gemm"}
        for every in (found, ranking.best)
    )
    assert alike == all_of_it
    assert len(alike) == ranking.counts.priced
