"""Probe a processor that no shipped description was measured on, once, in a fraction of a second.

In: the detected processor, and the shipped description for its vectors. Out: the path of a
description in the cache. Clock, multiply-adds per cycle, cache capacities, read rates and the
matrix kernel's waits are measured. Numbers that take longer to measure, as `calibrate` does, are
those of the shipped description, scaled by the measured rate that they follow.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewright.common.cache.store import CacheStore
from tilewright.common.digest import digest
from tilewright.common.dtypes import F32, FLOATS, DType
from tilewright.common.version import tool_version
from tilewright.machine.model import Machine
from tilewright.machine.sections import GemmPrimitive
from tilewright.targets.host.calibrating.description import (
    PARTS,
    Setting,
    cache_settings,
    description_text,
)
from tilewright.targets.host.calibrating.measure import (
    Bandwidth,
    ClockedRun,
    default_kernel,
    exposed,
    read_rate,
    working_sets,
)
from tilewright.targets.host.calibrating.probes import load_probes, peak_flops_per_call
from tilewright.targets.host.detect import HostDescription
from tilewright.targets.host.sections import Caches
from tilewright.tune.sampling import DEFAULT_PROTOCOL

_FEW, _MANY = (DEFAULT_PROTOCOL.hurried(rounds, 1e-3) for rounds in (3, 9))
"""Protocols for reads, as a pass over main memory takes long, and for differences of some per cent.
"""

_KEPT = CacheStore("processors")


@dataclass(frozen=True)
class Rates:
    """Rates of one thread, and the load of the computer while they were measured.

    `peaks` has floating-point operations per cycle by type, `reads` the levels nearest first, and
    `exposed` the cycles that the matrix kernel waits for a byte from beyond each cache.
    """

    clock_hz: float
    peaks: Mapping[str, float]
    reads: tuple[Bandwidth, ...]
    exposed: tuple[float, ...]
    load: float

    @property
    def source(self) -> str:
        """The source that a description names for the rates."""
        return f"probed at first use, load {self.load:.1f}"


def probed_description(host: HostDescription, base: Machine) -> Path:
    """Path of the description of `host`, from the cache or probed; other numbers are `base`'s.

    Raises ToolError without a C compiler.
    """
    processor = host.cpu_name, host.vendor, host.family, host.model, host.caches, base.name

    def make(folder: Path) -> None:
        text = probed_text(host, base, probe(host))
        (folder / "host.toml").write_text(text, encoding="utf-8")

    (path,) = _KEPT.files(digest(tool_version(), repr(processor)), make)
    return path


def probe(host: HostDescription) -> Rates:
    """Measure the rates, in some milliseconds each."""
    probes = load_probes(host.instruction_set)
    run, often = ClockedRun(probes, _FEW), ClockedRun(probes, _MANY)
    timings = often([probes.peak(kind) for kind in FLOATS])
    peaks = {
        kind.name: peak_flops_per_call(host.instruction_set, kind) / timings[f"peak {kind}"].seconds
        for kind in FLOATS
    }
    reads = tuple(read_rate(run, size) for size in working_sets(host))
    waits = exposed(host, default_kernel(host.instruction_set, F32), often)
    return Rates(statistics.median(often.clocks), peaks, reads, waits, os.getloadavg()[0])


def probed_text(host: HostDescription, base: Machine, rates: Rates) -> str:
    """The machine description as TOML."""
    about = f"{host.cpu_name}, {rates.source}; `tilewright calibrate host` measures more"
    settings = [
        ("clock_hz", round(rates.clock_hz), f"chain of dependent additions, {rates.source}"),
        *_products(host, base, rates),
        *_memory(host, base, rates),
    ]
    return description_text(base.name, about, settings)


def _products(host: HostDescription, base: Machine, rates: Rates) -> Iterator[Setting]:
    for kind in FLOATS:
        part, timing = PARTS[kind.name], base.section(GemmPrimitive).timing(kind.name)
        units = _units(host, kind, rates.peaks[kind.name])
        peak = units * 2 * host.instruction_set.lanes(kind)
        source = f"independent multiply-adds, {rates.peaks[kind.name]:.2f} measured, {rates.source}"
        yield f"{part}.flops_per_cycle", peak, source
        if timing is None:
            continue
        slower = base.core.arithmetic[kind.name].flops_per_cycle / peak
        source = f"those of {base.name}, by the ratio of flops_per_cycle"
        yield f"primitives.gemm.{kind}.cycles_per_k", timing.cycles_per_k * slower, source
        yield f"primitives.gemm.{kind}.block_cycles", timing.block_cycles * slower, source


def _units(host: HostDescription, kind: DType, peak_flops_per_cycle: float) -> int:
    """Vector multiply-adds that start per cycle, at least 1."""
    return max(1, round(peak_flops_per_cycle / (2 * host.instruction_set.lanes(kind))))


def _memory(host: HostDescription, base: Machine, rates: Rates) -> Iterator[Setting]:
    levels, behind = base.section(Caches).levels, [read.bytes_per_cycle for read in rates.reads[1:]]
    source = f"matrix kernel with an operand from behind this cache, {rates.source}"
    found = host, rates.reads, rates.exposed, source, rates.clock_hz, rates.source
    yield from cache_settings(*found)
    beyond = min(1, len(behind) - 1)
    faster = behind[beyond] * rates.clock_hz
    faster /= levels[beyond].fill_bytes_per_cycle * base.clock_hz
    source = f"that of {base.name}, by the ratio of reading from behind the second cache"
    for name, direction in base.transfer_engine("spm").directions.items():
        peak = direction.peak_bytes_per_second * faster
        yield f"dma.{name}.peak_bytes_per_second", peak, source
