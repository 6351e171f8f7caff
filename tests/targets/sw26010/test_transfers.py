"""Transfers become DMA requests: blocks, strides, loops, and what the descriptor cannot hold."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.codegen.c.expression import Scope
from tilewright.codegen.transfer_plan import plan_transfer
from tilewright.common.errors import CapacityError, ProgramError, SimulationError
from tilewright.common.expr import Const
from tilewright.common.expr_parser import parse_expr
from tilewright.graph.zoo import network
from tilewright.ir.interpret import interpret
from tilewright.ir.nodes import Buffer, Program, Tensor, Transfer, at
from tilewright.ir.parser import parse
from tilewright.machine import load_machine
from tilewright.network.build import build_plan
from tilewright.ops import Conv2d
from tilewright.targets.sw26010.code import CODE
from tilewright.targets.sw26010.emulation.run import run_emulated_many
from tilewright.targets.sw26010.names import core_scope

MACHINE = load_machine("sw26010")
SCOPE = core_scope(MACHINE)
Region = tuple[tuple[Any, ...], ...]


def plan(shape: tuple[int, ...], region: Region, scope: Scope = SCOPE, slot: int = 4096) -> str:
    """The requests for a region of (start, extent, step), shortly."""
    dims = tuple("abcdef"[: len(shape)])
    tensor = Tensor("x", "f64", "input", dims, tuple(Const(e) for e in shape))
    ranges = tuple(at(*(parse_expr(str(v)) for v in r)) for r in region)
    transfer = Transfer("get", "x", ranges, "tile", Const(0))
    p = plan_transfer(transfer, tensor, Buffer("tile", "f64", Const(slot)), scope)
    outer = "".join(f"{repeat.count} x {repeat.stride}: " for repeat in p.blocks.outer)
    return f"{outer}{p.blocks.count} of {p.blocks.length} every {p.blocks.stride} from {p.offset}"


@pytest.mark.parametrize(
    ("shape", "region", "expected"),
    [
        ((64,), ((8, 16),), "1 of 16 every 16 from 8"),
        ((64,), ((8, 1),), "1 of 1 every 1 from 8"),
        ((64,), ((0, 16, 2),), "16 of 1 every 2 from 0"),
        ((64, 32), ((0, 4), (0, 32)), "1 of 128 every 128 from 0"),
        ((64, 32), ((2, 4), (3, 8)), "4 of 8 every 32 from 67"),
        ((64, 32), ((2, 4, 3), (0, 32)), "4 of 32 every 96 from 64"),
        ((64, 32), ((2, 4), (3, 1)), "4 of 1 every 32 from 67"),
        ((8, 4, 32), ((1, 2), (0, 4), (0, 8)), "8 of 8 every 32 from 128"),
        ((8, 4, 32), ((1, 2), (1, 2), (0, 32)), "2 of 64 every 128 from 160"),
        ((8, 4, 32), ((1, 2), (1, 2), (0, 8)), "2 x 128: 2 of 8 every 32 from 160"),
        ((3, 8, 4, 32), ((0, 3), (1, 2), (1, 2), (0, 8, 2)), None),
        ((64, 32), (("rid * 8", 8), ("cid * 4", 4)), "8 of 4 every 32 from rid * 8 * 32 + cid * 4"),
        ((64, 30), ((0, 2), ("cid * 4", "min(4, 30 - cid * 4)")), None),
        (
            (8, 6, 32),
            ((1, 2), ("cid", "min(1, 6 - cid)"), (0, 8)),
            "2 of max(0, min(1, 6 - cid)) * 8 every 192 from 192 + cid * 32",
        ),
    ],
)
def test_plan(shape, region, expected):
    special = {
        4: "3 x 1024: 2 x 128: 2 x 32: 8 of 1 every 2 from 160",
        2: "2 of min(4, 30 - cid * 4) every 30 from cid * 4",
    }
    assert plan(shape, region) == (expected or special[len(shape)])


def transfers(size: int, rows: str) -> str:
    """The code of the cores that moves these rows of 15 x `size` elements both ways."""
    text = f"""def rows():
    x: tensor("f32", "input", cols=15, batch={size})
    y: tensor("f32", "output", cols=15, batch={size})
    tile: buffer("f32", 32, offset_bytes=0)
    get(x[at(0, 15), {rows}], tile[0])
    wait(tile[0])
    put(tile[0], y[at(0, 15), {rows}])
    wait(tile[0])
