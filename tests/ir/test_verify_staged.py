"""The rules of the staged stage: one change to a correct program, and the whole refusal."""

from __future__ import annotations

import pytest

from support.ir_stages import STAGED, changed, refusal

GEMM = (
    "gemm > for m > for k > gemm("
    '{}c_tile[0](shape=(8, 8), roles="mn"), a_tile[0](shape=(4, 8), roles="km"), '
    'b_tile[1](shape=(4, 8), roles="kn"), vector="n"): '
)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'c_tile[0](shape=(8, 8), roles="mn")',
            'c_tile[0](shape=(8, 8), roles="mk")',
            GEMM.format("").replace('"mn"', '"mk"')
            + "operand 0 of gemm, c_tile[0](shape=(8, 8), roles=\"mk\"), has the axis 'k'; "
            "its axes are m, n",
        ),
        (
            'a_tile[0](shape=(4, 8), roles="km")',
            'a_tile[0](shape=(1, 8), roles=".m")',
            GEMM.format("").replace('(4, 8), roles="km"', '(1, 8), roles=".m"')
            + "operand 1 of gemm, a_tile[0](shape=(1, 8), roles=\".m\"), lacks the axis 'k'; "
            "give a dimension the role 'k'",
        ),
        (
            'c_tile[0](shape=(8, 8), roles="mn")',
            'c_tile[0](shape=(2, 4, 8), roles="bmn")',
            GEMM.format("").replace('(8, 8), roles="mn"', '(2, 4, 8), roles="bmn"')
            + "gemm has no axis 'b'; its axes are m, n and k",
        ),
        (
            'a_tile[0](shape=(4, 8), roles="km")',
            'a_tile[0](shape=(2, 8), roles="km")',
            GEMM.format("").replace('(4, 8), roles="km"', '(2, 8), roles="km"')
            + "axis 'k' has extent 2 in a_tile[0](shape=(2, 8), roles=\"km\") "
            'and 4 in b_tile[1](shape=(4, 8), roles="kn")',
        ),
        (
            'b_tile[1](shape=(4, 8), roles="kn")',
            'b_tile[1](shape=(2, 8, 2), roles="knk")',
            GEMM.format("").replace('(4, 8), roles="kn"', '(2, 8, 2), roles="knk"')
            + 'b_tile[1](shape=(2, 8, 2), roles="knk") is not a matrix: dimension 1: '
            "it lies between dimensions 0 and 2 of role 'k'; "
            "make the dimensions of role 'k' adjacent",
        ),
        (
            'b_tile[1](shape=(4, 8), roles="kn")',
            'b_tile[2](shape=(4, 8), roles="kn")',
            GEMM.format("").replace("b_tile[1]", "b_tile[2]")
            + "buffer 'b_tile' has 2 slots, there is no slot 2",
        ),
        (
            'b_tile[1](shape=(4, 8), roles="kn")',
            'b_tile[1](shape=(8, 8), roles="kn")',
            GEMM.format("").replace('(4, 8), roles="kn"', '(8, 8), roles="kn"')
            + "a tile of 64 elements does not fit a slot of 'b_tile' of 32; "
            "enlarge the buffer or shrink the tile",
        ),
        (
            'b_tile[1](shape=(4, 8), roles="kn")',
            'b_tile[1](at(1, 4), at(0, 8), shape=(4, 8), roles="kn")',
            GEMM.format("").replace("b_tile[1](", "b_tile[1](at(1, 4), at(0, 8), ")
            + 'b_tile[1](at(1, 4), at(0, 8), shape=(4, 8), roles="kn") reaches out of its tile in '
            "dimension 0: at(1, 4) of 4",
        ),
        (
            'b_tile[1](shape=(4, 8), roles="kn")',
            'b_tile[1](at(0, 4), at(-1, 8), shape=(4, 8), roles="kn")',
            GEMM.format("").replace("b_tile[1](", "b_tile[1](at(0, 4), at(-1, 8), ")
            + 'b_tile[1](at(0, 4), at(-1, 8), shape=(4, 8), roles="kn") reaches out of its tile in '
            "dimension 1: at(-1, 8) of 8",
        ),
        (
            'b_tile[1](shape=(4, 8), roles="kn")',
            'b_tile[1](at(0, 4), shape=(4, 8), roles="kn")',
            GEMM.format("").replace("b_tile[1](", "b_tile[1](at(0, 4), ")
            + 'b_tile[1](at(0, 4), shape=(4, 8), roles="kn") has 2 extents and 1 ranges; '
            "give each dimension one range",
        ),
        (
            'b_tile[1](shape=(4, 8), roles="kn")',
            'b_tile[cid % 2](shape=(4, 8), roles="kn")',
            GEMM.format("").replace("b_tile[1]", "b_tile[cid % 2]")
            + "the slot cid % 2 depends on 'cid', but all cores take the same path; "
            "let only the ranges of regions differ between cores",
        ),
        (
            'b_tile[1](shape=(4, 8), roles="kn")',
            'b[at(0, 4), at(0, 8)]("kn")',
            GEMM.format("").replace(
                'b_tile[1](shape=(4, 8), roles="kn")', 'b[at(0, 4), at(0, 8)]("kn")'
            )
            + 'b[at(0, 4), at(0, 8)]("kn") is a tile, calls of the staged stage take '
            "views of buffers",
        ),
        (
            "            wait(a_tile[0])\n",
            "",
            "gemm > for m > for k > "
            "get(a[at(k * 32 + cid * 4, 4), at(m * 64 + rid * 8, 8)], a_tile[0]): "
            "in the staged stage a transfer is followed by its wait; put wait(a_tile[0]) after it",
        ),
        (
            "            wait(b_tile[1])\n",
            "            wait(b_tile[0])\n",
            "gemm > for m > for k > "
            "get(b[at(k * 32 + rid * 4, min(4, depth - k * 32)), at(cid * 8, 8)], b_tile[1]): "
            "in the staged stage a transfer is followed by its wait; put wait(b_tile[1]) after it",
        ),
        (
            "a_tile[0])\n            wait(a_tile[0])",
            "d_tile[0])\n            wait(d_tile[0])",
            "gemm > for m > for k > "
            "get(a[at(k * 32 + cid * 4, 4), at(m * 64 + rid * 8, 8)], d_tile[0]): "
            "there is no buffer 'd_tile'; the buffers are c_tile, a_tile, b_tile",
        ),
        (
            "get(a[at(k * 32 + cid * 4, 4),",
            "get(a[at(k * 32 + cid * 4, 8),",
            "gemm > for m > for k > "
            "get(a[at(k * 32 + cid * 4, 8), at(m * 64 + rid * 8, 8)], a_tile[0]): "
            "a tile of 64 elements does not fit a slot of 'a_tile' of 32; "
            "enlarge the buffer or shrink the tile",
        ),
        (
            'a_tile: buffer("f64"',
            'a_tile: buffer("f32"',
            "gemm > for m > for k > "
            "get(a[at(k * 32 + cid * 4, 4), at(m * 64 + rid * 8, 8)], a_tile[0]): "
            "tensor 'a' of f64 moves to or from buffer 'a_tile' of f32; "
            "a transfer does not convert: give both the same element type",
        ),
        (
            "put(c_tile[0], c[",
            "put(c_tile[0], a[",
            "gemm > for m > put(c_tile[0], a[at(m * 64 + rid * 8, 8), at(cid * 8, 8)]): "
            "tensor 'a' is an input and cannot be written",
        ),
        (
            "put(c_tile[0], c[at(m * 64 + rid * 8, 8), at(cid * 8, 8)])",
            "get(c[at(m * 64 + rid * 8, 8), at(cid * 8, 8)], c_tile[0])",
            "gemm: output 'c' is never written; every output needs a put that writes it",
        ),
        (
            'b_tile[1](shape=(min(4, depth - k * 32), 8), roles="ab")',
            'b_tile[0](shape=(4, 8), roles="ab")',
            "gemm > for m > for k > if depth < k * 32 + 32 > "
            'repack(b_tile[1](shape=(4, 8), roles="ab"), b_tile[0](shape=(4, 8), roles="ab")): '
            "repack works inside one slot, found b_tile[1] and b_tile[0]",
        ),
        (
            'b_tile[1](shape=(min(4, depth - k * 32), 8), roles="ab")',
            'b_tile[1](shape=(4, 8), roles="ba")',
            "gemm > for m > for k > if depth < k * 32 + 32 > "
            'repack(b_tile[1](shape=(4, 8), roles="ab"), b_tile[1](shape=(4, 8), roles="ba")): '
            "repack keeps the axes, found 'ba' before and 'ab' after; "
            "give both views the same roles",
        ),
        (
            'scale_add(c_tile[0](shape=(8, 8), roles="ab"), ',
            "scale_add(",
            "gemm > for m > scale_add(alpha=2.0, beta=1.0): "
            "scale_add takes at least 1 operand, found 0",
        ),
        (
            "for m in range(rows // 64):",
            "for m in range(2147483648):",
            "gemm > for m in range(2147483648): a loop runs at most 2147483647 times",
        ),
        (
            "copies=a_copies",
            "copies=0",
            "gemm: the number of copies of buffer 'a_tile' is 0; it must be at least 1",
        ),
        (
            'c_tile: buffer("f64", 64)',
            'c_tile: buffer("f64", m)',
            "gemm: the slot of buffer 'c_tile' is m, but 'm' is not a parameter; "
            "declarations may use rows, depth, a_copies, mesh_rows, mesh_columns",
        ),
        (
            'c_tile: buffer("f64", 64)',
            'c_tile: buffer("f64", 64, offset_bytes=0)',
            "gemm: buffer 'c_tile' has an address and buffer 'a_tile' has none; "
            "place all buffers or none",
        ),
    ],
)
def test_staged_stage(old: str, new: str, message: str) -> None:
    assert refusal(changed(STAGED, old, new), "staged") == message
