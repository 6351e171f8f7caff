"""A calibration becomes a machine description that loads, with a source for every number."""

import tomllib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.errors import ToolError
from tilewright.machine import find_machine, load_machine
from tilewright.machine.model import Threads
from tilewright.machine.sections import GemmPrimitive
from tilewright.targets.host.calibrating.description import (
    calibration_path,
    calibration_text,
    copy_rule,
    write_calibration,
)
from tilewright.targets.host.calibrating.measure import (
    Bandwidth,
    CopyRate,
    KernelSample,
    KernelTiming,
    Measurements,
    ProductExtents,
)
from tilewright.targets.host.calibration import _head
from tilewright.targets.host.detect import CacheLevel, HostDescription
from tilewright.targets.host.sections import Caches
from tilewright.targets.host.vectors.instruction_sets import AVX512
from tilewright.targets.host.vectors.microkernel import LINE_BYTES

CACHES = tuple(CacheLevel(i, 2**15 << 5 * (i - 1), 8, 1) for i in (1, 2, 3))
HOST = HostDescription('A "CPU"\n\\ 9000', "AuthenticAMD", "25", "17", 2, 2**34, CACHES, AVX512)
SAMPLES = (KernelSample(ProductExtents(14, 32, 64), 1900.0, 0.01),)


def timing(peak):
    numbers = (peak, 3.0, 0.5, 91.5, 28.25, 0.004, 0.017, 0.98)
    return KernelTiming("14 x 32", *numbers, (0.001, 0.01, 0.02), SAMPLES)


RATES = tuple(CopyRate(n, n / (n / 64 * 6.4 + 3.2)) for n in (64, 256, 4096))
MEASURED = Measurements(
    HOST,
    "2026-01-31",
    1.25,
    3.7e9,
    {"f64": timing(15.6), "f32": timing(32.3)},
    tuple(Bandwidth(2**n, 40.0 - n, 0.01) for n in (14, 19, 24, 27)),
    RATES,
    RATES,
    2e-5,
    1e-7,
    2,
    1.5,
)


def test_the_machine_has_the_measured_numbers(tmp_path):
    path = tmp_path / "folder" / "mine.toml"
    write_calibration(MEASURED, path)
    machine = load_machine(str(path))
    assert machine.clock_hz == 3_700_000_000
    assert (machine.core.flops_per_cycle, machine.core.peak_flops_per_cycle("f32")) == (16, 32)
    gemm = machine.section(GemmPrimitive)
    assert (gemm.f32.block_cycles, gemm.f32.cycles_per_k, gemm.f64.call_cycles) == (91.5, 28.25, 3)
    assert machine.find_section(Caches).l2.capacity_bytes == 2**20
    assert machine.find_section(Caches).l3.exposed_cycles_per_byte == pytest.approx(0.02)
    assert machine.spm.capacity_bytes == 3 * 2**18
    assert machine.direct_bytes_per_second == pytest.approx(13 * 3.7e9)
    assert machine.dma.get.peak_bytes_per_second == pytest.approx(10 * 3.7e9)
    assert machine.dma.put.block_overhead_transactions == pytest.approx(0.5)
    assert machine.threads == Threads(1, pytest.approx(370), 1.5)


def test_what_was_not_measured_is_as_shipped():
    tree = tomllib.loads(calibration_text(MEASURED))
    assert (tree["base"], tree["name"]) == ("host", "host")
    assert set(tree["primitives"]) == {"gemm"}
    assert "issue_cycles" not in tree["dma"]


def test_what_threads_do_on_a_busy_computer_is_as_shipped():
    shipped = find_machine("host").threads
    busy = replace(MEASURED, barrier_seconds=None, saturating=None)
    assert "threads" not in tomllib.loads(calibration_text(busy))
    assert "meet" not in " ".join(tomllib.loads(calibration_text(busy))["sources"])
    assert _head(MEASURED)[-1] == (
        "2 threads, best of many: 20.0 us to start and join, 100 ns to meet, 1.5 times as much "
        "from main memory as one"
    )
    assert _head(busy)[-2:] == (
        "2 threads, best of many: 20.0 us to start and join",
        "as shipped: threads.meet_cycles and threads.saturating; other programs had some of 2 "
        "processors in nearly all samples",
    )
    one = replace(MEASURED, saturating=None)
    assert _head(one)[-1].startswith("as shipped: threads.saturating; other")
    assert tomllib.loads(calibration_text(one))["threads"] == {"meet_cycles": 370}
    assert shipped.meet_cycles == 2000


def test_the_last_cache_stands_for_a_missing_one(tmp_path):
    two = replace(
        MEASURED,
        host=replace(HOST, caches=CACHES[:2]),
        reads=MEASURED.reads[:2] + MEASURED.reads[3:],
    )
    write_calibration(two, tmp_path / "two.toml")
    caches = load_machine(str(tmp_path / "two.toml")).find_section(Caches)
    assert (caches.l3.capacity_bytes, caches.l3.exposed_cycles_per_byte) == (2**20, 0.0)
    assert caches.l3.fill_bytes_per_cycle == caches.l2.fill_bytes_per_cycle == 13


def test_sources_say_when_where_and_how():
    sources = tomllib.loads(calibration_text(MEASURED))["sources"]
    assert sources["clock_hz"] == (
        "chain of dependent additions, 2026-01-31 on A ?CPU??? 9000, load 1.2"
    )
    assert sources["primitives.gemm.f32.block_cycles"] == (
        "fit over 1 products, mean error 0.4%, worst 1.7%, 2026-01-31 on A ?CPU??? 9000, load 1.2"
    )


@given(st.floats(0.5, 64), st.floats(0, 10))
def test_the_copy_rule_is_found(bytes_per_cycle, overhead):
    line = LINE_BYTES / bytes_per_cycle
    rates = [CopyRate(n, n / (line * (n / LINE_BYTES + overhead))) for n in (64, 128, 512, 4096)]
    assert copy_rule(rates) == pytest.approx((bytes_per_cycle, overhead), rel=1e-6, abs=1e-6)


def test_a_rule_has_no_negative_overhead():
    rate, overhead = copy_rule([CopyRate(64, 12.0), CopyRate(256, 9.0), CopyRate(4096, 8.0)])
    assert overhead == 0
    assert 8 < rate < 12


def test_the_folder_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert calibration_path() == tmp_path / "tilewright" / "host.toml"


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError) as caught:
        write_calibration(MEASURED, tmp_path / "file" / "host.toml")
    assert str(caught.value) == (
        f"the calibration cannot be kept in {tmp_path / 'file'}: File exists; "
        "name another file with --output"
    )
