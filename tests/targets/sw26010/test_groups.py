"""The driver that starts a kernel on all core groups, emulated: exact, and faults are caught."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from support.compiled import kernel_of
from support.explicit_programs import GEMM, SHARED
from tilewright.codegen.artifact import Artifact
from tilewright.common.errors import ProgramError, SimulationError
from tilewright.ir.parser import parse
from tilewright.machine import load_machine
from tilewright.network.groups import CutTensor, GroupWork
from tilewright.network.planning.arranging import arranged_by_cores
from tilewright.network.planning.form import Form, row_major
from tilewright.ops.box import Box
from tilewright.targets.sw26010.code import CODE
from tilewright.targets.sw26010.emulation.run import run_emulated
from tilewright.targets.sw26010.groups import GROUPS

MACHINE = load_machine("sw26010")
ROWS = [Box((256 * g, 0), (256 * (g + 1), 128)) for g in range(4)]
RESULTS = [Box((256 * g, 0), (256 * (g + 1), 256)) for g in range(4)]


def driven(program: str, work: GroupWork) -> Artifact:
    kernel = CODE.emit(parse(program), MACHINE)
    return GROUPS.drive(kernel, *arranged_by_cores([work], MACHINE), MACHINE)


def product() -> Artifact:
    """Four groups multiply 256 rows of a each by the left part of one b."""
    a = CutTensor("a", "f64", (1024, 128), (row_major((256, 128)),) * 4, tuple(ROWS))
    left, form = Box((0, 0), (128, 256)), row_major((128, 256))
    b = CutTensor("b", "f64", (128, 300), (form,) * 4, (left,) * 4, True)
    c = CutTensor("c", "f64", (1024, 256), (row_major((256, 256)),) * 4, tuple(RESULTS))
    return driven(GEMM, GroupWork(4, (a, b), c))


def transposition(before: int = 0) -> Artifact:
    """Each group takes 64 of 250 rows, with zeros before the first where it starts outside, and 64
    columns from the third on.
    """
    starts = (0, 62 - before, 124 - before, 186 - before)
    forms = tuple(Form((64 - z, 64), row_major((64, 64)).dims, (z, 0)) for z in (before, 0, 0, 0))
    boxes = tuple(Box((s, 2), (s + f.shape[0], 66)) for s, f in zip(starts, forms, strict=True))
    x = CutTensor("x", "f64", (250, 70), forms, boxes)
    results = tuple(Box((64 * g, 0), (64 * g + 64, 64)) for g in range(4))
    y = CutTensor("y", "f64", (256, 64), (row_major((64, 64)),) * 4, results)
    return driven(SHARED, GroupWork(4, (x,), y))


def run(artifact: Artifact, seconds: int = 60) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    given = [t for t in artifact.tensors if t.is_given]
    inputs = {t.name: rng.integers(-4, 5, t.shape).astype(np.float64) for t in given}
    return inputs | run_emulated(artifact, inputs, seconds=seconds)


def changed(artifact: Artifact, file: str, before: str, after: str) -> Artifact:
    text = artifact.files[file]
    assert before in text
    return replace(artifact, files={**artifact.files, file: text.replace(before, after, 1)})


def test_groups_share_an_operand_and_make_one_result() -> None:
    found = run(product())
    np.testing.assert_array_equal(found["c"], found["a"] @ found["b"][:, :256])


@pytest.mark.parametrize("before", [0, 3])
def test_regions_overlap_and_have_zeros_around_them(before: int) -> None:
    found = run(transposition(before))
    padded = np.vstack([np.zeros((before, 64)), found["x"][:, 2:66]])
    starts = (0, 62, 124, 186)
    expected = np.vstack([-1.0 * padded[s : s + 64].T for s in starts])
    np.testing.assert_array_equal(found["y"], expected)


FAULTS = {
    "a removed wait": (
        "gemm_slave.c",
        "                dma_wait(&a_tile_reply[k % 2], a_tile_issued[k % 2]);\n",
        "",
        "gemm_slave.c:87: core (0, 0): spm_gemm_f64 uses a_tile[0] while the get at "
        "gemm_slave.c:53 on it is outstanding",
    ),
    "a slot filled while it is put": (
        "gemm_slave.c",
        "            dma_wait(&c_tile_reply[0], c_tile_issued[0]);\n",
        "",
        "gemm_slave.c:47: core (7, 4): tw_map_e81fd92c1d_f64 uses c_tile[0] while the put at "
        "gemm_slave.c:95 on it is outstanding",
    ),
    "blocks that do not make up the size": (
        "gemm_slave.c",
        "992, 32);",
        "992, 24);",
        "gemm_slave.c:53: core (0, 0): athread_get of 512 bytes in blocks of 24",
    ),
    "a removed wait of what arranges": (
        "move0_gemm_slave.c",
        "    dma_wait(&x0_tile_reply[0], x0_tile_issued[0]);\n",
        "",
        "move0_gemm_slave.c:48: core (0, 0): tw_map_f524d65e9e_f64 uses x0_tile[0] while the get "
        "at move0_gemm_slave.c:40 on it is outstanding",
    ),
    "groups that nobody starts": (
        "gemm_groups.c",
        "        pthread_barrier_wait(&gemm_groups_begin);\n        pthread_barrier_wait(&gemm_gr",
        "        pthread_barrier_wait(&gemm_gr",
        "gemm_groups did not end within 1 s",
    ),
    "groups that are not initialised": (
        "gemm_groups.c",
        "athread_init();",
        "",
        "athread_spawn on a core group without athread_init",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_caught_in_the_groups(fault: str) -> None:
    file, before, after, report = FAULTS[fault]
    with pytest.raises(SimulationError) as caught:
        run(changed(product(), file, before, after), seconds=1 if "end within" in report else 60)
    assert caught.value.message == report


def test_a_group_is_initialised_once() -> None:
    twice = changed(
        product(), "gemm_groups.c", "athread_init();", "athread_init(); athread_init();"
    )
    with pytest.raises(SimulationError) as caught:
        run(twice)
    assert caught.value.message == "athread_init of a core group that has been initialised"


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("shared_slave.c", "    athread_syn(ARRAY_SCOPE, 0xffff);\n", ""),
        ("shared_groups.c", " 8682,", " 8681,"),
        ("move0_shared_slave.c", "* 70;", "* 69;"),
    ],
    ids=["a missing barrier", "a wrong place in the whole array", "a wrong stride of a mover"],
)
def test_a_fault_that_gives_wrong_results(file: str, before: str, after: str) -> None:
    right, wrong = run(transposition()), run(changed(transposition(), file, before, after))
    assert not np.array_equal(right["y"], wrong["y"])


def test_forms_that_are_not_the_kernels() -> None:
    short = row_major((256, 120))
    a = CutTensor("a", "f64", (256, 120), (short,), (Box.whole((256, 120)),))
    b = CutTensor("b", "f64", (128, 256), (row_major((128, 256)),), (Box.whole((128, 256)),))
    c = CutTensor("c", "f64", (256, 256), (row_major((256, 256)),), (Box.whole((256, 256)),))
    with pytest.raises(ProgramError) as caught:
        driven(GEMM, GroupWork(1, (a, b), c))
    assert caught.value.message == (
        "tensor 'a' of the kernel has 32768 elements, the forms of the groups' pieces have 30720"
    )


@pytest.mark.parametrize("partition", ["rows", "out_channels"])
def test_all_groups_compute_an_operator_of_whole_arrays(partition: str) -> None:
    conv = tw.ops.conv2d(
        batch=3, in_channels=5, out_channels=12, height=9, width=4, kernel=3, padding=1
    )
    kernel = kernel_of(conv, MACHINE, algorithm="implicit", partition=partition)
    assert kernel.check_groups() == "exact"


def test_what_arranging_takes_stands_beside_the_kernel() -> None:
    """A product whose rows are divided takes its operands as they lie; a convolution never does."""
    gemm = kernel_of(tw.ops.gemm(m=64, n=48, k=32), MACHINE, partition="m")
    conv = tw.ops.conv2d(
        batch=8, in_channels=8, out_channels=16, height=8, width=8, kernel=3, padding=1
    )
    kernel = kernel_of(conv, MACHINE, algorithm="implicit", partition="batch")
    found, moved = (k.explanation(what_if=False) for k in (gemm, kernel))
    assert [(r.tensor, r.bytes, r.cycles) for r in found.arranged] == [
        ("a", 0, 0),
        ("b", 0, 0),
        ("c", 0, 0),
    ]
    assert sum(cause.cycles for cause in moved.causes) == kernel.cycles
    x, w, y = moved.arranged
    assert (x.shared, w.shared, y.shared) == (False, True, False)
    assert (x.bytes, w.bytes, y.bytes) == (8 * 8 * 10 * 10 * 8, 8 * 16 * 9 * 8, 8 * 16 * 64 * 8)
    for row in moved.arranged:
        assert row.cycles == pytest.approx(row.estimate_cycles, rel=0.1)
        assert row.cycles > row.least_milliseconds * 1e-3 * MACHINE.clock_hz
