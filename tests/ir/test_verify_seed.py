"""The rules of the seed stage: one change to a correct program, and the whole refusal."""

from __future__ import annotations

import pytest

from support.ir_stages import SEED, changed, refusal


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "def gemm(rows, depth)",
            "def gemm(rows, rid)",
            "gemm: parameter 'rid' has the name of a symbol of the mesh",
        ),
        (
            "a: tensor",
            "rows: tensor",
            "gemm: tensor 'rows' has the name of a parameter; give each its own name",
        ),
        (
            'a: tensor("f64"',
            'a: tensor("f8"',
            "gemm: tensor 'a' has the unknown element type 'f8'; "
            "use one of f64, f32, f16, bf16, i8, u8, i16, u16, i32, u32, i64, u64, bool or "
            "fixed point, as q8.8",
        ),
        (
            "m=rows, n=64",
            "m=rid, n=64",
            "gemm: the dimension 'm' of tensor 'c' is rid, but 'rid' is not a parameter; "
            "declarations may use rows, depth, mesh_rows, mesh_columns",
        ),
        (
            "m=rows, n=64",
            "m=rows, n=0",
            "gemm: the dimension 'n' of tensor 'c' is 0; it must be at least 1",
        ),
        (
            '"f64", "input", k=depth, n=64',
            '"f64", "input", storage(d), k=depth, n=64',
            "gemm: tensor 'b' shares the storage of 'd', which owns none; "
            "name a tensor that is declared without storage",
        ),
        (
            '"f64", "input", k=depth, n=64',
            '"f32", "input", storage(a), k=depth, n=64',
            "gemm: tensor 'b' of f32 shares the storage of 'a' of f64; "
            "give both the same element type",
        ),
        (
            "range(depth // 32)",
            "range(width // 32)",
            "gemm > for m > for k in range(width // 32): symbol 'width' is not defined here; "
            "known: rows, depth, m, rid, cid, mesh_rows, mesh_columns",
        ),
        (
            "range(depth // 32)",
            "range(rid)",
            "gemm > for m > for k in range(rid): "
            "the extent rid depends on 'rid', but all cores take the same path; "
            "let only the ranges of regions differ between cores",
        ),
        (
            "if depth == 0:",
            "if cid:",
            "gemm > for m > if cid: "
            "the condition cid depends on 'cid', but all cores take the same path; "
            "let only the ranges of regions differ between cores",
        ),
        (
            "for k in range",
            "for m in range",
            "gemm > for m > for m in range(depth // 32): "
            "loop variable 'm' has the name of a loop around it; give each its own name",
        ),
        (
            "for k in range",
            "for cid in range",
            "gemm > for m > for cid in range(depth // 32): "
            "loop variable 'cid' has the name of a symbol of the mesh; give each its own name",
        ),
        (
            "fill(c[",
            "fill(d[",
            'gemm > for m > if depth == 0 > fill(d[at(m * 64 + rid * 8, 8), at(cid * 8, 8)]("ab"), '
            "value=0.0): there is no tensor 'd'; the tensors are c, a, b",
        ),
        (
            "fill(c[at(m * 64 + rid * 8, 8), ",
            "fill(c[",
            'gemm > for m > if depth == 0 > fill(c[at(cid * 8, 8)]("ab"), value=0.0): '
            "tensor 'c' has 2 dimensions, its region has 1 ranges; give each dimension one range",
        ),
        (
            "fill(c[",
            "fill(a[",
            'gemm > for m > if depth == 0 > fill(a[at(m * 64 + rid * 8, 8), at(cid * 8, 8)]("ab"), '
            "value=0.0): tensor 'a' is an input and cannot be written",
        ),
        (
            'fill(c[at(m * 64 + rid * 8, 8), at(cid * 8, 8)]("ab"), value=0.0)',
            'fill(c_tile[0](shape=(8, 8), roles="ab"))',
            'gemm > for m > if depth == 0 > fill(c_tile[0](shape=(8, 8), roles="ab"), value=0.0): '
            'c_tile[0](shape=(8, 8), roles="ab") is a view, '
            "calls of the seed stage take tiles of tensors",
        ),
        (
            'fill(c[at(m * 64 + rid * 8, 8), at(cid * 8, 8)]("ab"), value=0.0)',
            "wait(c_tile[0])",
            "gemm > for m > if depth == 0 > wait(c_tile[0]): "
            "the seed stage has no transfers and no waits; "
            "calls work on tiles; transfers are inferred later",
        ),
        (
            'fill(c[at(m * 64 + rid * 8, 8), at(cid * 8, 8)]("ab"), value=0.0)',
            "get(c[m, 0], c_tile[0])",
            "gemm > for m > if depth == 0 > get(c[m, 0], c_tile[0]): "
            "the seed stage has no transfers and no waits; "
            "calls work on tiles; transfers are inferred later",
        ),
        (
            'fill(c[at(m * 64 + rid * 8, 8), at(cid * 8, 8)]("ab"), value=0.0)',
            'repack(c[m, 0](".."), c[m, 0](".."))',
            'gemm > for m > if depth == 0 > repack(c[m, 0](".."), c[m, 0]("..")): '
            "repack works on views of a buffer; use it from the staged stage on",
        ),
        (
            'fill(c[at(m * 64 + rid * 8, 8), at(cid * 8, 8)]("ab")',
            'fill(c[m, 0]("ab"), c[m, 0]("ab")',
            'gemm > for m > if depth == 0 > fill(c[m, 0]("ab"), c[m, 0]("ab"), value=0.0): '
            "fill takes 1 operand, found 2",
        ),
        (
            'fill(c[at(m * 64 + rid * 8, 8), at(cid * 8, 8)]("ab")',
            'fill(c[m, 0]("a")',
            'gemm > for m > if depth == 0 > fill(c[m, 0]("a"), value=0.0): '
            'c[m, 0]("a") has 2 dimensions and 1 roles; give each dimension one role',
        ),
        (
            'fill(c[at(m * 64 + rid * 8, 8), at(cid * 8, 8)]("ab")',
            'fill(c[m, 0]("a1")',
            'gemm > for m > if depth == 0 > fill(c[m, 0]("a1"), value=0.0): '
            "dimension 1 of c[m, 0](\"a1\") has the role '1'; a role is one letter, or . for none",
        ),
        (
            'fill(c[at(m * 64 + rid * 8, 8), at(cid * 8, 8)]("ab")',
            'fill(c[m, at(0, 8)]("a.")',
            'gemm > for m > if depth == 0 > fill(c[m, at(0, 8)]("a."), value=0.0): '
            'dimension 1 of c[m, at(0, 8)]("a.") has no role but extent 8; '
            "only a dimension of extent 1 goes without a role",
        ),
    ],
)
def test_seed_stage(old: str, new: str, message: str) -> None:
    assert refusal(changed(SEED, old, new), "seed") == message
