"""Seeds of matrix multiplication: three loops around the primitive, plus one over a batch."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from tilewright.common.expr import Var
from tilewright.ir.nodes import TensorKind
from tilewright.ir.primitives import ScaleAdd
from tilewright.ops import Gemm
from tilewright.ops.gemm import BatchedMatmul
from tilewright.seeds.nest import Nest, TensorSpec, TileEpilogue, nest, tensor
from tilewright.seeds.space import INTERFACES, NestInterface, Seed, Space, layout, seed
from tilewright.seeds.steps import IN_PLACE, Stage

M, N, K = Var("m"), Var("n"), Var("k")


def _arrange(op: Gemm | BatchedMatmul, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    a, b, *c = operands
    turned = ((a, op.transpose_a), (b, op.transpose_b))
    return (*(x.swapaxes(-1, -2) if transposed else x for x, transposed in turned), *c)


INTERFACES["gemm"] = NestInterface(
    "gemm", lambda op: {"m": op.m, "n": op.n, "k": op.k}, _arrange, lambda op, c: c
)


@seed("gemm", name="gemm")
def gemm(op: Gemm) -> Seed:
    """C = alpha A B + beta C, tiled in m, n and k; integers accumulate into C in place."""
    if op.beta and not op.numerics.is_float:
        return _update_seed(op.transpose_a, op.transpose_b)
    return gemm_seed("gemm", "input", op.transpose_a, op.transpose_b, op.alpha, op.beta)


@seed("gemm", name="prepacked", baseline=True)
def prepacked(op: Gemm) -> Seed:
    """C = alpha A B + beta C with a constant B, such as weights: read in place, and packed ahead of
    all calls if vectors run along it. For machines whose cores address main memory. The operator
    does not say that B is constant, so callers choose this seed by name.
    """
    return gemm_seed("prepacked", "constant", op.transpose_a, op.transpose_b, op.alpha, op.beta)


@cache
def gemm_seed(
    name: str, b_kind: TensorKind, transpose_a: bool, transpose_b: bool, alpha: float, beta: float
) -> Seed:
    """The seed `name` of products whose B is an input or a constant, as `b_kind` says."""
    a = tensor("a", "input", operand=0, rows=M, depth=K)
    b = tensor("b", b_kind, operand=1, depth=K, cols=N)
    c = tensor("c", "output", rows=M, cols=N)
    addend = tensor("addend", "input", operand=2, rows=M, cols=N)
    product = product_nest("gemm", c, a, b)
    if (alpha, beta) != (1.0, 0.0):
        added = (replace(product.output, tensor=addend),) if beta else ()
        product = replace(product, epilogue=TileEpilogue(ScaleAdd(alpha, beta), added))
    space = gemm_space(product, "row", "col", "depth", inner_only=product.epilogue is not None)
    if b_kind == "constant":
        space = replace(space, addressed=("c", "a")).choose((Stage("b", IN_PLACE),))
        space = space.limit(largest=4096, most=8)
    operands = ("a", "b", "addend") if beta else ("a", "b")
    by_rows, by_columns = ("depth", "cols"), ("cols", "depth")
    given = by_columns if transpose_b else by_rows
    fixed = (
        layout(a, ("depth", "rows") if transpose_a else ("rows", "depth")),
        # A constant is brought into any order beforehand.
        layout(b, *((by_rows, by_columns) if b_kind == "constant" else (given,))),
    )
    tensors = (a, b, c, addend) if beta else (a, b, c)
    return Seed(name, tensors, (space,), fixed, operands, "c")


@cache
def _update_seed(transpose_a: bool, transpose_b: bool) -> Seed:
    """C += A B, with C updated in place."""
    plain = gemm_seed("gemm", "input", transpose_a, transpose_b, 1.0, 0.0)
    *factors, c = plain.tensors
    c = replace(c, kind="updated")
    (space,) = plain.spaces
    updated = replace(space.nest, output=replace(space.nest.output, tensor=c))
    space = replace(space, nest=updated, addressed=("a", "b"), doubled=("a", "b"))
    space = space.choose((Stage("c", IN_PLACE),))
    return replace(plain, tensors=(*factors, c), spaces=(space,), operands=("a", "b", "c"))


def product_nest(
    name: str,
    c: TensorSpec,
    a: TensorSpec,
    b: TensorSpec,
    outer: str = "",
    axes: tuple[str, str, str] = ("row", "col", "depth"),
) -> Nest:
    """The product over axes m, n, k, inside loops over the `outer` axes."""
    m, n, k = axes
    places = (", ".join((*outer.split(), *own)) for own in ((m, n), (m, k), (k, n)))
    uses = (matrix.on(place) for matrix, place in zip((c, a, b), places, strict=True))
    return nest(name, "gemm", f"{outer} {m} {n} {k}", {"m": m, "n": n, "k": k}, *uses)


def gemm_space(
    product: Nest, m: str, n: str, k: str, *, inner_only: bool = False, most: int = 8
) -> Space:
    """The space of a plain matrix product over axes m, n, k, inside loops over all other axes."""
    orders = [(m, n, k), (n, m, k)]
    if not inner_only:
        orders += [(k, m, n), (n, k, m), (m, k, n)]
    outer = tuple(a.name for a in product.axes if a.name not in (m, n, k))
    return (
        Space(product)
        .split(m, n, k)
        .spread(m, "rows")
        .spread(n, "columns")
        .spread(k, "both")
        .reorder(*((*outer, *order) for order in orders))
        .vectorize("m", "n")
        .prefetch(*(u.tensor for u in product.uses))
        .in_place(*(u.tensor for u in product.uses))
        .limit(largest=1024, most=most)
    )


def inner_space(
    name: str, c: TensorSpec, a: TensorSpec, b: TensorSpec, outer: str, axes: tuple[str, str, str]
) -> Space:
    """The space of a product inside loops over the `outer` axes, as a step of a longer algorithm:
    with few orders of loops and few tiles.
    """
    product = product_nest(name, c, a, b, outer, axes)
    return gemm_space(product, *axes, inner_only=True, most=4)


# Batched matrix multiplication: a loop over the batch around the product.


INTERFACES["batched_matmul"] = NestInterface(
    "batched_matmul",
    lambda op: {"batch": op.batch, "m": op.m, "n": op.n, "k": op.k},
    _arrange,
    lambda op, c: c,
)


@seed("batched_matmul", name="batched")
def batched(op: BatchedMatmul) -> Seed:
    """C[i] = A[i] B[i]: the batch outside, tiles in the three dimensions of the product."""
    return _batched_seed(op.transpose_a, op.transpose_b)


@cache
def _batched_seed(transpose_a: bool, transpose_b: bool) -> Seed:
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
