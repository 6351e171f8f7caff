"""Correct programs of every stage, the rules of the explicit one, and capacities."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.ir_stages import EXPLICIT, SEED, STAGED, changed, refusal
from support.ir_strategies import programs
from tilewright.common.errors import CapacityError, ProgramError, TilewrightError
from tilewright.common.expr import Var
from tilewright.ir.nodes import Program
from tilewright.ir.parser import parse
from tilewright.ir.verify import Stage, verify


@pytest.mark.parametrize(
    ("text", "stage"),
    [(SEED, "seed"), (STAGED, "staged"), (STAGED, "explicit"), (EXPLICIT, "explicit")],
)
def test_correct_programs(text: str, stage: Stage) -> None:
    verify(parse(text), stage)


def test_operands_in_place_are_for_cores_that_address_main_memory() -> None:
    view, tile = 'b_tile[1](shape=(4, 8), roles="kn"),', 'b[at(0, 4), at(0, 8)]("kn"),'
    program = changed(STAGED, view, tile)
    verify(program, "staged", in_place=True)
    with pytest.raises(ProgramError, match="is a tile, calls of the staged stage take views"):
        verify(program, "staged")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "    wait(y_tile[0])\n",
            "",
            "add > put(y_tile[0], y_flat[at(rid * 64 + cid * 8, 8)]): "
            "buffer 'y_tile' is never waited for; add wait(y_tile[0])",
        ),
        (
            "elements=512",
            "elements=256",
            "add: tensor 'y_flat' of 256 elements shares the storage of 'y' of 512; "
            "give both the same number of elements",
        ),
        (
            '"f64", "output", rows=8',
            '"f64", "input", rows=8',
            "add > put(y_tile[0], y_flat[at(rid * 64 + cid * 8, 8)]): "
            "tensor 'y_flat' is an input and cannot be written",
        ),
        (
            "offset_bytes=128",
            "offset_bytes=64",
            "add: buffer 'y_tile' starts at byte 64, buffer 'x_tile' ends at byte 128; "
            "buffers used in one part must not overlap",
        ),
        (
            "offset_bytes=128",
            "offset_bytes=-8",
            "add: buffer 'y_tile' has the address -8",
        ),
        (
            'y_tile[0](shape=(1, 8), roles="ab"), y_tile[0](shape=(1, 8), roles="ab"))',
            'y_tile[0](shape=(1, 8), roles="ab"), y_tile[0](shape=(8,), roles="b"))',
            'add > copy(y_tile[0](shape=(1, 8), roles="ab"), y_tile[0](shape=(8,), roles="b")): '
            "operand 1 of copy, y_tile[0](shape=(8,), roles=\"b\"), lacks the axis 'a'; "
            "give a dimension the role 'a'",
        ),
        (
            'x_tile[0](shape=(8,), roles="b")',
            'x_tile[0](shape=(8,), roles="c")',
            'add > scale_add(y_tile[0](shape=(1, 8), roles="ab"), '
            'x_tile[0](shape=(8,), roles="c"), alpha=1.0, beta=1.0): '
            "operand 1 of scale_add, x_tile[0](shape=(8,), roles=\"c\"), has the axis 'c'; "
            "its axes are a, b",
        ),
    ],
)
def test_explicit_stage(old: str, new: str, message: str) -> None:
    assert refusal(changed(EXPLICIT, old, new), "explicit") == message


def test_the_branches_of_a_condition_are_told_apart() -> None:
    text = "def p(n):\n for i in range(n):\n  if i < 1: barrier()\n  else: wait(b[0])"
    message = (
        "p > for i > if i < 1: else > wait(b[0]): there is no buffer 'b'; no buffers are declared"
    )
    assert refusal(parse(text), "explicit") == message


def test_what_the_text_cannot_say() -> None:
    """Programs built by code meet the rules that the parser holds for programs from text."""
    program = parse(SEED)
    advice = "use ASCII letters, digits and underscores, no leading digit and no Python keyword"
    bad_name = f"'a b' is not an identifier; {advice}"
    assert refusal(replace(program, name="a b"), "seed") == f"program {bad_name}"
    assert refusal(replace(program, parameters=("a b",)), "seed") == f"gemm: parameter {bad_name}"
    short = replace(program.tensors[0], shape=(Var("rows"),))
    assert refusal(replace(program, tensors=(short,)), "seed") == (
        "gemm: tensor 'c' has 2 dimension names and 1 extents; "
        "give each dimension one name and one extent"
    )
    doubled = replace(program.tensors[0], dims=("m", "m"))
    assert refusal(replace(program, tensors=(doubled,)), "seed") == (
        "gemm: tensor 'c' has two dimensions 'm'"
    )


def test_a_part_shares_the_storage_of_another() -> None:
    program = changed(EXPLICIT, '    y: tensor("f64", "output", rows=8, batch=64)\n', "")
    verify(program, "explicit", part=True)
    assert refusal(program, "explicit") == (
        "add: tensor 'y_flat' shares the storage of 'y', which owns none; "
        "name a tensor that is declared without storage"
    )


def _too_large(program: Program, capacity_bytes: int) -> str:
    with pytest.raises(CapacityError) as caught:
        verify(program, "explicit", capacity_bytes={"spm": capacity_bytes})
    return str(caught.value)


def test_placed_buffers_end_inside_the_scratchpad() -> None:
    verify(parse(EXPLICIT), "explicit", capacity_bytes={"spm": 192})
    assert _too_large(parse(EXPLICIT), 191) == (
        "add: buffer 'y_tile' of 64 bytes ends at byte 192, the limit is 191; "
        "free 1 bytes: smaller tiles or fewer copies"
    )


def test_buffers_without_addresses_are_counted_one_after_the_other() -> None:
    text = EXPLICIT
    for offset in (", offset_bytes=128", ", offset_bytes=0", ", offset_bytes=0"):
        text = text.replace(offset, "", 1)
    verify(parse(text), "explicit", capacity_bytes={"spm": 192})
    assert _too_large(parse(text), 100) == (
        "add: buffer 'x_tile' of 128 bytes ends at byte 192, the limit is 100; "
        "free 92 bytes: smaller tiles or fewer copies"
    )


def test_buffers_whose_size_is_open_are_not_counted() -> None:
    verify(parse(STAGED), "staged", capacity_bytes={"spm": 64 * 8 + 2 * 32 * 8})


@given(programs(), st.sampled_from(get_args(Stage)))
def test_any_program_passes_or_is_refused(program: Program, stage: Stage) -> None:
    """The verifier meets programs that are wrong in every way and never fails otherwise."""
    with suppress(TilewrightError):
        verify(program, stage, capacity_bytes={"spm": 1000})


@pytest.mark.parametrize("call", ['accumulate({}, function="sum")', 'map({}, expression="x0")'])
def test_elements_are_spread_along_axes_that_an_operand_lacks(call: str) -> None:
    operands = 'y[0](shape=(2, 5), roles="ab"), x[0](shape=(5,), roles="b")'
    buffers = 'x: buffer("f64", 5)\n    y: buffer("f64", 10)'
    verify(parse(f"def p():\n    {buffers}\n    {call.format(operands)}\n"), "staged")
