"""Packing puts every element where the micro-kernels look for it, and zeros behind the last one."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.compiled import kernel_of
from support.host_matrices import CANARY, GUARD, packed, pointer
from support.native import NATIVE_HOSTS, NATIVE_SETTINGS
from tilewright.common.dtypes import FLOATS
from tilewright.ir.parser import parse
from tilewright.machine import load_machine
from tilewright.ops import conv2d
from tilewright.targets.host.code import CODE
from tilewright.targets.host.emit.header import stored_shape
from tilewright.targets.host.emit.packing import emit_copy, emit_pack
from tilewright.targets.host.native import load_library

BLOCKS = (1, 6, 14, 16, 32)


@cache
def library():
    parts = []
    for kind in FLOATS:
        parts += [emit_pack(f"pack_{kind}_{block}", kind, block, 4, 8) for block in BLOCKS]
        parts.append(emit_copy(f"copy_{kind}", kind))
    return load_library({"packing.c": "\n".join(parts).replace("static void", "void")})


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@given(data=st.data())
def test_pack(kind, data):
    block = data.draw(st.sampled_from(BLOCKS))
    extent, k = data.draw(st.integers(0, 140)), data.draw(st.integers(0, 20))
    step, k_step = data.draw(
        st.sampled_from([(1, extent + 3), (k + 2, 1), (2 * k + 1, 2), (2, 2 * extent + 1)])
    )
    source = np.arange(1, extent * step + k * k_step + 2, dtype=kind.numpy)
    places = np.arange(extent)[:, None] * step + np.arange(k) * k_step
    expected = packed(source[places], block)
    target = np.full(expected.size + 2 * GUARD, CANARY, kind.numpy)
    numbers = [ctypes.c_long(x) for x in (extent, k, step, k_step)]
    function = getattr(library(), f"pack_{kind}_{block}")
    function(
        *numbers[:2],
        pointer(source),
        *numbers[2:],
        pointer(target[GUARD:]),
        ctypes.c_long(k * block),
    )
    assert np.array_equal(target[GUARD:-GUARD], expected)
    assert np.all(target[:GUARD] == CANARY)
    assert np.all(target[-GUARD:] == CANARY)


@pytest.mark.parametrize("kind", FLOATS, ids=str)
def test_the_compiler_has_no_doubts(kind):
    """Not that the loop over the rest of k, empty where numbers are known, were an endless one."""
    parts = [emit_pack("pack", kind, 6), "void pack_rows(long rows, const TYPE *x, TYPE *to)\n{"]
    parts.append("    pack(rows, 256, x, 1024, 1, to, 1536);\n}\n")
    load_library({"pack.c": "\n".join(parts).replace("TYPE", kind.c_name)}, ["-Wall", "-Werror"])


@given(st.sampled_from(FLOATS), st.integers(0, 9), st.integers(0, 40), st.integers(0, 9))
def test_copy(kind, rows, columns, zeros):
    source = np.arange(1, rows * (columns + 3) + 1, dtype=kind.numpy).reshape(rows, columns + 3)
    target = np.full((rows + 1, columns + zeros + 2), CANARY, kind.numpy)
    expected = target.copy()
    expected[:rows, :columns] = source[:, :columns]
    expected[:rows, columns : columns + zeros] = 0
    getattr(library(), f"copy_{kind}")(
        *(ctypes.c_long(x) for x in (rows, columns, columns + zeros)),
        pointer(source),
        ctypes.c_long(columns + 3),
        pointer(target),
        ctypes.c_long(columns + zeros + 2),
    )
    assert np.array_equal(target, expected)


def test_products_of_parts_of_one_constant_share_its_panels():
    """Four nests read the transformed kernels where tiles are cut in both directions."""
    op = conv2d(
        batch=1, in_channels=8, out_channels=40, height=7, width=5, kernel=3, padding=1, dtype="f32"
    )
    kernel = kernel_of(op, NATIVE_HOSTS[0], algorithm="winograd2", measure=False)
    assert len(kernel.option.candidate.nests) == 7
    (made,) = (t.made for t in kernel.artifact.tensors if t.made)
    assert made.panels is not None


def computed(text, numbers):
    """The result of a program by this processor's own instruction set."""
    machine = load_machine("host", NATIVE_SETTINGS)
    return CODE.run(CODE.emit(parse(text), machine), machine, numbers)["y"]


@pytest.mark.parametrize(
    ("loops", "shape"),
    [
        ("tap in range(3) / part in range(2)", (1, 1, 3, 8, 8, 16)),
        ("part in range(2) / tap in range(3)", (2, 1, 3, 4, 8, 16)),
    ],
)
def test_panels_lie_in_the_order_in_which_products_read_them(loops, shape):
    """For each tap the panels of all channels, or of the channels that are computed before others;
    what the products read begins where the one before ends.
    """
    outer, inner = loops.split(" / ")
    artifact = CODE.emit(parse(PARTS.format(outer=outer, inner=inner)), load_machine("host"))
    (w,) = (t for t in artifact.tensors if t.name == "w")
    assert stored_shape(w) == shape
    numbers = {
        "x": np.arange(96.0).reshape(12, 8),
        "w": np.arange(3072.0).reshape(3, 8, 128) % 31,
    }
    expected = [numbers["x"][tap : tap + 10] @ numbers["w"][tap] for tap in range(3)]
    np.testing.assert_array_equal(
        computed(PARTS.format(outer=outer, inner=inner), numbers), expected
    )


