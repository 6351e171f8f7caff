"""The seed of batched matrix multiplication: a loop over the batch around the product."""

from __future__ import annotations

from functools import cache
from typing import Any

from tilewright.common.expr import Var
from tilewright.ops.gemm import BatchedMatmul
from tilewright.seeds.gemm import K, M, N, gemm_space, product_nest
from tilewright.seeds.nest import axis, tensor
from tilewright.seeds.space import INTERFACES, NestInterface, Seed, layout, seed

BATCH = Var("batch")


def _arrange(op: BatchedMatmul, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    a, b = operands
    return (
        a.transpose(0, 2, 1) if op.transpose_a else a,
        b.transpose(0, 2, 1) if op.transpose_b else b,
    )


INTERFACES["batched_matmul"] = NestInterface(
    "batched_matmul",
    lambda op: {"batch": op.batch, "m": op.m, "n": op.n, "k": op.k},
    _arrange,
    lambda op, c: c,
)


@seed("batched_matmul", name="batched")
def batched(op: BatchedMatmul) -> Seed:
    """C[i] = A[i] B[i], the batch outside, tiles in the three dimensions of a product."""
    return _seed(op.transpose_a, op.transpose_b)


@cache
def _seed(transpose_a: bool, transpose_b: bool) -> Seed:
    item = axis("item", BATCH)
    a = tensor("a", "input", operand=0, item=BATCH, rows=M, depth=K)
    b = tensor("b", "input", operand=1, item=BATCH, depth=K, cols=N)
    c = tensor("c", "output", item=BATCH, rows=M, cols=N)
    product = product_nest("batched", c, a, b, item)
    space = gemm_space(product, "row", "col", "depth")
    fixed = (
        layout(a, ("item", "depth", "rows") if transpose_a else ("item", "rows", "depth")),
        layout(b, ("item", "cols", "depth") if transpose_b else ("item", "depth", "cols")),
    )
    return Seed("batched", (a, b, c), (space,), fixed, ("a", "b"), "c")
