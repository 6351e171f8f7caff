"""Programs of integers: their meaning, what the verifier refuses, elements that nothing wrote."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.ir.interpret import interpret
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.ir.verify import verify
from tilewright.ops.numerics import Numerics

PRODUCT = """\
def product():
    a: tensor("{a}", "input", rows=2, depth=3)
    b: tensor("{b}", "input", depth=3, cols=4)
    c: tensor("{c}", "output", rows=2, cols=4)
    a_tile: buffer("{a}", 8)
    b_tile: buffer("{b}", 16)
    sums: buffer("{sums}", 8)
    c_tile: buffer("{c}", 8)
    get(a[at(0, 2), at(0, 3)], a_tile[0])
    wait(a_tile[0])
    get(b[at(0, 3), at(0, 4)], b_tile[0])
    wait(b_tile[0])
    fill(sums[0](shape=(2, 4), roles="ab"), value=0.0)
    gemm(
        sums[0](shape=(2, 4), roles="mn"),
        a_tile[0](shape=(2, 3), roles="mk"),
        b_tile[0](shape=(3, 4), roles="kn"),
    )
    requantise(
        c_tile[0](shape=(2, 4), roles="ab"),
        sums[0](shape=(2, 4), roles="ab"),
        shift={shift},
        rounding="{rounding}",
        saturate={saturate},
    )
    put(c_tile[0], c[at(0, 2), at(0, 4)])
    wait(c_tile[0])
"""
TYPES = (
    "i8,u8:i32:i16",
    "i16:i32",
    "i16:i32:i16:floor:wrap",
    "q8.8:q16.16:q8.8",
    "q8.8,q4.4:q20.12:q8.8:half_up",
    "i32:i64:i8:zero:wrap",
)


def _program(numerics):
    a, b = numerics.operands
    return parse(
        PRODUCT.format(
            a=a,
            b=b,
            c=numerics.result,
            sums=numerics.sums,
            shift=numerics.shift,
            rounding=numerics.rounding,
            saturate=int(numerics.saturate),
        )
    )


@given(st.sampled_from(TYPES), st.integers(0, 2**32))
def test_meaning_is_exact_sums_and_one_rounding(text, seed):
    numerics = Numerics.parse(text, 2)
    program = _program(numerics)
    verify(program, "staged")
    assert parse(print_program(program)) == program
    generator = np.random.default_rng(seed)
    a, b = (
        generator.integers(*kind.limits, shape, kind.numpy, endpoint=True)
        for kind, shape in zip(numerics.operands, ((2, 3), (3, 4)), strict=True)
    )
    found = interpret(program, {"a": a, "b": b}, mesh=(1, 1))["c"]
    exact = a.astype(object) @ b.astype(object)
    wide = ((exact + 2**63) % 2**64 - 2**63).astype(np.int64)
    assert found.dtype == numerics.result.numpy
    assert np.array_equal(found, numerics.write_back(wide))


@pytest.mark.parametrize("kind", ["i8", "u8", "i16", "i32", "i64", "q8.8", "f32", "f64"])
def test_what_is_moved_keeps_its_bits(kind):
    """Zeros outside the tensor, the largest elements unchanged inside."""
    program = parse(f"""\
def move():
    x: tensor("{kind}", "input", cols=3)
    y: tensor("{kind}", "output", cols=5)
    tile: buffer("{kind}", 8)
    get(x[at(-1, 5)], tile[0])
    wait(tile[0])
    put(tile[0], y[at(0, 5)])
    wait(tile[0])
""")
    element = dtype(kind)
    low, high = (-(2**20), 2**20) if element.is_float else element.limits
    x = np.array([low, 1, high], element.numpy)
    found = interpret(program, {"x": x}, mesh=(1, 1))["y"]
    assert (found.dtype, found.tolist()) == (element.numpy, [0, low, 1, high, 0])


UNWRITTEN = """\
def unwritten():
    x: tensor("{kind}", "input", cols=2)
    y: tensor("{kind}", "output", cols=4)
    x_tile: buffer("{kind}", 8)
    y_tile: buffer("{kind}", 8)
    get(x[at(0, 2)], x_tile[0])
    wait(x_tile[0])
    {statement}
    put(y_tile[0], y[at(0, 4)])
    wait(y_tile[0])
