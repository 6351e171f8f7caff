"""A call's time depends on more than its extents."""

from __future__ import annotations

from dataclasses import replace

from support.packed_product import PRODUCT
from tilewright.cost.calls import priced_call
from tilewright.ir.nodes import Call
from tilewright.ir.parser import parse
from tilewright.ir.visit import walk


def test_a_product_of_two_buffers_is_packed_unless_one_holds_a_constant() -> None:
    program = parse(PRODUCT)
    (call,) = (s for s in walk(program.body) if isinstance(s, Call))
    assert priced_call(call, {}, program).packed
    kinds = {"c": "output", "a": "input", "b": "constant"}
    tensors = tuple(replace(t, kind=kinds[t.name]) for t in program.tensors)
    assert not priced_call(call, {}, replace(program, tensors=tensors)).packed
