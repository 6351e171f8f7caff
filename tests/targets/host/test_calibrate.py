"""Probes do what they are timed for, fits find what is there, a calibration is complete."""

import math
import platform
import re
import shutil
import subprocess
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.codegen.fitting import fit_relative
from tilewright.common.dtypes import F32, FLOATS
from tilewright.common.errors import ScheduleError, ToolError
from tilewright.targets.host.calibrating import measure as calibrate
from tilewright.targets.host.calibrating.measure import (
    KernelSample,
    ProductExtents,
    default_kernel,
    measure_host,
    working_sets,
)
from tilewright.targets.host.calibrating.probes import (
    load_probes,
    peak_flops_per_call,
)
from tilewright.targets.host.detect import CacheLevel, detect_host
from tilewright.targets.host.native import address, native_instruction_sets, page_aligned
from tilewright.targets.host.vectors.instruction_sets import AVX512
from tilewright.tune.sampling import Contender, Protocol

HURRIED = Protocol(rounds=1, sample_seconds=2e-5, share=0.0, patience=1)


def predicted(kernel, extents, coefficients):
    rows, columns = extents.n // kernel.width, extents.m // kernel.scalars
    call, row, block, rate = coefficients
    return call + rows * row + rows * columns * (block + extents.k * rate)


@given(st.tuples(st.floats(0, 100), st.floats(0, 100), st.floats(0, 100), st.floats(1, 100)))
def test_the_fit_finds_the_numbers_of_the_model(coefficients):
    kernel = default_kernel(AVX512, F32)
    samples = [
        KernelSample(e, predicted(kernel, e, coefficients), 0.0) for e in calibrate._grid(kernel)
    ]
    fitted = calibrate._fit_terms(kernel, samples)
    assert np.allclose(fitted, coefficients, atol=1e-6 * max(coefficients))


def test_a_negative_term_is_left_out():
    kernel = default_kernel(AVX512, F32)
    samples = [
        KernelSample(e, predicted(kernel, e, (0, -40, 100, 28)), 0.0)
        for e in calibrate._grid(kernel)
    ]
    fitted = calibrate._fit_terms(kernel, samples)
    assert fitted[1] == 0
    assert min(fitted) >= 0


def test_a_disturbed_kernel_is_measured_again_and_given_up_after_a_few_runs():
    kernel = default_kernel(AVX512, F32)
    grid = calibrate._grid(kernel)
    flat = tuple(KernelSample(e, 7e4, 0.0) for e in grid)
    good = tuple(KernelSample(e, predicted(kernel, e, (20, 0, 86, 28)), 0.0) for e in grid)
    runs = iter([(1.0, flat), (2.0, good)])
    peak, samples, coefficients = calibrate.undisturbed(kernel, lambda: next(runs))
    assert (peak, samples) == (2.0, good)
    assert coefficients[-1] == pytest.approx(28)
    with pytest.raises(ToolError) as refused:
        calibrate.undisturbed(kernel, lambda: (1.0, flat))
    assert str(refused.value) == (
        "in 8 runs the time of the f32 kernel did not grow with k; "
        "calibrate while nothing else runs"
    )


def test_threads_that_waited_for_other_programs_tell_nothing():
    wait = Contender("threads", lambda calls: time.sleep(1e-4), threads=2)
    assert calibrate.of_threads([wait]) is None
    alone = Contender("alone", lambda calls: sum(range(1000)))
    assert calibrate.of_threads([alone, wait]) is None


def test_samples_that_fix_too_little():
    with pytest.raises(ScheduleError) as caught:
        fit_relative([[1, 2], [2, 4]], [1, 2], ["1", "k"], "line")
    assert str(caught.value) == (
        "2 samples fix 1 of the 2 terms of 'line'; vary m, n and k independently"
    )


