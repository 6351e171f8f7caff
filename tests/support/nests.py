"""A matrix product and a copy, as nests to try schedules on."""

from __future__ import annotations

from tilewright.common.expr import Var
from tilewright.seeds.nest import Nest, axis, nest, tensor

M, N, K = Var("m"), Var("n"), Var("k")
ROW, COL, DEPTH = axis("row", M), axis("col", N), axis("depth", K)
A, B = tensor("a", "input", rows=M, depth=K), tensor("b", "input", depth=K, cols=N)
C = tensor("c", "output", rows=M, cols=N)

PRODUCT = nest(
    "product",
    "gemm",
    (ROW, COL, DEPTH),
    {"m": ROW, "n": COL, "k": DEPTH},
    C.on("row, col"),
    A.on("row, depth"),
    B.on("depth, col"),
)
"""c = a b."""

_STEP, _TAP = axis("step", 4), axis("tap", 3, inner=True)
_X = tensor("x", "input", steps=4, rows=M, cols=N + 2)
_Y = tensor("y", "output", steps=4, rows=M, taps=3, cols=N)
WINDOWS: Nest = nest(
    "windows",
    "copy",
    (_STEP, ROW, COL, _TAP),
    {"p": ROW, "q": COL, "t": _TAP},
    _Y.on("step, row, tap, col"),
    _X.on("step, row, col + tap"),
)
"""Three neighbours of every element side by side: a loop, and an axis that a call takes whole."""
