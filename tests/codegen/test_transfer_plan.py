"""Regions as blocks, and the most that one core moves."""

from __future__ import annotations

from math import prod

import pytest

from tilewright.codegen.c.expression import Scope
from tilewright.codegen.transfer_plan import TransferPlan, plan_transfer
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, evaluate
from tilewright.common.expr_parser import parse_expr
from tilewright.ir.nodes import Buffer, Tensor, Transfer, at

SCOPE = Scope({"cid": "cid"}, {"cid": (0, 7)})


def plan(shape: tuple[int, ...], region: tuple[tuple[str, str], ...], slot: int) -> TransferPlan:
    dims = tuple("abc"[: len(shape)])
    tensor = Tensor("x", "f64", "input", dims, tuple(map(Const, shape)))
    ranges = tuple(at(parse_expr(start), parse_expr(extent)) for start, extent in region)
    transfer = Transfer("get", "x", ranges, "tile", Const(0))
    return plan_transfer(transfer, tensor, Buffer("tile", "f64", Const(slot)), SCOPE)


@pytest.mark.parametrize(
    ("shape", "region"),
    [
        ((6, 8), (("1", "2"), ("0", "8"))),
        ((6, 8), (("1", "2"), ("3", "4"))),
        ((6, 1, 8), (("1", "2"), ("0", "1"), ("3", "4"))),
        ((6, 5, 8), (("1", "3"), ("cid", "min(1, 5 - cid)"), ("0", "4"))),
        ((6, 20, 8), (("1", "3"), ("cid * 3", "min(3, 20 - cid * 3)"), ("0", "4"))),
        ((1, 20), (("0", "min(1, 3 - cid)"), ("2", "4"))),
    ],
)
def test_each_core_moves_its_region(
    shape: tuple[int, ...], region: tuple[tuple[str, str], ...]
) -> None:
    """Blocks of no or fewer elements are none."""
    found = plan(shape, region, 99)
    blocks, most = found.blocks, 0
    for cid in range(8):
        env = {"cid": cid}
        own = [max(0, int(evaluate(parse_expr(extent), env))) for _, extent in region]
        counts = blocks.length, blocks.count, *(repeat.count for repeat in blocks.outer)
        assert prod(max(0, int(evaluate(count, env))) for count in counts) == prod(own)
        most = max(most, prod(own))
    assert found.largest_elements == most


def test_no_count_is_one_that_a_core_has_at_most_one_of() -> None:
    region = (("1", "3"), ("cid", "min(1, 5 - cid)"), ("0", "4"))
    assert [str(repeat.count) for repeat in plan((6, 5, 8), region, 99).blocks.outer] == []


@pytest.mark.parametrize("extent", ["10", "min(10, 9 + cid)"])
def test_a_region_that_its_slot_never_holds_is_refused(extent: str) -> None:
    with pytest.raises(
        ProgramError, match=r"^the transfer of 'x' moves (9|10) elements, slot 0 of"
    ):
        plan((20,), (("0", extent),), 8)