@pytest.mark.parametrize("isa", native_instruction_sets(), ids=lambda isa: isa.name)
def test_probes_run(isa):
    probes = load_probes(isa)
    assert all(peak_flops_per_call(isa, kind) > 0 for kind in FLOATS)
    for contender in (
        probes.clock(),
        *map(probes.peak, FLOATS),
        probes.start(2),
        probes.barrier(2),
    ):
        contender.run(3)
    x, out = page_aligned(16 * isa.lanes(F32), F32), page_aligned(isa.lanes(F32), F32)
    x[:] = np.arange(len(x))
    probes.library.tw_read(2, address(x), len(x), address(out))
    assert out.sum() == 2 * x.sum()


def test_the_chain_that_tells_the_clock_adds_a_register_that_the_compiler_does_not_know(tmp_path):
    """Processors that add constants while renaming registers, as Golden Cove, run a chain of such
    additions at several a cycle.
    """
    library = load_probes(native_instruction_sets()[0]).library
    if shutil.which("objdump") is None or platform.machine() != "x86_64":
        pytest.skip("needs objdump and an x86-64 processor")
    command = ["objdump", "-d", "--no-show-raw-insn", "--disassemble=tw_chain", library._name]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    added = re.findall(r"\badd\s+(\S+),(\S+)$", text, re.MULTILINE)
    assert [source[0] for source, _ in added if source != "$0x1"].count("%") >= 8


def test_memory_ends_with_a_whole_huge_page() -> None:
    huge = 1 << 21
    array = whole = page_aligned(huge // 4 + 1, F32)
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    first, behind = (one.ctypes.data + one.nbytes for one in (array, whole))
    assert array.ctypes.data % huge == 0
    assert behind >= -(-first // huge) * huge


def test_working_sets_take_a_core_s_part_of_a_shared_cache():
    small, shared = CacheLevel(2, 2**21, 16, 1), CacheLevel(3, 300 * 2**20, 20, 16)
    host = replace(detect_host(), caches=(CacheLevel(1, 49152, 12, 1), small, shared))
    assert working_sets(host) == [24576, 2**20, 300 * 2**16, 1200 * 2**20]
    few = replace(host, caches=(small, replace(shared, size_bytes=2**25)))
    assert working_sets(few) == [2**20, 2**22, 2**27]


@pytest.mark.parametrize("out", [False, True])
def test_the_copy_probe_copies(out):
    library = load_probes(native_instruction_sets()[0]).library
    strided, packed = page_aligned(1000, F32), page_aligned(57, F32)
    strided[:], packed[:] = np.arange(1000), -np.arange(57)
    before = strided.copy()
    library.tw_copy(1, address(packed), address(strided), 3, 19, 40, 1000, int(out))
    places = np.arange(3)[:, None] * 40 + np.arange(19)
    if out:
        before[places] = packed.reshape(3, 19)
        assert np.array_equal(strided, before)
    else:
        assert np.array_equal(packed.reshape(3, 19), before[places])


def test_a_calibration_is_complete(monkeypatch):
    monkeypatch.setattr(calibrate, "_WAITING_ROUNDS", 1)
    monkeypatch.setattr(calibrate, "_TOGETHER_ROUNDS", 1)
    measured = measure_host(detect_host(), HURRIED)
    assert set(measured.kernels) == {"f32", "f64"}
    numbers = [measured.clock_hz, measured.thread_start_seconds]
    numbers += [x for x in (measured.barrier_seconds, measured.saturating) if x is not None]
    numbers += [r.bytes_per_cycle for r in (*measured.reads, *measured.gets, *measured.puts)]
    for kernel in measured.kernels.values():
        numbers += [kernel.peak_flops_per_cycle, kernel.cycles_per_k, kernel.best_peak_fraction]
        assert len(kernel.samples) == 36
        assert len(kernel.exposed_cycles_per_byte) == len(measured.host.caches)
    assert all(math.isfinite(x) and x > 0 for x in numbers)


def test_each_multiplication_and_each_addition_of_a_product_counts():
    assert ProductExtents(3, 5, 7).flops == 2 * 3 * 5 * 7
