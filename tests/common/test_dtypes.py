"""Element types are looked up by name, and an unknown name is refused with the known ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.dtypes import DTYPES, FLOATS, INTEGERS, dtype
from tilewright.common.errors import ShapeError


@pytest.mark.parametrize("known", DTYPES, ids=str)
def test_size_and_numpy_type_agree(known):
    assert dtype(known.name) is known
    assert np.dtype(known.numpy).itemsize == known.size_bytes
    assert known.is_float == (known.numpy.type(0.5) == 0.5)


def test_floats_of_16_bits_are_computed_in_32():
    assert [kind.computed.name for kind in DTYPES[:4]] == ["f64", "f32", "f32", "f32"]


def test_c_names():
    assert [(known.name, known.c_name) for known in FLOATS] == [("f64", "double"), ("f32", "float")]
    assert [known.c_name for known in INTEGERS] == [
        "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long",
        "unsigned long",
    ]  # fmt: skip


@given(st.sampled_from([8, 16, 32, 64]), st.data())
def test_fixed_point_is_named_by_its_bits(bits, data):
    fraction = data.draw(st.integers(0, bits - 1))
    kind = dtype(f"q{bits - fraction}.{fraction}")
    assert (kind.kind, kind.fraction_bits, 8 * kind.size_bytes) == ("fixed", fraction, bits)
    assert kind.limits == (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    assert dtype(str(kind)) == kind
    assert kind.stored == dtype(f"i{bits}")


@pytest.mark.parametrize("name", ["f8", "q8", "q8.7", "q0.8", "q08.8", "q8.8 ", "q-8.16", "q٨.8"])
def test_unknown_name(name):
    with pytest.raises(ShapeError) as refusal:
        dtype(name)
    assert str(refusal.value) == (
        f"unknown element type {name!r}; "
        "use one of f64, f32, f16, bf16, i8, u8, i16, u16, i32, u32, i64, u64, bool or "
        "fixed point, as q8.8"
    )
