"""Element types are looked up by name, and an unknown name is refused with the known ones."""

import numpy as np
import pytest

from tilewright.common.dtypes import DTYPES, dtype
from tilewright.common.errors import ShapeError


@pytest.mark.parametrize("known", DTYPES, ids=str)
def test_size_and_numpy_type_agree(known):
    assert dtype(known.name) is known
    assert np.dtype(known.numpy).itemsize == known.size_bytes


def test_c_names():
    assert [(known.name, known.c_name) for known in DTYPES] == [("f64", "double"), ("f32", "float")]


def test_unknown_name():
    with pytest.raises(ShapeError) as refusal:
        dtype("f16")
    assert str(refusal.value) == "unknown element type 'f16'; use one of f64, f32"