"""
    return CODE.emit(parse(text), MACHINE).files["rows_slave.c"]


def test_blocks_that_leave_no_gap_on_a_core_are_one_request_there():
    emitted = transfers(2, "at(cid * 2, max(0, 2 - cid * 2))")
    assert emitted.count("(2 - block) * 4, (2 - block) > 0 ? block * 4 : 0);") == 2


def test_a_dimension_of_one_index_is_in_no_stride():
    """A core that has the index moves all rows as one block."""
    emitted = transfers(1, "at(cid, max(0, 1 - cid))")
    assert emitted.count("if (block > 0)") == 2
    assert "long block0" not in emitted
    assert "? block" not in emitted


def test_a_region_that_cannot_fit_its_slot():
    with pytest.raises(ProgramError) as caught:
        plan((64, 32), ((0, 4), (0, 32)), slot=127)
    assert str(caught.value) == (
        "the transfer of 'x' moves 128 elements, slot 0 of 'tile' holds 127; "
        "give the buffer more elements or the transfer a smaller region"
    )


def test_steps_start_at_one():
    with pytest.raises(ProgramError) as caught:
        plan((64,), ((0, 4, 0),))
    assert str(caught.value) == "a region of 'x' has step 0; steps start at 1"


def copying(rows: int, columns: int, height: int, width: int) -> Program:
    text = f"""\
def copying():
    x: tensor("f64", "input", rows={rows}, columns={columns})
    y: tensor("f64", "output", rows={rows}, columns={columns})
    tile: buffer("f64", {height * width}, offset_bytes=0)
    get(x[at(0, {height}), at(0, {width})], tile[0])
    wait(tile[0])
    put(tile[0], y[at(0, {height}), at(0, {width})])
    wait(tile[0])
