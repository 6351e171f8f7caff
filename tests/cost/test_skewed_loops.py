"""Loops whose iterations differ at both ends are priced kind by kind (swDNN Algorithm 2)."""

from __future__ import annotations

from functools import cache

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.cost.chain import take_apart
from tilewright.cost.estimate import estimate
from tilewright.cost.moments import Edges, kind_indices
from tilewright.cost.sums import of_kinds
from tilewright.machine import load_machine
from tilewright.ops import conv2d
from tilewright.passes.lowering import staging
from tilewright.schedule.structures import structures
from tilewright.seeds.space import parameters, seeds_for
from tilewright.simulate.kernel.level import simulate
from tilewright.tune.candidate import Candidate, NestChoice

MACHINE = load_machine("sw26010")
COPIES = {"x_copies": 2, "w_copies": 2, "y_copies": 1}


@cache
def batch_size_aware(cols: int, kernel: int, tile: int, promoted: bool) -> Candidate:
    op = conv2d(batch=128, in_channels=8, out_channels=32, height=2, width=cols, kernel=(1, kernel))
    (seed,) = seeds_for(op, "swdnn_batch")
    structure = structures(seed, seed.spaces[0], "f64", staging)[promoted]
    factors = {"image_tile": 128, "image_granule": 128, "out_channel_tile": 32}
    factors |= {"out_channel_granule": 32, "in_channel_tile": 8, "in_channel_granule": 8}
    choice = NestChoice(structure, {**factors, **COPIES, "out_col_tile": tile}, 0.0)
    return Candidate(op, seed, (choice,))


@examples(60)
@given(st.integers(2, 5), st.integers(1, 12), st.integers(1, 12), st.booleans())
def test_a_last_block_may_be_shorter(kernel: int, cols: int, tile: int, promoted: bool) -> None:
    """Calls are counted exactly, the composition is within what it is for small operators."""
    candidate = batch_size_aware(cols + kernel - 1, kernel, min(tile, cols), promoted)
    (nest,) = candidate.nests
    values = {**parameters(candidate.op), **nest.factors}
    found = estimate(nest.structure.staged, MACHINE, values)
    run = simulate(candidate.program(MACHINE), MACHINE)
    kinds = run.by_kind()
    computing = (
        cycles for kind, cycles in kinds.items() if kind.split()[0] in ("compute", "primitive")
    )
    assert found.compute_cycles.item() == sum(computing)
    assert 0.9 < found.cycles.item() / run.cycles < 1.25


def test_kinds_of_the_two_loops() -> None:
    candidate = batch_size_aware(13, 3, 7, False)
    prepared = take_apart(candidate.nests[0].structure.staged)
    edges = {f.var: e for f, e in zip(prepared.loops, prepared.edges, strict=True)}
    wanted = Edges(2, 2), Edges(2, 0), Edges(0, 1)
    assert (edges["in_col"], edges["kernel_col"], edges["out_col"]) == wanted


EDGES = st.builds(Edges, st.integers(0, 3), st.integers(0, 3), st.integers(1, 4))


@given(
    EDGES,
    st.lists(st.tuples(st.integers(1, 19), st.booleans()), min_size=1, max_size=6),
)
def test_kinds_of_iterations_are_all_iterations(
    edges: Edges, tiles: list[tuple[int, bool]]
) -> None:
    """Iterations at the ends once each, others in turn; the first for all where they are alike."""
    front, back, period = edges
    counts, alike = map(np.array, zip(*tiles, strict=True))
    found = of_kinds(counts[None].astype(float), edges, alike[None], 0)
    np.testing.assert_array_equal(found.sum(axis=0), counts)
    every = found.repeat(edges.kinds if len(found) == 1 else 1, axis=0)
    if len(found) > 1:
        assert (every[0, alike] == counts[alike]).all()
        apart = ~alike & (counts >= front + back + 1)
        ends = [*range(front), *range(front + period, len(found))]
        assert (every[ends][:, apart] == 1).all()
        for own, count in zip(every[:, apart].T, counts[apart], strict=True):
            between = [i % period for i in range(count - front - back)]
            assert own[front : front + period].tolist() == [*map(between.count, range(period))]


@given(EDGES, st.integers(1, 19))
def test_an_index_for_each_kind(edges: Edges, count: int) -> None:
    """The first, some in the middle of those between, the last; in a short loop they meet."""
    front, back, period = edges
    found = np.atleast_1d(kind_indices(edges, count, (-1,))).tolist()
    assert all(0 <= i < count for i in found)
    between = count - front - back
    if edges.kinds > 1 and between >= period:
        first, *_ = middle = found[front : front + period]
        assert middle == [*range(first, first + period)]
        assert (first - front) % period == 0
        assert 0 <= (count - back - 1 - middle[-1]) - (first - front) < 2 * period
        assert found == [*range(front), *middle, *range(count - back, count)]
