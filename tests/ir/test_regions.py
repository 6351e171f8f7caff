"""Regions split into blocks: every element once and in order, alike for numbers and expressions."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.codegen.c.expression import Scope
from tilewright.codegen.transfer_plan import plan_transfer
from tilewright.common.expr import Const, Var, evaluate
from tilewright.cost.timing import transfer_shape
from tilewright.ir.nodes import Buffer, Tensor, Transfer, at
from tilewright.ir.regions import Blocks, Repeat, split_region

DOUBLE_BYTES = 8
Region = list[tuple[int, int, int]]


def regions(low: int, high: int) -> st.SearchStrategy[Region]:
    """Regions of `low` to `high` dimensions inside their tensor: (size, extent, step)."""
    one = st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 3)).map(
        lambda d: (d[0] * d[2] + d[2] // 2, min(d[1], d[0]), d[2])
    )
    return st.lists(one, min_size=low, max_size=high)


def repeats_of(region: Region) -> list[Repeat]:
    """How a region counts through its tensor, in elements."""
    sizes = [size for size, _, _ in region]
    return [
        Repeat(extent, step * prod(sizes[d + 1 :])) for d, (_, extent, step) in enumerate(region)
    ]


def addresses(repeats: list[Repeat]) -> list[int]:
    """Addresses that the repeats count through, in order."""
    found = [0]
    for repeat in repeats:
        found = [start + i * repeat.stride for start in found for i in range(repeat.count)]
    return found


@given(regions(1, 5))
def test_blocks_are_the_region_in_its_order(region):
    repeats = repeats_of(region)
    blocks = split_region(repeats, 1)
    around = [*blocks.outer, Repeat(blocks.count, blocks.stride), Repeat(blocks.length, 1)]
    assert addresses(around) == addresses(repeats)


@given(regions(1, 5))
def test_a_block_ends_at_the_first_gap(region):
    repeats = repeats_of(region)
    found = addresses(repeats)
    gaps = [i for i in range(1, len(found)) if found[i] != found[i - 1] + 1]
    assert split_region(repeats, 1).length == (gaps[0] if gaps else len(found))


@given(st.lists(regions(3, 3), min_size=2, max_size=6))
def test_arrays_split_each_region_as_alone(several):
    alone = [split_region(repeats_of(region), 1) for region in several]
    columns = zip(*(repeats_of(region) for region in several), strict=True)
    together = split_region(
        [
            Repeat(*(np.array([getattr(r, n) for r in c]) for n in ("count", "stride")))
            for c in columns
        ],
        1,
    )
    for name in ("length", "count", "stride", "requests"):
        values = np.broadcast_to(getattr(together, name), len(several)).tolist()
        assert values == [getattr(blocks, name) for blocks in alone]


def planned(region: Region, run_time: frozenset[int]) -> tuple[Blocks, dict[str, int]]:
    """The blocks in generated code, extents of some dimensions known at run time alone."""
    names = "abcde"[: len(region)]
    tensor = Tensor("x", "f64", "input", tuple(names), tuple(Const(d[0]) for d in region))
    values = {name: region[d][1] for d, name in enumerate(names)}
    ranges = tuple(
        at(0, Var(names[d]) if d in run_time else extent, step)
        for d, (_, extent, step) in enumerate(region)
    )
    scope = Scope(bounds={name: (0, region[d][0]) for d, name in enumerate(names)})
    buffer = Buffer("tile", "f64", Const(prod(extent for _, extent, _ in region)))
    plan = plan_transfer(Transfer("get", "x", ranges, "tile", Const(0)), tensor, buffer, scope)
    return plan.blocks, values


def priced(region: Region) -> tuple[int, int, int]:
    """(bytes of a block, blocks, requests) as the cost model sees them."""
    shape = transfer_shape(DOUBLE_BYTES, *(list(column) for column in zip(*region, strict=True)))
    return shape.block_bytes, shape.blocks, shape.requests


def emitted(blocks: Blocks, values: dict[str, int]) -> tuple[int, int, int]:
    """Bounds that generated code finds with these values."""
    length, count, requests = (
        evaluate(Const(1) * e, values) for e in (blocks.length, blocks.count, blocks.requests)
    )
    return length * DOUBLE_BYTES, count * requests, requests


@given(regions(1, 5))
def test_the_blocks_that_are_emitted_are_those_that_are_priced(region):
    assert emitted(*planned(region, frozenset())) == priced(region)


@given(regions(1, 4), st.frozensets(st.integers(0, 3)))
def test_extents_of_run_time_need_no_fewer_requests(region, run_time):
    block_bytes, blocks, requests = emitted(*planned(region, run_time))
    expected = priced(region)
    assert block_bytes * blocks == expected[0] * expected[1]
    assert (block_bytes <= expected[0], requests >= expected[2]) == (True, True)


@pytest.mark.parametrize(
    ("repeats", "expected"),
    [
        ([Repeat(64, 1)], Blocks(64, 1, 64)),
        ([Repeat(8, 4)], Blocks(1, 8, 4)),
        ([Repeat(4, 64), Repeat(16, 1)], Blocks(16, 4, 64)),
        ([Repeat(4, 64), Repeat(64, 1)], Blocks(256, 1, 256)),
        ([Repeat(5, 576), Repeat(9, 64), Repeat(16, 1)], Blocks(16, 45, 64)),
        ([Repeat(5, 576), Repeat(3, 64), Repeat(16, 1)], Blocks(16, 3, 64, (Repeat(5, 576),))),
        (
            [Repeat(2, 90), Repeat(3, 30), Repeat(2, 7), Repeat(2, 2)],
            Blocks(1, 2, 2, (Repeat(6, 30), Repeat(2, 7))),
        ),
    ],
)
def test_split(repeats, expected):
    assert split_region(repeats, 1) == expected
