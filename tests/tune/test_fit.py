"""Misfits are told with tensor, bytes, limit, and the least change that fits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from support.candidates import ALGORITHMS, Op, operators
from support.examples import examples
from tilewright.common.errors import CapacityError, ScheduleError
from tilewright.cost.prices import prices_of
from tilewright.machine import Machine, load_machine
from tilewright.ops import conv2d, gemm
from tilewright.seeds.space import layout, seeds_for
from tilewright.seeds.steps import parse_schedule
from tilewright.tune.choose import choose
from tilewright.tune.fit import Shortage, main_memory_bytes, shortage
from tilewright.tune.search import rank

CG = load_machine("sw26010_cg")
PRODUCT = gemm(100, 192, 30)


def machine(**changes: int) -> Machine:
    """One core group with other memories, in bytes."""
    keys = {"spm": "memory.spm.capacity_bytes", "main": "memory.main.capacity_bytes"}
    return load_machine("sw26010_cg", {keys[name]: value for name, value in changes.items()})


def short(op: Op, algorithm: str, on: Machine) -> Shortage:
    (seed,) = seeds_for(op, algorithm)
    found = shortage(op, seed, on)
    assert found is not None
    return found


def test_a_scratchpad_that_is_too_small() -> None:
    """The smallest tiles are 32 x 128 x 8: a core has 64 elements of C, 4 of A and 16 of B, in
    slots of eight.
    """
    found = short(PRODUCT, "gemm", machine(spm=4700))
    assert str(found.error) == (
        "no tile of gemm m100 n192 k30 fits: the smallest tiles of 'gemm' take 704 bytes of "
        "scratchpad, 512 of them for 'c', the limit is 604; "
        "--set memory.spm.capacity_bytes=4800"
    )


def test_a_main_memory_that_is_too_small() -> None:
    found = short(PRODUCT, "gemm", machine(main=200_000))
    assert str(found.error) == (
        "gemm of gemm m100 n192 k30 takes 223680 bytes of main memory, 153600 of them for 'c', "
        "the limit is 200000; another algorithm, a smaller batch, or "
        "--set memory.main.capacity_bytes=223680"
    )
    assert found.factor == pytest.approx(1.1184)


def test_more_than_any_memory_holds_has_another_way_out() -> None:
    edge = 2**31 - 1
    found = short(gemm(edge, edge, 512), "gemm", machine(main=200_000))
    assert isinstance(found.error, CapacityError)
    assert found.error.fix == "another algorithm, or smaller extents"


def test_what_fits_is_short_of_nothing() -> None:
    (seed,) = seeds_for(PRODUCT, "gemm")
    assert shortage(PRODUCT, seed, CG) is None
    assert main_memory_bytes(PRODUCT, seed) == 8 * (100 * 192 + 100 * 30 + 30 * 192)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_change_that_is_named_is_the_least_that_fits(algorithm: str) -> None:
    """With it there is a candidate, with a byte less there is none, for every algorithm."""
    tiny = machine(spm=4096 + 64)

    @examples(3)
    @given(operators(algorithm))
    def check(op: Op) -> None:
        (seed,) = seeds_for(op, algorithm)
        found = shortage(op, seed, tiny)
        if found is None:
            return
        assert isinstance(found.error, CapacityError)
        enough = int(found.error.fix.rpartition("=")[2])
        for spm, fits in ((enough, True), (enough - 1, False)):
            on = machine(spm=spm)
            (ranking,) = rank([(op, seed)], on)
            assert bool(ranking.best) is fits
            assert (shortage(op, seed, on) is None) is fits
            for candidate in ranking.best:
                candidate.program(on)

    check()


def test_of_all_ways_the_one_that_lacks_least_is_told() -> None:
    """Winograd needs more than the direct form: its four nests hold many points at once."""
    op = conv2d(batch=8, in_channels=16, out_channels=16, height=8, width=8, kernel=3)
    tiny = machine(spm=4096 + 256)
    with pytest.raises(CapacityError) as caught:
        choose([op], tiny)
    factors = {seed.name: short(op, seed.name, tiny).factor for seed in seeds_for(op)}
    least = min(factors, key=lambda name: factors[name])
    assert str(caught.value) == str(short(op, least, tiny).error)
    enough = int(caught.value.fix.rpartition("=")[2])
    assert choose([op], machine(spm=enough))[0].best.algorithm == least


@pytest.mark.parametrize("groups", [2, 4])
def test_of_several_operators_the_one_that_lacks_most_is_told(groups: int) -> None:
    """Divided over groups; its change makes all of them fit."""
    own = {"groups.count": groups}
    small = load_machine("sw26010", {**own, "memory.spm.capacity_bytes": 4600})
    ops = [gemm(100, 192, 30), gemm(1, 8, 5000, transpose_b=True)]
    with pytest.raises(CapacityError) as caught:
        choose(ops, small, names=["first", "second"])
    assert caught.value.where == f"second, each of {groups} pieces"
    enough = int(caught.value.fix.rpartition("=")[2])
    assert choose(ops, load_machine("sw26010", {**own, "memory.spm.capacity_bytes": enough}))


ROWS_AT_ONCE = """\
split(out_channel, out_channel_tile)
split(image, image_tile)
split(in_channel, in_channel_tile)
split(out_col, out_col_tile)
fuse(out_col, n)
spread(out_channel, rows)
spread(in_channel, both)
spread(out_col, columns)
vectorize(n)
stage(x, kernel_col)
"""


def test_an_algorithm_without_a_tile_of_any_size() -> None:
    """One image, its columns vectorised, all that three taps need at once: never aligned."""
    op = conv2d(batch=1, in_channels=8, out_channels=8, height=4, width=66, kernel=3)
    (seed,) = seeds_for(op, "implicit")
    (space,) = seed.spaces
    only = replace(space, choices=((parse_schedule(ROWS_AT_ONCE).steps,),))
    order = ("group", "rows", "channels", "cols", "batch")
    specs = {t.name: t for t in seed.tensors}
    orders = (layout(specs["x"], order), layout(specs["y"], order))
    found = shortage(op, replace(seed, spaces=(only,), layouts=orders), CG)
    assert found is not None
    assert isinstance(found.error, ScheduleError)
    assert str(found.error) == (
        "implicit has no tiles for conv2d 1x8x4x66 -> 8, 3x3 s1 p0 whose vectors would be aligned; "
        "another algorithm"
    )


def test_prices_that_have_no_room_say_so_without_a_limit_of_their_own(monkeypatch) -> None:
    """A family need not say which limit it is that no tile keeps."""
    monkeypatch.setattr(type(prices_of(CG)), "has_room", lambda *_: False)
    found = short(PRODUCT, "gemm", CG)
    assert str(found.error) == (
        "no tile of gemm m100 n192 k30 fits: the prices of machine 'sw26010_cg' have no room for "
        "any tile of 'gemm'; another algorithm, or smaller extents"
    )
    with pytest.raises(ScheduleError, match=r"^no tile of gemm m100 n192 k30 fits: the prices of"):
        choose([PRODUCT], CG)
