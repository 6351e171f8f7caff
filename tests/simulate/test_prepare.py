"""Causes of a program's time: slots that share bytes, bytes in use, buffers that a put keeps."""

from __future__ import annotations

import textwrap

import pytest

from tilewright.common.errors import CapacityError
from tilewright.ir.parser import parse
from tilewright.machine import load_machine
from tilewright.simulate.kernel.program import PreparedProgram, prepare

MACHINE = load_machine("sw26010_cg")


def prepared(buffers: str, body: str = "barrier()") -> PreparedProgram:
    lines = [line for text in (buffers, body) for line in textwrap.dedent(text).strip().split("\n")]
    return prepare(parse("def p():\n" + textwrap.indent("\n".join(lines), "    ")), MACHINE)


def test_buffers_share_memory_where_their_bytes_overlap():
    """16 doubles are 128 bytes: b begins inside of a, c where b ends."""
    found = prepared(
        """
        a: buffer("f64", 16, copies=2, offset_bytes=0)
        b: buffer("f64", 8, offset_bytes=224)
        c: buffer("f64", 8, offset_bytes=288)
        d: buffer("f64", 8)
        """
    ).buffers
    assert {name: set(slot.sharing) for name, slot in found.items()} == {
        "a": {"b"},
        "b": {"a"},
        "c": set(),
        "d": set(),
    }
    assert (found["a"].copies, found["a"].elements, found["a"].bytes) == (2, 16, 128)


@pytest.mark.parametrize(
    ("buffers", "allocated"),
    [
        ('a: buffer("f64", 3)\nb: buffer("f64", 4)', 32 + 32),
        ('a: buffer("f64", 3, copies=2)\nb: buffer("f32", 9)', 64 + 64),
        ('a: buffer("f64", 16, offset_bytes=512)\nb: buffer("f64", 4, offset_bytes=0)', 640),
        ('a: buffer("f64", 16, offset_bytes=0)\nb: buffer("f64", 4, offset_bytes=64)', 128),
    ],
    ids=["whole vectors", "copies", "placed", "one inside the other"],
)
def test_bytes_in_use_are_those_up_to_the_last_end(buffers, allocated):
    assert prepared(buffers).allocated_bytes == allocated


def test_all_of_the_scratchpad_may_be_taken():
    size = MACHINE.spm_available_bytes // 8
    assert prepared(f'a: buffer("f64", {size})').allocated_bytes == MACHINE.spm_available_bytes
    with pytest.raises(CapacityError):
        prepared(f'a: buffer("f64", {size + 4})')


PRODUCT = """
x: tensor("f64", "input", m=64, k=8)
w: tensor("f64", "input", k=8, n=64)
y: tensor("f64", "output", m=64, n=64, other=2)
a: buffer("f64", 128)
b: buffer("f64", 32)
c: buffer("f64", 64)
"""
CALL = """
for i in range(4):
    gemm(
        c[0](shape=(16, 4), roles="mn"),
        a[0](shape=(16, 8), roles="mk"),
        b[0](shape=(8, 4), roles="kn"),
        vector="m",
    )
    PUTS
"""


@pytest.mark.parametrize(
    ("puts", "kept"),
    [
        ("put(c[0], y[at(0, 16), at(0, 3 - i // 3), 0])", True),
        ("barrier()", False),
        ("put(c[0], y[at(0, 16), at(0, 3), 0])\n    put(c[0], y[at(0, 16), at(0, 4), 1])", False),
        ("for j in range(2):\n        put(c[0], y[at(0, 16), at(0, 3 - j), 0])", False),
    ],
    ids=["one put", "none", "two", "one that depends on a loop of its own"],
)
def test_what_is_kept_of_a_product_is_known_from_the_one_put_of_it(puts, kept):
    (work,) = prepared(PRODUCT, CALL.replace("PUTS", puts)).works
    assert (work.result is not None) is kept
