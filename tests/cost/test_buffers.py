"""What the time of a call depends on besides its extents."""

from __future__ import annotations

from dataclasses import replace

from tilewright.cost.calls import priced_call
from tilewright.ir.nodes import Call
from tilewright.ir.parser import parse
from tilewright.ir.visit import walk

PRODUCT = """\
def product(n):
    c: tensor("f32", "output", rows=64, cols=n)
    a: tensor("f32", "input", rows=64, depth=256)
    b: tensor("f32", "input", depth=256, cols=n)
    a_tile: buffer("f32", 16384)
    b_tile: buffer("f32", 256 * n)
    get(a[at(0, 64), at(0, 256)], a_tile[0])
    get(b[at(0, 256), at(0, n)], b_tile[0])
    gemm(
        c[at(0, 64), at(0, n)]("mn"),
        a_tile[0](shape=(64, 256), roles="mk"),
        b_tile[0](shape=(256, n), roles="kn"),
        vector="n",
        dtype="f32",
    )
"""


def test_a_product_of_two_buffers_is_packed_unless_one_holds_a_constant() -> None:
    program = parse(PRODUCT)
    (call,) = (s for s in walk(program.body) if isinstance(s, Call))
    assert priced_call(call, {}, program).packed
    kinds = {"c": "output", "a": "input", "b": "constant"}
    tensors = tuple(replace(t, kind=kinds[t.name]) for t in program.tensors)
    assert not priced_call(call, {}, replace(program, tensors=tensors)).packed
