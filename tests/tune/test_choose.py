"""Choosing: the best of every partition and algorithm, for all operators together."""

import os
from functools import partial
from uuid import uuid4

import numpy as np
import pytest

from tilewright.common.errors import ScheduleError
from tilewright.machine import load_machine
from tilewright.ops import conv2d, gemm
from tilewright.partition import split
from tilewright.seeds.space import seeds_for
from tilewright.simulate.kernel.level import simulate
from tilewright.tune import candidate, kept
from tilewright.tune.choose import choose, padded_axes
from tilewright.tune.fit import main_memory_bytes
from tilewright.tune.measure import schedule_text
from tilewright.tune.refills import best_first, with_refills
from tilewright.tune.search import rank
from tilewright.tune.ways import adding, divided_sums

ONE_GROUP = load_machine("sw26010_cg")
FOUR_GROUPS = load_machine("sw26010")


def test_the_choice_is_the_best_of_every_partition_ranked_alone():
    op = gemm(1024, 192, 512)
    (choice,) = choose([op], FOUR_GROUPS)
    best = {}
    for part in split(op, 4):
        cases = [(part.piece, seed) for seed in seeds_for(part.piece)]
        best[part.kind] = min(r.best[0].cycles for r in rank(cases, FOUR_GROUPS) if r.best)
    assert choice.best.candidate.cycles == min(best.values())
    assert choice.best.partition.kind == min(best, key=best.get)
    assert {o.partition.kind: o.candidate.cycles for o in reversed(choice.options)} == best


def test_operators_ranked_together_get_what_they_get_alone():
    ops = [gemm(256, 256, 64), gemm(64, 1024, 96), gemm(256, 256, 64, alpha=2.0)]
    together = [choice.best.candidate.cycles for choice in choose(ops, FOUR_GROUPS)]
    alone = [choose([op], FOUR_GROUPS)[0].best.candidate.cycles for op in ops]
    assert together == alone


def test_steps_are_counted_algorithm_by_algorithm(monkeypatch):
    monkeypatch.setattr(kept, "own_sources", lambda: uuid4().hex)  # nothing is kept of this version
    op = conv2d(batch=4, in_channels=8, out_channels=8, height=6, width=7, kernel=3, padding=1)
    told = []
    choose([op, gemm(64, 64, 64)], ONE_GROUP, steps=lambda done, total: told.append((done, total)))
    count = len(seeds_for(op)) + 1  # one group takes both operators whole
    assert told == [(done, count) for done in range(count + 1)]


def described(choices):
    options = [option for choice in choices for option in choice.options]
    return [(option.cycles, schedule_text(option.candidate)) for option in options]


