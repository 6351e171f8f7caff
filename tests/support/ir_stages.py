"""One correct program per stage, and the ways to break it and to see it refused."""

from __future__ import annotations

import pytest

from tilewright.common.errors import ProgramError
from tilewright.ir.nodes import Program
from tilewright.ir.parser import parse
from tilewright.ir.verify import Stage, verify

SEED = """\
def gemm(rows, depth):
    c: tensor("f64", "output", m=rows, n=64)
    a: tensor("f64", "input", k=depth, m=rows)
    b: tensor("f64", "input", k=depth, n=64)
    for m in range(rows // 64):
        if depth == 0:
            fill(c[at(m * 64 + rid * 8, 8), at(cid * 8, 8)]("ab"), value=0.0)
        for k in range(depth // 32):
            gemm(
                c[at(m * 64 + rid * 8, 8), at(cid * 8, 8)]("mn"),
                a[at(k * 32 + cid * 4, 4), at(m * 64 + rid * 8, 8)]("km"),
                b[at(k * 32 + rid * 4, 4), at(cid * 8, 8)]("kn"),
                vector="n",
            )
"""

STAGED = """\
def gemm(rows, depth, a_copies):
    c: tensor("f64", "output", m=rows, n=64)
    a: tensor("f64", "input", k=depth, m=rows)
    b: tensor("f64", "input", k=depth, n=64)
    c_tile: buffer("f64", 64)
    a_tile: buffer("f64", 32, copies=a_copies)
    b_tile: buffer("f64", 32, copies=2)
    for m in range(rows // 64):
        fill(c_tile[0](shape=(8, 8), roles="ab"), value=0.0)
        for k in range(depth // 32):
            get(a[at(k * 32 + cid * 4, 4), at(m * 64 + rid * 8, 8)], a_tile[0])
            wait(a_tile[0])
            get(b[at(k * 32 + rid * 4, min(4, depth - k * 32)), at(cid * 8, 8)], b_tile[1])
            wait(b_tile[1])
            if depth < k * 32 + 32:
                repack(
                    b_tile[1](shape=(4, 8), roles="ab"),
                    b_tile[1](shape=(min(4, depth - k * 32), 8), roles="ab"),
                )
            gemm(
                c_tile[0](shape=(8, 8), roles="mn"),
                a_tile[0](shape=(4, 8), roles="km"),
                b_tile[1](shape=(4, 8), roles="kn"),
                vector="n",
            )
        scale_add(c_tile[0](shape=(8, 8), roles="ab"), alpha=2.0)
        put(c_tile[0], c[at(m * 64 + rid * 8, 8), at(cid * 8, 8)])
        wait(c_tile[0])
"""

EXPLICIT = """\
def add():
    y: tensor("f64", "output", rows=8, batch=64)
    y_flat: tensor("f64", "scratch", storage(y), elements=512)
    x: tensor("f64", "input", rows=8, batch=64)
    y_tile: buffer("f64", 8, offset_bytes=128)
    x_tile: buffer("f64", 8, copies=2, offset_bytes=0)
    z_tile: buffer("f64", 8, offset_bytes=0)
    get(x[rid, at(cid * 8, 8)], x_tile[0])
    copy(y_tile[0](shape=(1, 8), roles="ab"), y_tile[0](shape=(1, 8), roles="ab"))
    wait(x_tile[0])
    scale_add(y_tile[0](shape=(1, 8), roles="ab"), x_tile[0](shape=(8,), roles="b"), beta=1.0)
    put(y_tile[0], y_flat[at(rid * 64 + cid * 8, 8)])
    wait(y_tile[0])
    barrier()
    fill(z_tile[0](shape=(8,), roles="a"))
"""


def changed(text: str, old: str, new: str) -> Program:
    """The program of `text` with one place changed."""
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times"
    return parse(text.replace(old, new))


def refusal(program: Program, stage: Stage) -> str:
    """The whole message with which the verifier refuses the program."""
    with pytest.raises(ProgramError) as caught:
        verify(program, stage)
    return str(caught.value)
