"""The seed of batched matrix multiplication: a loop over the batch around the product."""

from __future__ import annotations

from functools import cache
from typing import Any

from tilewright.ops.gemm import BatchedMatmul
from tilewright.seeds.gemm import gemm_space, product_nest
from tilewright.seeds.nest import tensor
from tilewright.seeds.space import INTERFACES, NestInterface, Seed, layout, seed


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
    a = tensor("a", "input", "item=batch, rows=m, depth=k", operand=0)
    b = tensor("b", "input", "item=batch, depth=k, cols=n", operand=1)
    c = tensor("c", "output", "item=batch, rows=m, cols=n")
    product = product_nest("batched", c, a, b, "item")
    space = gemm_space(product, "row", "col", "depth")
    fixed = (
        layout(a, ("item", "depth", "rows") if transpose_a else ("item", "rows", "depth")),
        layout(b, ("item", "cols", "depth") if transpose_b else ("item", "depth", "cols")),
    )
    return Seed("batched", (a, b, c), (space,), fixed, ("a", "b"), "c")