def test_several_processes_find_what_one_does(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    version, asked = uuid4().hex, []
    ops = [gemm(256, 256, 64), gemm(64, 1024, 96), gemm(300, 500, 200)]
    alone = choose(ops, FOUR_GROUPS)

    def ranked(cases, *given, **options):
        asked.append(cases)
        return rank(cases, *given, **options)

    for module in (kept, candidate):
        monkeypatch.setattr(module, "own_sources", lambda: version)
    monkeypatch.setattr(kept, "rank", ranked)
    beside = choose(ops, FOUR_GROUPS, beside=True)
    assert described(beside) == described(alone)
    assert asked[-1] == []  # what this process did not rank, another one kept


def test_four_groups_are_faster_than_one():
    op = gemm(1024, 1024, 256)
    (one,), (four,) = choose([op], ONE_GROUP), choose([op], FOUR_GROUPS)
    assert four.best.candidate.cycles < one.best.candidate.cycles
    assert one.best.partition.kind == "whole"


def test_an_algorithm_that_does_not_apply_is_refused_or_passed_over():
    conv = conv2d(batch=8, in_channels=8, out_channels=8, height=6, width=6, kernel=3)
    ops = [gemm(64, 64, 64), conv]
    with pytest.raises(ScheduleError, match=r"^gemm has no algorithm 'implicit'; choose one of "):
        choose(ops, ONE_GROUP, algorithm="implicit")
    choices = choose(ops, ONE_GROUP, algorithm="implicit", strict=False)
    assert [choice.best.algorithm for choice in choices] == ["gemm", "implicit"]


def test_a_layer_of_few_products_takes_no_matrix_product():
    images = {"batch": 8, "height": 8, "width": 8, "kernel": 3}
    depthwise = conv2d(in_channels=32, out_channels=32, groups=32, **images)
    (choice,) = choose([depthwise], ONE_GROUP)
    assert choice.best.algorithm == "direct_vectors"
    cycles = {o.algorithm: o.candidate.cycles for o in choice.options}
    best = cycles.pop("direct_vectors")
    assert min(cycles.values()) > 5 * best


def test_candidates_that_overflow_main_memory_are_not_taken():
    op = conv2d(batch=8, in_channels=16, out_channels=16, height=12, width=12, kernel=3, padding=1)
    seeds = {seed.name: seed for seed in seeds_for(op)}
    room = main_memory_bytes(op, seeds["implicit"])
    small = load_machine("sw26010_cg", {"memory.main.capacity_bytes": str(room)})
    (choice,) = choose([op], small)
    assert {option.algorithm for option in choice.options} == {
        "implicit",
        "implicit_rows",
        "explicit_fused",
    }


def test_extents_that_the_mesh_rounds_up_are_known():
    op = gemm(100, 64, 30)
    (seed,) = [s for s in seeds_for(op) if s.name == "gemm"]
    assert padded_axes(op, seed, ONE_GROUP) == [("row", 100, 128), ("depth", 30, 32)]


def test_what_all_groups_read_together_is_slower_where_the_machine_says_so():
    """Three times the overhead of a block, for the operand that the partition does not divide."""
    overhead = 3 * FOUR_GROUPS.dma.get.block_overhead_transactions
    key = "dma.shared_block_overhead_transactions"
    contended = load_machine("sw26010", {key: str(overhead)})
    op = conv2d(batch=128, in_channels=128, out_channels=128, height=18, width=18, kernel=3)
    (free,) = choose([op], FOUR_GROUPS, algorithm="implicit", partition="rows")
    (held,) = choose([op], contended, algorithm="implicit", partition="rows")
    (alone,) = choose([op], load_machine("sw26010_cg", {key: str(overhead)}), algorithm="implicit")
    assert free.best.candidate.shared == alone.best.candidate.shared == ()
    assert held.best.candidate.shared == ("w",)
    assert held.best.candidate.cycles > free.best.candidate.cycles
    program = held.best.candidate.program(contended)
    assert {t.name for t in program.tensors if t.shared} == {"w"}
    assert simulate(program, contended).cycles > simulate(program, FOUR_GROUPS).cycles


@pytest.mark.parametrize("rows", [8, 9, 31, 33])
def test_shares_of_partial_results_are_the_least_that_cover_the_result(rows):
    """Each group adds up its share of all groups' results, from an address that transfers take."""
    op = gemm(rows, 10, 512)
    (part,) = divided_sums(op, FOUR_GROUPS)
    (seed,) = seeds_for(part.piece, "gemm")
    found = adding(part, seed, FOUR_GROUPS)
    (share,), unit = found.out_shape, FOUR_GROUPS.main.alignment_bytes // 8
    assert share % unit == 0
    assert 4 * (share - unit) < rows * 10 <= 4 * share
    numbers = [np.full(found.out_shape, 10.0**group) for group in range(4)]
    assert set(found.reference(*numbers).tolist()) == {1111.0}


@pytest.mark.parametrize("extents", [(120, 100, 1000), (200, 600, 128), (1000, 200, 500)])
def test_where_routines_evict_each_other_candidates_that_seldom_change_them_are_found(extents):
    op = gemm(*extents)
    cases = [(op, seed) for seed in seeds_for(op)]
    refilled = partial(with_refills, machine=ONE_GROUP)
    few, all_that_may_win = (
        best_first((c for r in rank(cases, ONE_GROUP, keep=n) for c in r.best), refilled, refilled)[
            0
        ]
        for n in (4, 400)
    )
    best = choose([op], ONE_GROUP)[0].best.candidate
    assert few.refill_cycles > 0.05 * few.cycles
    assert best.cycles == all_that_may_win.cycles < 0.97 * few.cycles
    assert simulate(best.program(ONE_GROUP), ONE_GROUP).cycles < few.cycles
