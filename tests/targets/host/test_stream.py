"""Results that no cache keeps are written past the caches, and are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import Case, Machines, cases
from support.examples import examples
from support.native import NATIVE_SETTINGS, assert_exact, emitted, native_results
from tilewright.compiler.checking import random_operands
from tilewright.ir.parser import parse
from tilewright.machine import load_machine
from tilewright.targets.host import TARGET

NEAR, FAR = "33554432", "256"
"""Bytes of the last cache: more than any result here, less than nearly every one."""


COPIES = """\
def copies():
    c: tensor("f32", "output", rows=30, cols=64)
    a: tensor("f32", "input", rows=30, depth=40)
    b: tensor("f32", "input", cols=64, depth=40)
    c_tile: buffer("f32", 960, offset_bytes=0)
    b_tile: buffer("f32", 640, offset_bytes=3840)
    for col in range(2):
        fill(c_tile[0](shape=(30, 32), roles="ab"), value=0.0)
        for depth in range(2):
            get(b[at(col * 32, 32), at(depth * 20, 20)], b_tile[0])
            wait(b_tile[0])
            gemm(
                c_tile[0](shape=(30, 32), roles="mn"),
                a[at(0, 30), at(depth * 20, 20)]("mk"),
                b_tile[0](shape=(32, 20), roles="nk"),
                vector="n",
                dtype="f32",
            )
        put(c_tile[0], c[at(0, 30), at(col * 32, 32)])
        wait(c_tile[0])
"""


def hosts(last_cache_bytes: str) -> Machines:
    changes = {**NATIVE_SETTINGS, "memory.caches.l3.capacity_bytes": last_cache_bytes}
    return Machines(
        load_machine("host", {**changes, "threads.count": count}) for count in ("1", "2")
    )


@pytest.mark.parametrize("algorithm", ["gemm", "direct", "implicit", "explicit"])
def test_streamed_results_are_exact(algorithm: str) -> None:
    @examples(2)
    @given(st.lists(cases(algorithm, hosts(FAR)), min_size=6, max_size=6))
    def check(batch: list[Case]) -> None:
        operands = [random_operands(c.candidate.op, "integers", i) for i, c in enumerate(batch)]
        for c, o, y in zip(batch, operands, native_results(batch, operands), strict=True):
            assert_exact(c, o, np.asarray(y))

    check()


@given(st.lists(cases("gemm", hosts(NEAR)), min_size=6, max_size=6))
@examples(1)
def test_what_a_cache_keeps_is_not_streamed(batch: list[Case]) -> None:
    for _, artifact in emitted(batch):
        assert "tw_stream_rows" not in "".join(artifact.files.values())


def test_a_result_beyond_the_last_cache_is_streamed() -> None:
    for last_cache_bytes, streamed in ((NEAR, False), (FAR, True)):
        machine = hosts(last_cache_bytes)[0]
        source = TARGET.emit(parse(COPIES), machine).files["copies.c"]
        assert ("tw_stream_rows_f32(" in source) == (streamed and machine.core.vector_lanes > 2)
