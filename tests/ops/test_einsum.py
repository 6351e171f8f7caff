"""Einstein summations: NumPy's meaning, and what is no equation."""

import numpy as np
import pytest

from tilewright.common.errors import ShapeError
from tilewright.ops.notation import einsum


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ij,jk->ki", [(2, 3), (3, 4)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("ij->", [(2, 3)]),
        ("i,i", [(3,), (3,)]),
        ("i,j->ij", [(3,), (4,)]),
        ("ijk,jr,kr->ir", [(2, 3, 4), (3, 5), (4, 5)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (4, 5, 3, 2)]),
        ("...i,...i->...", [(1, 4, 3), (5, 1, 3)]),
        (" a b , b ", [(2, 3), (3,)]),
    ],
)
def test_the_meaning_is_that_of_numpy(equation, shapes):
    rng = np.random.default_rng(0)
    operands = [rng.integers(-3, 4, shape).astype(float) for shape in shapes]
    expected = np.einsum(equation, *operands)
    found = einsum(equation, shapes).reference(*operands)
    assert found.shape == expected.shape
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk", [(2, 3)], "'ij,jk' has 2 terms, 1 tensors are given"),
        ("ij,jk", [(2, 3), (4, 5)], "'ij,jk': 'j' has 4 steps in 'jk' and 3 before"),
        ("ij->ik", [(2, 3)], "'ij->ik': the result 'ik' takes each of the terms' letters once"),
        ("ij->ii", [(2, 3)], "'ij->ii': the result 'ii' takes each of the terms' letters once"),
        ("i1", [(2, 3)], "'i1': 'i1' is no term, letters and one ellipsis at most"),
        ("ijk", [(2, 3)], "'ijk': 'ijk' does not name 2 dimensions"),
        ("...ijk", [(2, 3)], "'...ijk': '...ijk' does not name 2 dimensions"),
    ],
)
def test_what_is_no_equation(equation, shapes, message):
    with pytest.raises(ShapeError) as refused:
        einsum(equation, shapes)
    assert str(refused.value) == message
