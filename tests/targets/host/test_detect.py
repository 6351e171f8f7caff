"""Processor facts come from /proc and /sys; missing ones are assumed, and said."""

import pytest

from tilewright.targets.host.detect import CacheLevel, detect_host
from tilewright.targets.host.vectors.instruction_sets import AVX2, INSTRUCTION_SETS, PORTABLE

CPU = """\
processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: Some Processor 9000
cpu family\t: 25
model\t\t: 17
siblings\t: 4
cpu cores\t: 2
flags\t\t: fpu sse2 avx2 fma

processor\t: 1
model name\t: another
"""


def write_cache(root, index, kind, level, size, shared="0", ways="8"):
    folder = root / f"sys/devices/system/cpu/cpu0/cache/index{index}"
    folder.mkdir(parents=True)
    texts = {
        "type": kind,
        "level": level,
        "size": size,
        "shared_cpu_list": shared,
        "ways_of_associativity": ways,
    }
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n")


@pytest.fixture
def root(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(CPU)
    (tmp_path / "proc/meminfo").write_text("MemTotal:       1000 kB\nMemFree: 3 kB\n")
    write_cache(tmp_path, 0, "Data", 1, "48K", ways="12")
    write_cache(tmp_path, 1, "Instruction", 1, "32K")
    write_cache(tmp_path, 2, "Unified", 2, "2M", "0-1")
    write_cache(tmp_path, 3, "Unified", 3, "32M", "0-3,8")
    return tmp_path


ARM = """\
processor\t: 0
Features\t: fp asimd
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
"""


def test_processors_of_other_makers_are_named_by_fields_of_their_own(root):
    (root / "proc/cpuinfo").write_text(ARM)
    host = detect_host(root)
    assert (host.vendor, host.family, host.model) == ("0x41", "8", "0xd0c")
    assert host.instruction_set is PORTABLE
    assert host.assumptions == ()


def test_instruction_sets_have_the_vector_registers_of_their_manuals():
    """512 bits in 32 registers, 256 in 16, and 128 in 16 of any processor of 64 bits."""
    vectors = [(8 * own.vector_bytes, own.registers) for own in INSTRUCTION_SETS]
    assert vectors == [(512, 32), (256, 16), (128, 16)]


def test_everything_told(root):
    host = detect_host(root)
    assert host.cpu_name == "Some Processor 9000"
    assert (host.vendor, host.family, host.model) == ("AuthenticAMD", "25", "17")
    assert host.memory_bytes == 1000 * 1024
    assert host.instruction_set is AVX2
    assert host.caches == (
        CacheLevel(1, 48 * 1024, 12, 1),
        CacheLevel(2, 2 * 1024**2, 8, 2),
        CacheLevel(3, 32 * 1024**2, 8, 5),
    )
    assert host.assumptions == ()


def test_nothing_told(tmp_path):
    host = detect_host(tmp_path)
    assert host.instruction_set is PORTABLE
    assert [c.level for c in host.caches] == [1, 2]
    assert host.cache(3) == host.cache(2)
    assert host.assumptions == (
        "the processor's features are not told: no vector extension is used",
        "the size of the level 1 cache is not told: 32768 bytes",
        "the size of the level 2 cache is not told: 524288 bytes",
        "no level 3 cache is told: level 2 is taken as the last",
        "the size of main memory is not told: 4294967296 bytes",
    )


def test_this_computer():
    host = detect_host()
    assert host.processors >= 1
    assert host.instruction_set in INSTRUCTION_SETS
    assert host.cache(1).size_bytes <= host.cache(2).size_bytes
