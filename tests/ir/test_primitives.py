"""Primitives as objects: what they say of themselves, and that a family can bring its own."""

import sys
from typing import ClassVar

import numpy as np
import pytest

from support.packages import installed_family
from tilewright.common.errors import ProgramError
from tilewright.ir.parser import parse
from tilewright.ir.primitive import Argument, Primitive
from tilewright.ir.primitives import (
    Copy,
    Fill,
    Map,
    MatrixProduct,
    MultiplyAccumulate,
    Reduce,
    Repack,
    ScaleAdd,
    WinogradOutput,
    register,
    registry,
    unregister,
)
from tilewright.ir.printer import print_program


def test_what_primitives_do_with_their_first_operand():
    every = (MatrixProduct(), ScaleAdd(), MultiplyAccumulate(), Repack())
    assert all(p.accumulates for p in every)
    assert [p.replaces for p in (Copy(), WinogradOutput(2), Fill(), MatrixProduct())] == [
        True,
        True,
        False,
        False,
    ]


def test_only_products_count_towards_the_peak():
    dims = {"m": 2, "n": 3, "k": 5, "elements": 6, "run": 6}
    assert MatrixProduct().flops(dims, 8) == 2 * 2 * 3 * 5 * 8
    assert Copy().flops(dims, 8) == 0


def test_buffers_of_a_product_are_renamed_with_it():
    product = MatrixProduct("m", workspace="w")
    assert product.buffers() == ("w",)
    assert product.renamed(str.upper) == MatrixProduct("m", workspace="W")
    assert Copy().renamed(str.upper) == Copy()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wait", "'wait' is a statement and cannot name a primitive"),
        (
            "two words",
            "primitive 'two words' is not an identifier; "
            "use ASCII letters, digits and underscores, no leading digit and no Python keyword",
        ),
        (
            "copy",
            "two primitives are called 'copy': tilewright.ir.primitives.elementwise.Copy and "
            "test_primitives.Other; rename one of them",
        ),
    ],
)
def test_names_that_a_primitive_cannot_have(name, message):
    kind = type(Primitive)(
        "Other",
        (Primitive,),
        {"__module__": "test_primitives", "name": name, "__annotations__": {"name": ClassVar[str]}},
    )
    with pytest.raises(ProgramError) as error:
        register(kind)
    assert str(error.value) == message


SORT = '''
from typing import ClassVar

from tilewright.ir.primitive import Argument, Primitive
from tilewright.ir.primitives import register


@register
class Sort(Primitive, frozen=True):
    """y = x in order."""

    name: ClassVar[str] = "sort"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("", "writes"), Argument(""))

    descending: int = 0
'''


def test_a_family_brings_a_primitive_of_its_own(tmp_path, monkeypatch):
    installed_family(tmp_path, monkeypatch, "sorter", {"primitives.py": SORT})
    registry._load_brought.cache_clear()
    tile = '[0](shape=(4,), roles="a")'
    text = f"def p():\n    sort(y{tile}, x{tile}, descending=1)\n"
    try:
        program = parse(text)
    finally:
        unregister("sort")
        sys.modules.pop("sorter.primitives", None)
        registry._load_brought.cache_clear()
    assert print_program(program) == text
    assert program.body[0].primitive.arguments == (Argument("", "writes"), Argument(""))


def test_a_sum_depends_on_all_of_its_terms_and_on_what_was_there():
    y, x = np.zeros((1, 1, 3)), np.zeros((1, 1, 4, 3))
    y[0, 0, 0] = x[0, 0, 2, 1] = np.nan
    found = Reduce("largest").dependence((y, x))
    assert np.isnan(found).tolist() == [[[True, True, False]]]


def test_a_map_depends_on_every_element_beside_it_and_on_no_other():
    y, a, b = (np.zeros((2, 3)) for _ in range(3))
    a[0, 1] = b[1, 2] = np.nan
    found = Map("x0 if x0 > x1 else 0").dependence((y, a, b))
    assert np.array_equal(np.isnan(found), np.isnan(a) | np.isnan(b))
