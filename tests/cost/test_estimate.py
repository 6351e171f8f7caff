"""How far the estimate is from the simulation of the same candidate, and what it is made of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from support.candidates import ALGORITHMS, MACHINES, SW26010, Case, cases
from support.examples import examples, one_in
from support.running import estimate_ratio
from tilewright import ops
from tilewright.cost.buffers import scratchpad_bytes
from tilewright.cost.chain import take_apart
from tilewright.cost.estimate import Estimate, PricedNest, estimate, estimates
from tilewright.graph.zoo import network
from tilewright.ir.nodes import Program
from tilewright.ir.parser import parse
from tilewright.machine import load_machine
from tilewright.passes.lowering import staging
from tilewright.passes.pipeline import make_explicit
from tilewright.schedule.factors import FactorGrid, factor_grid
from tilewright.schedule.structures import structures
from tilewright.seeds.space import parameters, seeds_for
from tilewright.simulate.kernel.level import simulate
from tilewright.tune.legal import structures_on
from tilewright.tune.search import blocks_of, rank

BAND = {
    "best": (0.88, 1.08),
    "most": (0.945, 1.10),
    "most padded": (0.91, 1.10),
    "any": (0.72, 1.40),
    "any padded": (0.72, 1.60),
}
"""Bounds of estimated over simulated cycles.

`best`: the best candidates of large operators. Those tried here have 0.994 to 1.011, but for
`winograd2_fours` of three channels at 1.067: an axis whose extent is that of a tile of another loop
is priced as a loop of its own, where the code knows it to be 1, because that loop runs once.

`any`: any candidate of any operator, however small; `most`: nine out of ten of them. Of 250
distinct ones each `gemm` has 0.972 to 1.078, nine of ten 1.000 to 1.023; `implicit` 0.844 to 1.088
and 0.998 to 1.027, `explicit` 0.908 to 1.250 and 1.000 to 1.057. The baselines
that pad whole matrices have whole tiles that hold nothing, priced as the middle one: of the 50
tried here nine of ten of `padded` have 0.977 to 1.029, of `library` 0.919 to 1.06.

