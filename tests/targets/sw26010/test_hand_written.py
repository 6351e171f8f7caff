"""The emulated tool chain runs handwritten kernels too: register communication, LDM, scopes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tilewright.codegen.artifact import Artifact
from tilewright.common.errors import SimulationError
from tilewright.ir.parser import parse
from tilewright.machine import load_machine
from tilewright.targets.sw26010.code import CODE
from tilewright.targets.sw26010.emulation.run import run_emulated

FRAME = """\
def by_hand():
    x: tensor("f64", "input", core=64, lane=4)
    y: tensor("f64", "output", core=64, lane=4)
    tile: buffer("f64", 4, offset_bytes=0)
    get(x[rid * 8 + cid, at(0, 4)], tile[0])
    wait(tile[0])
    barrier()
    put(tile[0], y[rid * 8 + cid, at(0, 4)])
    wait(tile[0])
"""
X = np.arange(256.0).reshape(64, 4)


def by_hand(lines: str) -> Artifact:
    """The frame's generated code with `lines` of C between its get and its put."""
    artifact = CODE.emit(parse(FRAME), load_machine("sw26010"))
    name = "by_hand_slave.c"
    text = artifact.files[name].replace("    athread_syn(ARRAY_SCOPE, 0xffff);\n", lines)
    text = text.replace("#include <dma.h>", "#include <dma.h>\n#include <simd.h>")
    return replace(artifact, files={**artifact.files, name: text})


def test_one_core_sends_to_its_row():
    """Column 3 broadcasts its vector along the row, everybody else receives it."""
    lines = """\
    doublev4 v;
    simd_load(v, tile);
    if (cid == 3)
        simd_putr(v, 8);
    else
        simd_getr(v);
    simd_store(v, tile);
"""
    y = run_emulated(by_hand(lines), {"x": X})["y"]
    np.testing.assert_array_equal(y.reshape(8, 8, 4), X.reshape(8, 8, 4)[:, 3:4].repeat(8, axis=1))


def test_a_ring_of_columns():
    """Each core sends down and receives from above, more than fits a queue."""
    lines = """\
    doublev4 v, sum = {0};
    int i;
    for (i = 0; i < 10; i++) {
        simd_load(v, tile);
        simd_putc(v, (rid + 1) % 8);
        simd_getc(v);
        sum = simd_vaddd(sum, v);
    }
    athread_syn(COL_SCOPE, 0xff);
    simd_store(sum, tile);
"""
    y = run_emulated(by_hand(lines), {"x": X})["y"]
    expected = 10 * np.roll(X.reshape(8, 8, 4), 1, axis=0)
    np.testing.assert_array_equal(y.reshape(8, 8, 4), expected)


@pytest.mark.parametrize(
    ("lines", "report"),
    [
        (
            "    doublev4 v;\n    simd_getr(v);\n",
            "deadlock: 64 cores waiting for a vector along the row at by_hand_slave.c:40, first "
            "(0, 0)",
        ),
        (
            "    doublev4 v = {0};\n    while (cid == 0 && rid == 0)\n        simd_putr(v, 1);\n",
            "deadlock: 1 core waiting for room at the receiver along the row at "
            "by_hand_slave.c:41, first (0, 0); 63 cores ended, first (0, 1)",
        ),
        (
            "    doublev4 v = {0};\n    simd_putc(v, rid);\n",
            "by_hand_slave.c:40: core (0, 0): a core cannot send a vector to itself",
        ),
        (
            "    athread_syn(ROW_SCOPE, 0x0f);\n",
            "by_hand_slave.c:39: core (0, 0): athread_syn with scope 0 and mask 0xf is not "
            "emulated",
        ),
    ],
)
def test_reports(lines, report):
    with pytest.raises(SimulationError) as caught:
        run_emulated(by_hand(lines), {"x": X})
    assert caught.value.message == report