PARTS = """\
def parts():
    y: tensor("f64", "output", taps=3, cols=10, channels=128)
    x: tensor("f64", "input", cols=12, depth=8)
    w: tensor("f64", "constant", taps=3, depth=8, channels=128)
    fill(y[at(0, 3), at(0, 10), at(0, 128)]("abc"), value=0.0)
    for {outer}:
        for {inner}:
            gemm(
                y[tap, at(0, 10), at(64 * part, 64)](".nm"),
                w[tap, at(0, 8), at(64 * part, 64)](".km"),
                x[at(tap, 10), at(0, 8)]("nk"),
                vector="m",
                dtype="f64",
            )
"""


@pytest.mark.parametrize(
    ("loops", "channel", "shape"),
    [
        ("part in range(2) / quarter in range(2)", "64 * part + 32 * quarter", (2, 1, 3, 4, 8, 16)),
        ("part in range(1) / quarter in range(4)", "32 * quarter", (8, 1, 3, 8, 16)),
    ],
)
def test_panels_read_once_lie_as_others_are_read(loops, channel, shape):
    """The last tap comes by itself, in smaller parts of the channels: each within a part of those
    of the other taps, or loops go on from one of these to the next.
    """
    outer, inner = loops.split(" / ")
    text = LAST_TAP.format(outer=outer, inner=inner, channel=channel)
    artifact = CODE.emit(parse(text), load_machine("host"))
    (w,) = (t for t in artifact.tensors if t.name == "w")
    assert stored_shape(w) == shape
    numbers = {
        "x": np.arange(96.0).reshape(12, 8),
        "w": np.arange(3072.0).reshape(3, 8, 128) % 31,
    }
    expected = [numbers["x"][tap : tap + 10] @ numbers["w"][tap] for tap in range(3)]
    np.testing.assert_array_equal(computed(text, numbers), expected)


LAST_TAP = """\
def last_tap():
    y: tensor("f64", "output", taps=3, cols=10, channels=128)
    x: tensor("f64", "input", cols=12, depth=8)
    w: tensor("f64", "constant", taps=3, depth=8, channels=128)
    fill(y[at(0, 3), at(0, 10), at(0, 128)]("abc"), value=0.0)
    for part in range(2):
        for tap in range(2):
            gemm(
                y[tap, at(0, 10), at(64 * part, 64)](".nm"),
                w[tap, at(0, 8), at(64 * part, 64)](".km"),
                x[at(tap, 10), at(0, 8)]("nk"),
                vector="m",
                dtype="f64",
            )
    for {outer}:
        for {inner}:
            gemm(
                y[2, at(0, 10), at({channel}, 32)](".nm"),
                w[2, at(0, 8), at({channel}, 32)](".km"),
                x[at(2, 10), at(0, 8)]("nk"),
                vector="m",
                dtype="f64",
            )
"""


def test_panels_of_a_block_of_the_depth_lie_together():
    """Half of the depth for all channels, then the other half."""
    artifact = CODE.emit(parse(HALVES), load_machine("host"))
    (b,) = (t for t in artifact.tensors if t.name == "b")
    assert stored_shape(b) == (1, 2, 8, 8, 16)
    numbers = {
        "a": np.arange(160.0).reshape(10, 16),
        "b": np.arange(2048.0).reshape(16, 128) % 31,
    }
    np.testing.assert_array_equal(computed(HALVES, numbers), numbers["a"] @ numbers["b"])


HALVES = """\
def halves():
    y: tensor("f64", "output", rows=10, channels=128)
    a: tensor("f64", "input", rows=10, depth=16)
    b: tensor("f64", "constant", depth=16, channels=128)
    fill(y[at(0, 10), at(0, 128)]("ab"), value=0.0)
    for half in range(2):
        for part in range(2):
            gemm(
                y[at(0, 10), at(64 * part, 64)]("nm"),
                b[at(8 * half, 8), at(64 * part, 64)]("km"),
                a[at(0, 10), at(8 * half, 8)]("nk"),
                vector="m",
                dtype="f64",
            )
"""


def test_rows_of_results_come_in_runs_that_the_edge_cuts():
    """Columns by threes of five: runs of three rows of the product, then of two."""
    numbers = {
        "x": np.arange(160.0).reshape(4, 5, 8),
        "w": np.arange(256.0).reshape(8, 32) % 31,
    }
    np.testing.assert_array_equal(computed(CUT, numbers), numbers["x"] @ numbers["w"])


CUT = """\
def cut():
    y: tensor("f64", "output", rows=4, cols=5, channels=32)
    x: tensor("f64", "input", rows=4, cols=5, depth=8)
    w: tensor("f64", "constant", depth=8, channels=32)
    for col in range(2):
        fill(y[at(0, 4), at(3 * col, min(3, 5 - 3 * col)), at(0, 32)]("abc"), value=0.0)
        gemm(
            y[at(0, 4), at(3 * col, min(3, 5 - 3 * col)), at(0, 32)]("nnm"),
            w[at(0, 8), at(0, 32)]("km"),
            x[at(0, 4), at(3 * col, min(3, 5 - 3 * col)), at(0, 8)]("nnk"),
            vector="m",
            dtype="f64",
        )
"""
