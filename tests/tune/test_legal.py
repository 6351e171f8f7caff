"""Element types that a machine computes with, and those that it is asked for instead."""

import pytest

from tilewright.common.errors import CapacityError
from tilewright.machine import load_machine
from tilewright.ops import Op, gemm
from tilewright.ops.access import straight
from tilewright.ops.mapping import InMemory
from tilewright.ops.numerics import real_types
from tilewright.tune.legal import require_types


def moved(dtype: str, gather: str | None = None) -> InMemory:
    """A copy, or the gathering of rows."""
    result = straight((4, 3)[: 1 if gather else 2])
    return InMemory((4, 3), result, (straight((4, 3)),), "x0", gather, dtype=dtype)


@pytest.mark.parametrize(
    ("machine", "op"),
    [("sw26010", moved("i32")), ("sw26010", moved("i8")), ("host", gemm(4, 4, 4, dtype="u8:i32"))],
)
def test_maps_of_integers_take_the_instructions_of_addresses(machine: str, op: Op) -> None:
    require_types(op, load_machine(machine))


@pytest.mark.parametrize(
    ("machine", "op", "message"),
    [
        (
            "sw26010",
            moved("f16"),
            "machine 'sw26010' computes f64 and f32; copy 4x3 has sums of f16; --dtype f64, or a "
            "machine that computes f16",
        ),
        (
            "sw26010",
            moved(real_types("q8.8"), "max"),
            "machine 'sw26010' computes f64 and f32; max 4 over 3 has sums of i16; --dtype f64, or "
            "a machine that computes i16",
        ),
        (
            "cns1-128",
            moved("i64"),
            "machine 'cns1-128' computes i16 and i32; copy 4x3 has sums of i64; --dtype i16, or a "
            "machine that computes i64",
        ),
        (
            "dla-al",
            gemm(4, 4, 4, dtype="f64"),
            "machine 'dla-al' computes i16 and i64; gemm m4 n4 k4 has sums of f64; --dtype "
            "i16:i64, or a machine that computes f64",
        ),
    ],
)
def test_other_types_are_refused_with_one_that_the_operator_takes(
    machine: str, op: Op, message: str
) -> None:
    with pytest.raises(CapacityError) as refused:
        require_types(op, load_machine(machine))
    assert str(refused.value) == message
