"""Sizes of blocks belong to all nests of a candidate, and to its text."""

from __future__ import annotations

from dataclasses import replace

from tilewright.machine import load_machine
from tilewright.ops import conv2d
from tilewright.seeds.space import seeds_for
from tilewright.tune.measure import schedule_text
from tilewright.tune.search import rank

HOST = load_machine("host")
LAYER = conv2d(
    batch=1, in_channels=64, out_channels=64, height=56, width=56, kernel=3, padding=1, dtype="f32"
)


def ranked():
    (seed,) = seeds_for(LAYER, "winograd4", addressed=True)
    (found,) = rank([(LAYER, seed)], HOST, keep=10_000)
    return found.best


def test_candidates_of_every_size_are_ranked_together():
    best = ranked()
    assert {c.blocks["block_rows"] for c in best} == {14, 7, 5, 4, 3, 2, 1}
    assert [c.cycles for c in best] == sorted(c.cycles for c in best)
    assert best[0].values["out_rows"] == 56


def test_the_text_of_a_candidate_names_its_blocks():
    texts = [schedule_text(c) for c in ranked()]
    assert len(set(texts)) == len(texts)
    assert texts[0].startswith("algorithm winograd4\nblocks(block_rows=")


def test_what_is_computed_ahead_costs_nothing():
    (ahead,) = {n.cycles for c in ranked() for n in c.nests if n.structure.space.ahead}
    assert ahead == 0


def test_what_is_computed_ahead_is_packed():
    """Rows of 512 channels would lie on more pages than a processor finds at once."""
    layer = replace(LAYER, in_channels=256, out_channels=512, height=28, width=28)
    (seed,) = seeds_for(layer, "winograd4", addressed=True)
    (found,) = rank([(layer, seed)], HOST)
    product = found.best[0].nests[2]
    assert product.structure.decisions.nest.name == "product"
    assert product.cycles < 1.2 * product.bound_cycles