"""
    return parse(text)


@pytest.mark.parametrize(
    ("overrides", "program", "message"),
    [
        (
            {},
            copying(4, 400_000_000, 2, 8),
            "tensor 'x': a DMA request has a stride of 3199999936 bytes, "
            "dma.limits.stride_bytes is 2147483647; --set dma.limits.stride_bytes=3199999936 or "
            "more, or a layout that stores the tile's dimensions next to each other",
        ),
        (
            {"dma.limits.size_bytes": "16384"},
            copying(64, 64, 64, 64),
            "tensor 'x': a DMA request has a size of 32768 bytes, dma.limits.size_bytes is 16384; "
            "--set dma.limits.size_bytes=32768 or more, or a schedule with a smaller tile",
        ),
        (
            {"dma.limits.block_bytes": "511"},
            copying(64, 128, 2, 64),
            "tensor 'x': a DMA request has a block of 512 bytes, dma.limits.block_bytes is 511; "
            "--set dma.limits.block_bytes=512 or more, or a schedule with a smaller tile",
        ),
        (
            {},
            copying(128, 128, 64, 128),
            "buffer 'tile' ends at byte 65536 of the scratchpad, 61440 are available to buffers; "
            "choose smaller tiles or fewer copies",
        ),
    ],
)
def test_limits_of_the_hardware(overrides, program, message):
    with pytest.raises(CapacityError) as caught:
        CODE.emit(program, load_machine("sw26010", overrides))
    assert str(caught.value) == message
    for name, value in re.findall(r"--set (\S+)=(\d+)", message):  # that is enough
        assert CODE.emit(program, load_machine("sw26010", overrides | {name: value})).files


def test_a_buffer_may_take_all_bytes_that_there_are():
    assert CODE.emit(copying(128, 120, 64, 120), load_machine("sw26010")).files


CONV = Conv2d(4, 32, 64, 8, 8, (3, 3), padding=(1, 1, 1, 1))


@pytest.mark.parametrize(
    ("what", "limit"), [("block", 100), ("size", 1000), ("stride", 2000), ("block", 32)]
)
def test_candidates_beyond_a_limit_are_dropped_and_the_best_other_one_is_emitted(what, limit):
    machine = load_machine("sw26010_cg", {f"dma.limits.{what}_bytes": str(limit)})
    free = tilewright.compile(CONV, machine="sw26010_cg").plan.only
    with pytest.raises(CapacityError, match=f"dma.limits.{what}_bytes is {limit};"):
        CODE.emit(free.program, machine)
    found = tilewright.compile(CONV, machine=machine).plan.only
    assert CODE.emit(found.program, machine).files
    assert found.result.estimate_cycles >= free.result.estimate_cycles


@pytest.mark.parametrize(
    ("what", "limit", "needed", "tensor"),
    [("block", 7, 8, "w"), ("size", 16, 32, "w"), ("stride", 10, 16, "x")],
)
def test_where_no_tile_keeps_a_limit_the_least_that_would_do_is_told(what, limit, needed, tensor):
    key = f"dma.limits.{what}_bytes"
    with pytest.raises(CapacityError) as caught:
        tilewright.compile(CONV, machine=load_machine("sw26010_cg", {key: str(limit)}))
    assert str(caught.value) == (
        "no tile of conv2d 4x32x8x8 -> 64, 3x3 s1 p1 fits: of the tiles of 'implicit' the one that "
        f"asks for least has DMA requests with a {what} of {needed} bytes for {tensor!r}, {key} is "
        f"{limit}; --set {key}={needed} or more"
    )
    enough = load_machine("sw26010_cg", {key: str(needed)})
    assert CODE.emit(tilewright.compile(CONV, machine=enough).plan.only.program, enough).files


def test_stages_of_a_network_keep_the_limits_of_a_descriptor():
    machine = load_machine("sw26010_cg", {"dma.limits.block_bytes": "130"})
    net = network("lenet5", 1)
    plan = build_plan(net, machine)
    free = build_plan(net, load_machine("sw26010_cg"))
    assert plan.estimate_cycles > free.estimate_cycles
    for stage in plan.stages:
        assert CODE.emit(stage.candidate.program(machine), machine).files


def random_program(generator: np.random.Generator) -> Program:
    """Fetch a random region of a tensor of up to four dimensions, permute the tile, put it."""
    rank = int(generator.integers(1, 5))
    extents = [int(e) for e in generator.integers(1, 5, rank)]
    steps = [int(s) for s in generator.choice([1, 1, 1, 2, 3], rank)]
    moves = generator.choice(["", "rid", "cid"], rank)
    factors = generator.integers(1, 6, rank)
    slack = generator.integers(0, 3, rank)
    starts = [f" + {m} * {f}" if m else "" for m, f in zip(moves, factors, strict=True)]
    shape = [
        1 + (e - 1) * s + (7 * int(f) if m else 0) + int(k)
        for e, s, m, f, k in zip(extents, steps, moves, factors, slack, strict=True)
    ]
    order = [int(d) for d in generator.permutation(rank)]
    kind = str(generator.choice(["f64", "f32"]))
    dims = ", ".join(f"d{i}={n}" for i, n in enumerate(shape))
    region = ", ".join(
        f"at({int(k) // 2}{a}, {e}, {s})"
        for k, a, e, s in zip(slack, starts, extents, steps, strict=True)
    )
    permuted = [extents[d] for d in order]
    letters = "abcd"[:rank]
    target = "".join(letters[d] for d in order)
    whole = ", ".join(["rid * 8 + cid", *(f"at(0, {e})" for e in permuted)])
    size = int(np.prod(extents))
    text = f"""\
def copying():
    x: tensor("{kind}", "input", {dims})
    y: tensor("{kind}", "output", core=64, {", ".join(f"d{i}={n}" for i, n in enumerate(permuted))})
    x_tile: buffer("{kind}", {size}, copies=2, offset_bytes=0)
    y_tile: buffer("{kind}", {size}, offset_bytes={-(-2 * size * 8 // 32) * 32})
    get(x[{region}], x_tile[1])
    wait(x_tile[1])
    copy(
        y_tile[0](shape=({", ".join(map(str, permuted))},), roles="{target}"),
        x_tile[1](shape=({", ".join(map(str, extents))},), roles="{letters}"),
    )
    put(y_tile[0], y[{whole}])
    wait(y_tile[0])
"""
    return parse(text)


def test_random_regions_and_permutations():
    generator = np.random.default_rng(11)
    programs = [random_program(generator) for _ in range(48)]
    types = {"f64": np.float64, "f32": np.float32}
    inputs = []
    for p in programs:
        shape = tuple(int(str(e)) for e in p.tensor("x").shape)
        inputs.append({"x": generator.standard_normal(shape).astype(types[p.tensor("x").dtype])})
    cases = [(CODE.emit(p, MACHINE), i) for p, i in zip(programs, inputs, strict=True)]
    for program, given, result in zip(programs, inputs, run_emulated_many(cases), strict=True):
        assert not isinstance(result, SimulationError), result
        np.testing.assert_array_equal(result["y"], interpret(program, given)["y"])
