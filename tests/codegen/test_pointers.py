"""Addresses in the text of calls."""

from types import SimpleNamespace

from tilewright.codegen.c.elementwise_calls import CallContext
from tilewright.codegen.c.expression import Scope
from tilewright.codegen.c.writer import CWriter
from tilewright.common.expr import Const, Var


def test_an_address_is_so_many_elements_into_its_slot():
    program = SimpleNamespace(buffer=lambda _: SimpleNamespace(elements=Const(16)))
    naming = SimpleNamespace(buffers={"b": "b_tile"}, tensors={"x": "x_data"})
    context = CallContext(program, naming, Scope({"i": "i"}, {"i": (0, 3)}), CWriter())

    def address(buffer, slot, offset):
        return context.pointer(SimpleNamespace(buffer=buffer, slot=slot), offset)

    assert address("b", Const(2), Const(5)) == "b_tile + 37"
    assert address("b", Const(0), Const(0)) == "b_tile"
    assert address("b", Var("i"), Const(5)) == "b_tile + i * 16 + 5"
    assert address("x", Const(2), Const(5)) == "x_data + 5"
