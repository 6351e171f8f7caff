"""Where the time of a kernel for this computer goes, by the model: what the search priced."""

from __future__ import annotations

import pytest

from support.compiled import kernel_of
from tilewright.ir.nodes import Barrier, For
from tilewright.ir.parser import parse
from tilewright.ir.threads import busiest_thread, thread_meetings
from tilewright.machine import load_machine
from tilewright.ops import Op, conv2d, gemm

LAYER = conv2d(
    batch=1, in_channels=64, out_channels=64, height=30, width=30, kernel=3, padding=1, dtype="f32"
)
CASES = [
    (gemm(300, 200, 100, dtype="f32"), "gemm"),
    (LAYER, "direct"),
    (LAYER, "explicit"),
    (LAYER, "winograd4"),
]


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize(("op", "algorithm"), CASES, ids=[name for _, name in CASES])
def test_causes_are_what_the_search_priced_for_the_busiest_thread(
    op: Op, algorithm: str, threads: int
) -> None:
    machine = load_machine("host_avx2", {"threads.count": threads})
    kernel = kernel_of(op, machine, algorithm=algorithm, measure=False)
    found, nests = kernel.explanation(), kernel.option.candidate.nests
    kinds = ("compute useful", "compute overhead", "primitive")
    computing = sum(c.cycles for c in found.causes if c.kind in kinds)
    assert computing == pytest.approx(sum(n.compute_cycles for n in nests), rel=0.01)
    assert sum(cause.cycles for cause in found.causes) == kernel.estimate_cycles
    assert all(cause.cycles > 0 for cause in found.causes)
    useful = sum(c.cycles for c in found.causes if c.kind == "compute useful")
    assert useful <= kernel.account.useful_flops / machine.core.peak_flops_per_cycle("f32") + 1
    assert ("barrier" in {cause.kind for cause in found.causes}) == (threads > 1)
    assert found.threads == threads
    assert found.layer.lower_bound_cycles <= kernel.estimate_cycles
    assert all(r.waiting_cycles >= 0 for r in found.rejected)


@pytest.mark.parametrize(("op", "algorithm"), CASES, ids=[name for _, name in CASES])
def test_no_product_is_faster_than_the_peak_of_its_element_type(op: Op, algorithm: str) -> None:
    machine = load_machine("host_avx2")
    roof = kernel_of(op, machine, algorithm=algorithm, measure=False).roofline()
    assert roof.peak_flops == machine.peak_flops_of("f32")
    assert 0.5 < roof.execution_efficiency < 1


BLOCKS = """\
def blocks():
    y: tensor("f32", "output", rows=10, cols=8)
    for block in range(3):
        for row in range(5, threads=2):
            fill(y[at(row, 1), at(0, 8)]("ab"), value=0.0)
        barrier()
        for alone in range(1, threads=2):
            fill(y[at(block, 1), at(0, 8)]("ab"), value=0.0)
    barrier()
    for row in range(10, threads=2):
        fill(y[at(row, 1), at(0, 8)]("ab"), value=0.0)
"""


def test_one_thread_has_the_longest_run_of_every_divided_loop() -> None:
    blocks, end, last = busiest_thread(parse(BLOCKS).body)
    assert isinstance(blocks, For)
    assert isinstance(last, For)
    assert end == Barrier()
    extents = [s.extent.value for s in (blocks, blocks.body[0], blocks.body[2], last)]
    assert extents == [3, 3, 1, 5]


def test_threads_meet_at_barriers_and_behind_the_iterations_around_them() -> None:
    assert thread_meetings(parse(BLOCKS).body) == 3 * 2 + 1