They part most where calls that re-pack stand under a condition that holds in some of the iterations
between a loop's first and its last, which are priced at their middle one where they are many.
"""

LAYERS = ("conv1_1", "conv2_2", "conv4_2", "conv5_1")


MEASURED = load_machine("sw26010_measured")
DRAWN = (*ALGORITHMS, "implicit_rows")


def band(share: str, algorithm: str) -> tuple[float, float]:
    return BAND[f"{share} padded" if algorithm in ("padded", "library") else share]


@pytest.mark.parametrize("algorithm", DRAWN)
@examples(20)
@given(st.data())
def test_any_candidate(algorithm: str, data: st.DataObject) -> None:
    low, high = band("any", algorithm)
    assert low <= estimate_ratio(data.draw(cases(algorithm, MACHINES))) <= high


@one_in(2)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_nine_out_of_ten_candidates(algorithm: str) -> None:
    """Candidates are equal in every run, so that the share is no matter of luck."""
    ratios: list[float] = []

    @settings(max_examples=50, derandomize=True, database=None, phases=[Phase.generate])
    @given(cases(algorithm, MACHINES))
    def collect(case: Case) -> None:
        ratios.append(estimate_ratio(case))

    collect()
    low, high = band("most", algorithm)
    assert low <= np.percentile(ratios, 5) <= np.percentile(ratios, 95) <= high


def best_of_the_layers() -> list[Case]:
    convolutions = [op for name, op in network("vgg16", 32).layers() if name in LAYERS]
    products = [ops.gemm(200, 500, 1000), ops.gemm(4096, 1024, 2048, transpose_b=True)]
    pairs = [(op, s) for op in (*convolutions, *products) for s in seeds_for(op)]
    return [Case(SW26010, c) for r in rank(pairs, SW26010, keep=2) for c in r.best]


def test_the_best_candidates_of_large_operators() -> None:
    found = best_of_the_layers()
    low, high = BAND["best"]
    assert len({c.candidate.seed.name for c in found}) >= 5
    for case in found:
        assert low <= estimate_ratio(case) <= high, str(case)


def test_nests_that_share_loops_and_values_cost_together_what_each_does_alone() -> None:
    """Tiles of few channels are cut in the last iteration, and some are re-packed."""
    op = ops.Conv2d(3, 20, 40, 6, 6, (3, 3))
    (seed,) = seeds_for(op, "implicit")
    every = structures_on(SW26010, seed, seed.spaces[0], op.dtype)
    alike = [s for s in every if s.tiling == every[0].tiling]
    grid = factor_grid(every[0], parameters(op), blocks_of(SW26010, op.dtype))
    tiles = {name: column[::9] for name, column in grid.tiles.items()}
    values = {**parameters(op), **tiles, **dict.fromkeys(grid.copies, 1)}
    nests = [PricedNest(take_apart(s.staged), values) for s in alike]
    assert len({tuple(f.var for f in nest.prepared.loops) for nest in nests}) > 1
    for nest, together in zip(nests, estimates(nests, SW26010), strict=True):
        alone = estimates([nest], SW26010)[0]
        for found, expected in zip(vars(together).values(), vars(alone).values(), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("op", "algorithm"),
    [
        (ops.gemm(360, 18, 368), "gemm"),
        (ops.Conv2d(64, 8, 2, 14, 14, (1, 1)), "implicit"),
        (ops.Conv2d(8, 48, 16, 8, 8, (3, 3), (2, 2), (1, 1, 0, 0), dtype="f32"), "implicit"),
    ],
    ids=["the others ask first", "tiles under way alternate", "each place of a kernel"],
)
def test_cores_without_a_part_keep_their_turn(op: ops.Op, algorithm: str) -> None:
    """Few cores store, the others fetch their next tiles meanwhile, or have none at an edge."""
    (seed,) = seeds_for(op, algorithm)
    (ranking,) = rank([(op, seed)], SW26010, keep=6)
    for candidate in ranking.best:
        case = Case(SW26010, candidate)
        assert estimate_ratio(case) == pytest.approx(1, abs=0.004), str(case)


@pytest.mark.parametrize(("channels", "size"), [(64, 28), (128, 16)])
def test_a_product_that_is_a_chain_for_some_tiles_is_priced_both_ways(channels, size):
    """With one output row a core the products of a kernel row are one call, with two rows three."""
    op = ops.Conv2d(8, channels, channels, size, size, (3, 3))
    (seed,) = seeds_for(op, "implicit_rows")
    (ranking,) = rank([(op, seed)], MEASURED, keep=4)
    for candidate in ranking.best:
        case = Case(MEASURED, candidate)
        assert estimate_ratio(case) == pytest.approx(1, abs=0.01), str(case)


def spaces_of_a_product() -> list[tuple[Program, dict[str, int], FactorGrid]]:
    """Every structure of a matrix product with the values of its extents and its factors."""
    op = ops.gemm(100, 300, 70)
    (seed,) = seeds_for(op)
    values = dict(parameters(op))
    found = structures(seed, seed.spaces[0], op.dtype, staging)
    return [(s.staged, values, factor_grid(s, values, blocks_of(SW26010, op.dtype))) for s in found]


def together(program: Program, values: dict[str, int], grid: FactorGrid) -> Estimate:
    return estimate(program, SW26010, {**values, **grid.tiles, **grid.copies})


def test_a_whole_space_is_priced_as_its_candidates_are_one_by_one() -> None:
    """An estimate of arrays has, element by element, the cycles of the single candidates; sums are
    rounded in another order.
    """
    compared = 0
    for program, values, grid in spaces_of_a_product():
        every = together(program, values, grid)
        copies, tiles = every.cycles.shape
        for i in range(0, copies * tiles, 13):
            c, t = divmod(i, tiles)
            alone = estimate(program, SW26010, {**values, **grid.chosen(c, t)})
            assert alone.cycles.item() == every.cycles[c, t]
            for name in ("compute_cycles", "dma_cycles"):
                expected = pytest.approx(getattr(alone, name).item(), rel=1e-12)
                assert getattr(every, name)[c, t] == expected
            compared += 1
    assert compared > 50


def test_unwanted_candidates_are_left_at_infinity() -> None:
    program, values, grid = spaces_of_a_product()[0]
    every = together(program, values, grid)
    wanted = np.arange(every.cycles.size).reshape(every.cycles.shape) % 3 == 0
    env = {**values, **grid.tiles, **grid.copies}
    some = estimate(take_apart(program), SW26010, env, wanted)
    np.testing.assert_array_equal(some.cycles[wanted], every.cycles[wanted])
    assert np.isinf(some.cycles[~wanted]).all()


@pytest.mark.parametrize("keep", [1, 4])
def test_the_best_of_each_contest_are_played(keep: int) -> None:
    """Left out is only what takes longer than them, a third or more of all."""
    left_out, candidates = 0, 0
    for program, values, grid in spaces_of_a_product():
        every = together(program, values, grid)
        contest = np.arange(every.cycles.shape[1]) % 2
        env = {**values, **grid.tiles, **grid.copies}
        best = np.full((2, keep), np.inf)
        some = estimate(take_apart(program), SW26010, env, contest=contest, best=best)
        played = np.isfinite(some.cycles)
        np.testing.assert_array_equal(some.cycles[played], every.cycles[played])
        bounds = np.maximum(every.compute_cycles, every.dma_cycles)
        assert (bounds <= every.cycles * (1 + 1e-9)).all()
        for number in (0, 1):
            own = every.cycles[:, contest == number]
            np.testing.assert_array_equal(best[number], np.sort(own, axis=None)[:keep])
            assert (own[~played[:, contest == number]] > best[number, -1]).all()
        left_out, candidates = left_out + int((~played).sum()), candidates + played.size
    assert left_out > candidates / 3


ONE_TRANSFER = """\
def fetch(rows, x_copies):
    y: tensor("f64", "output", rows=rows, cols=64)
    x: tensor("f64", "input", rows=rows, cols=64)
    x_tile: buffer("f64", 64, copies=x_copies)
    for row in range(rows):
        get(x[row, at(cid * 8, 8)], x_tile[0])
        wait(x_tile[0])
        put(x_tile[0], y[row, at(cid * 8, 8)])
        wait(x_tile[0])
