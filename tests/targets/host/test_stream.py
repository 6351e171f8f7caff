"""Results that no cache keeps are written past the caches, and are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import Case, Machines, cases
from support.compiled import kernel_of
from support.examples import examples
from support.host_programs import COPIES
from support.native import NATIVE_SETTINGS, assert_exact, emitted, native_results
from tilewright.compiler.checking import random_operands
from tilewright.ir.parser import parse
from tilewright.machine import load_machine
from tilewright.ops import conv2d
from tilewright.targets.host.code import CODE

NEAR, FAR = "33554432", "256"
"""Bytes of the last cache: more than any result here, less than nearly every one."""

IN_PLACE = """\
def in_place():
    c: tensor("f32", "output", rows=30, cols=64)
    a: tensor("f32", "input", rows=30, depth=40)
    b: tensor("f32", "input", depth=40, cols=64)
    for col in range(2):
        fill(c[at(0, 30), at(col * 32, 32)]("ab"), value=0.0)
        gemm(
            c[at(0, 30), at(col * 32, 32)]("mn"),
            a[at(0, 30), at(0, 40)]("mk"),
            b[at(0, 40), at(col * 32, 32)]("kn"),
            vector="n",
            dtype="f32",
        )
"""


def hosts(last_cache_bytes: str, second_cache_bytes: str = "1048576") -> Machines:
    changes = {
        **NATIVE_SETTINGS,
        "memory.caches.l2.capacity_bytes": second_cache_bytes,
        "memory.caches.l3.capacity_bytes": last_cache_bytes,
    }
    return Machines(
        load_machine("host", {**changes, "threads.count": count}) for count in ("1", "2")
    )


@pytest.mark.parametrize("algorithm", ["gemm", "direct", "implicit", "explicit", "winograd2"])
def test_streamed_results_are_exact(algorithm: str) -> None:
    @examples(1)
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
        assert "__builtin_ia32_sfence" not in "".join(artifact.files.values())


def test_a_product_in_place_is_streamed_beyond_the_last_cache() -> None:
    for last_cache_bytes, streamed in ((NEAR, False), (FAR, True)):
        machine = hosts(last_cache_bytes)[0]
        source = CODE.emit(parse(IN_PLACE), machine).files["in_place.c"]
        assert ("tw_stream_f32(z" in source) == (streamed and machine.core.vector_lanes > 2)
        assert ("__builtin_ia32_sfence();\n}" in source) == (
            streamed and machine.core.vector_lanes > 2
        )


def test_what_is_added_to_is_not_streamed() -> None:
    program = IN_PLACE.replace("value=0.0", "value=1.0")
    source = CODE.emit(parse(program), hosts(FAR)[0]).files["in_place.c"]
    assert "tw_stream_f32(z" not in source


@pytest.mark.parametrize(("last_cache_bytes", "streamed"), [(NEAR, False), (FAR, True)])
def test_winograd_streams_whole_tiles_beyond_the_last_cache(
    last_cache_bytes: str, streamed: bool
) -> None:
    machine = hosts(last_cache_bytes)[0]
    op = conv2d(batch=1, in_channels=16, out_channels=16, height=8, width=8, kernel=3, dtype="f32")
    kernel = kernel_of(op, machine, algorithm="winograd2", measure=False)
    source = next(t for name, t in kernel.artifact.files.items() if name.endswith(".c"))
    assert ("_stream(at" in source) == (streamed and machine.core.vector_lanes > 2)


def test_a_result_beyond_the_last_cache_is_streamed() -> None:
    for last_cache_bytes, streamed in ((NEAR, False), (FAR, True)):
        machine = hosts(last_cache_bytes)[0]
        source = CODE.emit(parse(COPIES), machine).files["copies.c"]
        assert ("tw_stream_rows_f32(" in source) == (streamed and machine.core.vector_lanes > 2)


HANDED = """\
def handed():
    c: tensor("f32", "output", rows=32, cols=64)
    s: tensor("f32", "scratch", rows=32, cols=64)
    a: tensor("f32", "input", rows=32, depth=32)
    b: tensor("f32", "input", depth=32, cols=64)
    for row in range(2, threads=2):
        fill(s[at(row * 16, 16), at(0, 64)]("ab"), value=0.0)
        gemm(
            s[at(row * 16, 16), at(0, 64)]("mn"),
            a[at(row * 16, 16), at(0, 32)]("mk"),
            b[at(0, 32), at(0, 64)]("kn"),
            vector="n",
            dtype="f32",
        )
    barrier()
    for col in range(2, threads=2):
        fill(c[at(0, 32), at(col * 32, 32)]("ab"), value=0.0)
        gemm(
            c[at(0, 32), at(col * 32, 32)]("mn"),
            a[at(0, 32), at(0, 32)]("mk"),
            s[at(0, 32), at(col * 32, 32)]("kn"),
            vector="n",
            dtype="f32",
        )
"""


@pytest.mark.parametrize(("second_cache_bytes", "large"), [("1048576", False), ("8192", True)])
def test_products_for_other_threads_pass_the_caches_if_these_would_keep_little(
    second_cache_bytes: str, large: bool
) -> None:
    for machine in hosts(NEAR, second_cache_bytes):
        several = machine.thread_count > 1 and machine.core.vector_lanes > 2
        source = CODE.emit(parse(HANDED), machine).files["handed.c"]
        assert ("tw_stream_f32(z" in source) == (several and large)
        assert ("__builtin_ia32_sfence();\n    TW_MEET" in source) == (several and large)


@pytest.mark.parametrize("channels", [64, 40])
def test_points_for_other_threads_pass_the_caches_in_whole_lines(channels: int) -> None:
    op = conv2d(
        batch=1, in_channels=channels, out_channels=64, height=7, width=7, kernel=3, dtype="f32"
    )
    for machine in hosts(NEAR):
        kernel = kernel_of(op, machine, algorithm="winograd2", measure=False)
        source = next(t for name, t in kernel.artifact.files.items() if name.endswith(".c"))
        several = machine.thread_count > 1 and machine.core.vector_lanes > 2
        assert ("_past(" in source) == (several and channels == 64)
        case, operands = Case(machine, kernel.option.candidate), random_operands(op, "integers", 1)
        assert_exact(case, operands, native_results([case], [operands])[0])