"""
STATEMENTS = {
    "copy": 'copy(y_tile[0](shape=(4,), roles="a"), x_tile[0](shape=(4,), roles="a"))',
    "scale_add": 'scale_add(y_tile[0](at(0, 2), shape=(4,), roles="a"), '
    'x_tile[0](at(0, 2), shape=(4,), roles="a"))',
    "fill": 'fill(y_tile[0](at(1, 3), shape=(4,), roles="a"), value=7.0)',
    "nothing": "",
}


@pytest.mark.parametrize(
    ("name", "missing"), [("copy", [2, 3]), ("scale_add", [0, 1, 2, 3]), ("fill", [0]),
                          ("nothing", [0, 1, 2, 3])],
)  # fmt: skip
def test_what_depends_on_unwritten_elements_is_known(name, missing):
    x = np.array([1, 2])
    text = UNWRITTEN.format(kind="f64", statement=STATEMENTS[name])
    found = interpret(parse(text), {"x": x}, mesh=(1, 1))["y"]
    assert np.flatnonzero(np.isnan(found)).tolist() == missing
    with pytest.raises(ProgramError) as refusal:
        interpret(parse(text.replace("f64", "i16")), {"x": x}, mesh=(1, 1))
    assert str(refusal.value) == (
        f"y[{missing[0]}] depends on an element that nothing has written; "
        f"{len(missing)} of 4 elements do; fill or fetch what is read first"
    )


def test_a_product_of_unwritten_elements_is_unwritten():
    """A row of A that is missing is a row of C that is."""
    text = PRODUCT.format(
        a="i16", b="i16", sums="i32", c="i32", shift=0, rounding="even", saturate=1
    )
    text = text.replace("get(a[at(0, 2), at(0, 3)], a_tile[0])", "get(a[0, at(0, 3)], a_tile[0])")
    given = {"a": np.ones((2, 3), np.int16), "b": np.ones((3, 4), np.int16)}
    with pytest.raises(ProgramError) as refusal:
        interpret(parse(text), given, mesh=(1, 1))
    assert str(refusal.value) == (
        "c[1, 0] depends on an element that nothing has written; "
        "4 of 8 elements do; fill or fetch what is read first"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("a", "f32"), 'a_tile[0](shape=(2, 3), roles="mk") is of f32, the first operand of gemm '
         "of i32; give both one element type"),
        (("a", "i64"), 'a_tile[0](shape=(2, 3), roles="mk") is of i64, wider than the sums of i32; '
         "give the sums as many bits"),
        (("a", "q8.8"), "products of q8.8 and i16 have 8 fraction bits, the sums of i32 have 0; "
         "give the sums as many"),
        (("shift", 3), "requantise shifts i32 by 3 bits, to i16 it is 0; shift=0"),
        (("rounding", "up"), "requantise: rounding is 'up'; "
         "give 'even' or 'half_up' or 'floor' or 'zero'"),
        (("c", "f32"), "requantise makes integers of integers, not f32 of i32"),
    ],
)  # fmt: skip
def test_refused_types(change, message):
    names = {"a": "i16", "b": "i16", "sums": "i32", "c": "i16"}
    settings = {**names, "shift": 0, "rounding": "even", "saturate": 1, **dict([change])}
    with pytest.raises(ProgramError) as refusal:
        verify(parse(PRODUCT.format(**settings)), "staged")
    assert str(refusal.value).endswith(message)


def test_a_map_has_an_operand_for_each_that_its_expression_reads():
    text = """\
def f():
    y: tensor("f32", "output", rows=4)
    x: tensor("f32", "input", rows=4)
    map(y[at(0, 4)]("p"), x[at(0, 4)]("p"), expression="x0 * x0")
"""
    verify(parse(text), "seed")
    with pytest.raises(ProgramError) as caught:
        verify(parse(text.replace("x0 * x0", "x0 * x1")), "seed")
    assert caught.value.message == "map of 'x0 * x1' reads 2 operands, found 1"


def test_integers_have_whole_attributes_and_floats_any():
    text = PRODUCT.format(
        a="i16", b="i16", c="i16", sums="i32", shift=0, rounding="floor", saturate=0
    )
    verify(parse(text.replace("value=0.0", "value=2.0")), "scheduled")
    with pytest.raises(ProgramError) as caught:
        verify(parse(text.replace("value=0.0", "value=0.5")), "scheduled")
    assert caught.value.message == "fill of i32 has value = 0.5"
    assert caught.value.fix == "give a whole number"
    alone = """\
def f():
    y: tensor("f32", "output", rows=4)
    t: buffer("f32", 4)
    fill(t[0](shape=(4,), roles="a"), value=0.5)
    put(t[0], y[at(0, 4)])
    wait(t[0])
"""
    verify(parse(alone), "scheduled")