"""


def test_scratchpad_bytes_counts_every_copy() -> None:
    program = parse(ONE_TRANSFER)
    assert scratchpad_bytes(program, {"x_copies": 1}) == 512
    assert scratchpad_bytes(program, {"x_copies": 2}) == 1024
    np.testing.assert_array_equal(
        scratchpad_bytes(program, {"x_copies": np.array([1, 2])}), [512, 1024]
    )


@pytest.mark.parametrize("algorithm", ["gemm", "implicit"])
@examples(30)
@given(st.data())
def test_a_second_copy_never_costs_time(algorithm: str, data: st.DataObject) -> None:
    """Of a candidate's buffers one is doubled: no estimate grows by more than a hundredth and what
    transfers around a short loop inside another one are priced too late, three latencies at most.
    """
    case = data.draw(cases(algorithm, MACHINES))
    (nest,) = case.candidate.nests
    values = {**parameters(case.candidate.op), **nest.factors}
    single = {k: 1 if k.endswith("_copies") else v for k, v in values.items()}
    before = estimate(nest.structure.staged, case.machine, single).cycles.item()
    for name in (k for k in values if k.endswith("_copies")):
        after = estimate(nest.structure.staged, case.machine, {**single, name: 2})
        late = 3 * case.machine.dma.latency_cycles
        assert after.cycles.item() <= 1.01 * before + late


TWO_TILES = """\
def two_tiles(x_copies):
    x: tensor("f64", "input", rows=100, cols=64)
    y: tensor("f64", "output", rows=100, cols=64)
    x_tile: buffer("f64", 640, copies=x_copies)
    y_tile: buffer("f64", 640)
    for step in range(2):
        get(x[at(step * 80, min(80, 100 - step * 80)), at(cid * 8, 8)], x_tile[0])
        wait(x_tile[0])
        copy(
            y_tile[0](shape=(min(80, 100 - step * 80), 8), roles="pq"),
            x_tile[0](shape=(min(80, 100 - step * 80), 8), roles="pq"),
        )
        put(y_tile[0], y[at(step * 80, min(80, 100 - step * 80)), at(cid * 8, 8)])
        wait(y_tile[0])
