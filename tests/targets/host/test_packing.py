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
from support.native import NATIVE_HOSTS
from tilewright.common.dtypes import FLOATS
from tilewright.ops import conv2d
from tilewright.targets.host.emit.packing import emit_copy, emit_pack
from tilewright.targets.host.native import load_library

BLOCKS = (1, 6, 14, 16, 32)


@cache
def library():
    parts = []
    for kind in FLOATS:
        parts += [emit_pack(f"pack_{kind}_{block}", kind, block) for block in BLOCKS]
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
