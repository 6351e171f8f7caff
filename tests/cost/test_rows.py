"""The rows of a map: what `mapped_rows` says of a call's operands."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.common.expr import Const, Expr, Var, evaluate
from tilewright.cost.rows import mapped_rows
from tilewright.ir.nodes import Call, View, at
from tilewright.ir.primitives import Map


def view(roles: str, *extents: int | Expr, shape: tuple[int | Expr, ...] = ()) -> View:
    sizes = tuple(e if isinstance(e, Expr) else Const(e) for e in shape or extents)
    return View("tile", Const(0), sizes, tuple(at(0, e) for e in extents), roles)


def rows(*views: View, **bindings: object) -> dict[str, object]:
    found = mapped_rows(Call(Map("x0"), views))
    return {name: evaluate(e, bindings) for name, e in found.items()}


@pytest.mark.parametrize(
    ("views", "row", "still", "by_vectors"),
    [
        ((view("ab", 6, 16), view("ab", 6, 16)), 96, 0, True),
        ((view("ab", 6, 8, shape=(6, 16)), view("ab", 6, 8)), 8, 0, True),
        ((view("ab", 6, 8, shape=(6, 18)), view("ab", 6, 8)), 8, 0, False),
        ((view("ab", 7, 9), view("ab", 7, 9)), 63, 0, False),
        ((view("ab", 8, 16), view("ba", 16, 8)), 16, 0, False),
        ((view("cs", 5, 32), view("cs", 5, 32), view("c", 5)), 32, 2, True),
        ((view("chw", 5, 4, 3), view("chw", 5, 4, 3), view("c", 5)), 12, 2, True),
        ((view("sc", 5, 32), view("sc", 5, 32), view("c", 32)), 32, 0, True),
        ((view("ab", 1, 1), view("ab", 1, 1)), 1, 0, False),
    ],
)
def test_rows_join_while_every_operand_walks_over_them_as_over_one(
    views: tuple[View, ...], row: int, still: int, by_vectors: bool
) -> None:
    assert rows(*views) == {"row": row, "still": 1 + still, "by_vectors": 1 + by_vectors}


def test_an_axis_of_one_index_leaves_its_place_to_the_next() -> None:
    """Images innermost, then the channels that a bias belongs to."""
    n = Var("n")
    found = rows(view("sci", 5, 8, n), view("sci", 5, 8, n), view("c", 8), n=np.array([1, 4]))
    assert {name: np.asarray(value).tolist() for name, value in found.items()} == {
        "row": [8, 4],
        "still": [1, 3],
        "by_vectors": [2, 2],
    }