"""
"""The second tile is a quarter of the first, and nothing is fetched behind it."""

STORED_INSIDE = """\
def stored_inside(x_copies):
    x: tensor("f64", "input", rows=10, cols=64)
    y: tensor("f64", "output", rows=10, cols=64)
    x_tile: buffer("f64", 8, copies=x_copies)
    y_tile: buffer("f64", 8)
    for row in range(10):
        get(x[row, at(cid * 8, 8)], x_tile[0])
        wait(x_tile[0])
        for block in range(1):
            copy(y_tile[0](shape=(8,), roles="p"), x_tile[0](shape=(8,), roles="p"))
            put(y_tile[0], y[row, at(cid * 8, 8)])
            wait(y_tile[0])
"""
"""The inner loop dissolves: the next row is fetched only when the store has left."""


COLUMNS = """\
def columns(width, rows, x_copies):
    x: tensor("f64", "input", rows=100, cols=64)
    y: tensor("f64", "output", rows=100, cols=64)
    x_tile: buffer("f64", 640, copies=x_copies)
    y_tile: buffer("f64", 640)
    for step in range(2):
        get(x[at(step * 80, min(rows, 100 - step * 80)), at(0, width)], x_tile[0])
        wait(x_tile[0])
        if step == 0:
            copy(y_tile[0](shape=(width,), roles="p"), x_tile[0](shape=(width,), roles="p"))
        copy(
            y_tile[0](shape=(min(80, 100 - step * 80), width), roles="pq"),
            x_tile[0](shape=(min(80, 100 - step * 80), width), roles="pq"),
        )
        put(y_tile[0], y[at(step * 80, min(80, 100 - step * 80)), at(0, width)])
        wait(y_tile[0])
"""
"""Numbers of one call differ from step to step, or from tile to tile, or both."""


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("tiles", [[(8, 80)], [(3, 5), (4, 80), (8, 10), (4, 5)]])
def test_steps_and_tiles_that_differ_are_priced_as_each_alone(
    tiles: list[tuple[int, int]], copies: int
) -> None:
    program = parse(COLUMNS)
    width, rows = np.transpose(tiles)
    found = estimate(program, SW26010, {"width": width, "rows": rows, "x_copies": copies})
    every = [
        estimate(program, SW26010, {"width": w, "rows": r, "x_copies": copies}) for w, r in tiles
    ]
    for name in ("cycles", "compute_cycles", "dma_cycles"):
        alone = [getattr(one, name).item() for one in every]
        assert np.ravel(getattr(found, name)).tolist() == alone


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("text", [TWO_TILES, STORED_INSIDE], ids=["two tiles", "stored inside"])
def test_a_small_nest_is_estimated_almost_exactly(text: str, copies: int) -> None:
    program, values = parse(text), {"x_copies": copies}
    run = simulate(make_explicit("nest", [program], [values], SW26010), SW26010)
    assert estimate(program, SW26010, values).cycles.item() == pytest.approx(run.cycles, rel=0.003)
