"""Detect this computer's processor: cores, caches and instruction sets, as the system reports them.

In: Linux's /proc and /sys below a root folder (another one in tests). Out: a `HostDescription`.
Missing facts are assumed, and every assumption is listed.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from tilewright.targets.host.vectors.instruction_sets import InstructionSet, best_instruction_set

_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}
_ASSUMED_CACHES, _ASSUMED_WAYS = {1: 32 * 2**10, 2: 512 * 2**10}, 8
"""Bytes by level, and ways, where the system does not tell them."""


@dataclass(frozen=True)
class CacheLevel:
    """One data or unified cache; `shared_by` counts the processors that share it."""

    level: int
    size_bytes: int
    ways: int
    shared_by: int


@dataclass(frozen=True)
class HostDescription:
    """The computer: its processor's names, the number of processors that this process may use,
    memory, caches nearest first, and the best instruction set.

    `vendor`, `family` and `model` are as in /proc/cpuinfo, which calls them implementer,
    architecture and part on Arm. `assumptions` states each fact that the system did not report.
    """

    cpu_name: str
    vendor: str
    family: str
    model: str
    processors: int
    memory_bytes: int
    caches: tuple[CacheLevel, ...]
    instruction_set: InstructionSet
    assumptions: tuple[str, ...] = ()

    def cache(self, level: int) -> CacheLevel:
        """The cache of one level; the farthest cache if that level does not exist."""
        found = [c for c in self.caches if c.level == level]
        return found[0] if found else self.caches[-1]


def detect_host(root: Path = Path("/")) -> HostDescription:
    """Describe this computer from the files below `root`."""
    fields = _cpu_fields(root)
    assumptions: list[str] = []
    flags = (fields.get("flags") or fields.get("Features", "")).split()
    if not flags:
        assumptions.append("the processor's features are not told: no vector extension is used")
    caches = _caches(root)
    for level, size in _ASSUMED_CACHES.items():
        if not any(c.level == level for c in caches):
            caches.append(CacheLevel(level, size, _ASSUMED_WAYS, 1))
            assumptions.append(f"the size of the level {level} cache is not told: {size} bytes")
    if not any(c.level >= 3 for c in caches):
        assumptions.append("no level 3 cache is told: level 2 is taken as the last")
    memory = _memory_bytes(root)
    if not memory:
        memory = 4 * 2**30
        assumptions.append(f"the size of main memory is not told: {memory} bytes")
    return HostDescription(
        fields.get("model name") or platform.processor() or platform.machine(),
        fields.get("vendor_id") or fields.get("CPU implementer", ""),
        fields.get("cpu family") or fields.get("CPU architecture", ""),
        fields.get("model") or fields.get("CPU part", ""),
        usable_processors(),
        memory,
        tuple(sorted(caches, key=lambda c: c.level)),
        best_instruction_set(flags),
        tuple(assumptions),
    )


def usable_processors() -> int:
    """Number of processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _cpu_fields(root: Path) -> dict[str, str]:
    """The fields of the first processor of /proc/cpuinfo."""
    first = _text(root / "proc/cpuinfo").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _memory_bytes(root: Path) -> int:
    match = re.search(r"^MemTotal:\s*([0-9]+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def _caches(root: Path) -> list[CacheLevel]:
    """The data and unified caches of the first processor."""
    found = []
    for folder in sorted(root.glob("sys/devices/system/cpu/cpu0/cache/index*")):
        level, size = _text(folder / "level"), _size(_text(folder / "size"))
        if _text(folder / "type") == "Instruction" or not level.isdigit() or not size:
            continue
        ways = _text(folder / "ways_of_associativity")
        found.append(
            CacheLevel(
                int(level),
                size,
                int(ways) if ways.isdigit() else _ASSUMED_WAYS,
                _count(_text(folder / "shared_cpu_list")),
            )
        )
    return found


def _size(text: str) -> int:
    match = re.fullmatch(r"([0-9]+)([KMG]?)", text)
    return int(match[1]) * _UNITS.get(match[2], 1) if match else 0


def _count(cpus: str) -> int:
    """Number of processors in a list such as 0-3,8; 1 for a list of another form.

    >>> _count("0-3,8")
    5
    """
    total = 0
    for part in filter(None, cpus.split(",")):
        first, _, last = part.partition("-")
        if not (first.isdigit() and (last or first).isdigit()):
            return 1
        total += int(last or first) - int(first) + 1
    return max(1, total)
