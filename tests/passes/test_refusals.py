"""Refusals of passes, message by message."""

from __future__ import annotations

import re

import pytest

from tilewright.common.errors import CapacityError, ScheduleError
from tilewright.ir.parser import parse
from tilewright.passes.allocate_buffers import AllocateBuffers
from tilewright.passes.infer_dma import InferDma

NEST = """\
def conv(cols, chunk):
    y: tensor("f64", "output", channels=8, cols=cols)
    x: tensor("f64", "input", channels=8, cols=cols + 2)
    w: tensor("f64", "input", taps=3, out=8, channels=8)
    for tap in range(3):
        for col in range(cols // 8):
            gemm(
                y[rid, at(col * 8 + cid, {extent})]("mn"),
                w[tap, rid, cid](".mk"),
                x[rid, at(col * 8 + cid + tap, {extent})]("kn"),
                vector="n",
            )
{epilogue}"""

EPILOGUE = """\
            if tap == 2:
                scale_add(y[rid, at(col * 8 + cid, 1)]("ab"), alpha=2.0)
"""


@pytest.mark.parametrize(
    ("extent", "epilogue", "stages", "message"),
    [
        ("1", "", {"w": "channel"}, "stage(w, channel): there is no such loop"),
        (
            "1",
            "",
            {"w": "in_parts"},
            "stage(w, in_parts): this machine fetches whole tiles; name a loop instead",
        ),
        (
            "min(8, cols - col * 8)",
            "",
            {"x": "col"},
            "stage(x): the tile's extent changes inside the loop, it has no fixed union",
        ),
        (
            "1",
            EPILOGUE,
            {},
            "an epilogue needs every reduction loop inside the result's transfer",
        ),
    ],
)
def test_transfers_that_cannot_be_inferred(extent, epilogue, stages, message):
    seed = parse(NEST.format(extent=extent, epilogue=epilogue))
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        InferDma(stages).apply(seed)


def test_buffers_that_do_not_fit():
    """Of the two parts the second one is too large: 8 x 100 x 2 and 8 x 41 bytes rounded up."""
    program = parse("""\
def parts():
    y: tensor("f64", "output", n=100)
    small: buffer("f64", 50)
    large: buffer("f64", 100, copies=2)
    odd: buffer("f64", 41)
    fill(small[0](shape=(50,), roles="a"))
    put(small[0], y[at(0, 50)])
    wait(small[0])
    barrier()
    fill(large[1](shape=(100,), roles="a"))
    fill(odd[0](shape=(41,), roles="a"))
    put(large[1], y[at(0, 100)])
    wait(large[1])
""")
    message = (
        "the buffers take 1952 bytes of scratchpad, the limit is 1920; the largest is 'large' "
        "with 1600 bytes; free 32 bytes: a smaller tile or a single copy of 'large'"
    )
    with pytest.raises(CapacityError, match=f"^{re.escape(message)}$"):
        AllocateBuffers({"spm": 1920}, {"spm": 32}).apply(program)
    placed = AllocateBuffers({"spm": 1952}, {"spm": 32}).apply(program)
    assert placed.buffer("odd").offset_bytes == 1600


def test_a_memory_of_which_nothing_is_said_has_no_room():
    program = parse("""\
def fetch():
    x: tensor("i8", "input", n=3)
    x_tile: buffer("i8", 3, space="far")
    get(x[at(0, 3)], x_tile[0])
    wait(x_tile[0])
""")
    with pytest.raises(CapacityError) as error:
        AllocateBuffers({"spm": 64}, {"spm": 8}).apply(program)
    assert str(error.value) == (
        "the buffers take 3 bytes of memory 'far', the limit is 0; the largest is 'x_tile' with 3 "
        "bytes; free 3 bytes: a smaller tile or a single copy of 'x_tile'"
    )
