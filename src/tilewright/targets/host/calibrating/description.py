"""Measurements as a machine description: the shipped machine `host` with this computer's numbers.

In: `Measurements`. Out: TOML text with `host` as its base that sets only measured or detected
numbers, each with its date, processor and load. Copies are fitted to the two-parameter rule of the
machine reference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilewright.codegen.fitting import fit_relative
from tilewright.codegen.folder import write_text
from tilewright.common.errors import ToolError
from tilewright.targets.host.calibrating.measure import (
    Bandwidth,
    CopyRate,
    KernelTiming,
    Measurements,
)
from tilewright.targets.host.detect import HostDescription
from tilewright.targets.host.vectors.microkernel import DEFAULT_BLOCKS, LINE_BYTES

_LEVELS = ("l1", "l2", "l3")
PARTS = {"f64": "core", "f32": "core.f32"}
"""Key of the table with the numbers of each element type."""

Setting = tuple[str, float, str]
"""(dotted key, value, source)."""


def calibration_path() -> Path:
    """Path of this computer's calibration: below $XDG_CONFIG_HOME, or ~/.config."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "tilewright" / "host.toml"


def write_calibration(measured: Measurements, path: Path) -> None:
    """Write the machine description. Raises ToolError if the folder cannot be made, ArtifactError
    if the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(
            f"the calibration cannot be kept in {path.parent}: {error.strerror}",
            fix="name another file with --output",
        ) from error
    write_text(path, calibration_text(measured))


def calibration_text(measured: Measurements) -> str:
    """The machine description as TOML."""
    about = f"{measured.host.cpu_name}, calibrated on {measured.date}, one thread"
    text = description_text("host", about, list(settings(measured)))
    written = (
        "# Written by `tilewright calibrate host`; everything else is as in the shipped machine."
    )
    return f"{written}\n{text}"


def description_text(base: str, about: str, found: Sequence[Setting]) -> str:
    """TOML of a machine called `host` that changes the machine `base` by the settings `found`."""
    lines = [
        f"base = {_quoted(base)}",
        'name = "host"',
        f"description = {_quoted(about)}",
        *(f"{key} = {_number(value)}" for key, value, _ in found),
        "",
        "[sources]",
        *(f"{_quoted(key)} = {_quoted(source)}" for key, _, source in found),
    ]
    return "\n".join(lines) + "\n"


def settings(measured: Measurements) -> Iterator[Setting]:
    """Every number that a calibration sets, with its source."""
    host = measured.host
    here = f"{measured.date} on {host.cpu_name}, load {measured.load:.1f}"
    yield "clock_hz", round(measured.clock_hz), f"chain of dependent additions, {here}"
    yield "core.registers", host.instruction_set.registers, f"{host.instruction_set.name}, {here}"
    vectors, scalars = DEFAULT_BLOCKS[host.instruction_set.name]
    why = f"the register block for {host.instruction_set.name}"
    yield "primitives.gemm.register_block_vectors", vectors, why
    yield "primitives.gemm.register_block_scalars", scalars, why
    lanes = host.instruction_set.vector_bytes // 8
    yield "primitives.gemm.lanes", lanes, f"doubles in a vector of {host.instruction_set.name}"
    yield from _memory(measured, here)
    if measured.barrier_seconds is not None:
        meet = measured.barrier_seconds * measured.clock_hz
        yield "threads.meet_cycles", meet, f"{measured.threads} threads at a barrier, {here}"
    if measured.saturating is not None:
        source = f"{measured.threads} threads and one reading, {here}"
        yield "threads.saturating", measured.saturating, source
    for direction, rates in (("get", measured.gets), ("put", measured.puts)):
        yield from _copies(direction, rates, measured.clock_hz, here)
    for name, timing in sorted(measured.kernels.items()):
        yield from _kernel(name, timing, measured, here)


def _memory(measured: Measurements, here: str) -> Iterator[Setting]:
    host, kernels = measured.host, list(measured.kernels.values())
    yield "memory.main.capacity_bytes", host.memory_bytes, f"/proc/meminfo, {here}"
    exposed = [
        sum(k.exposed_cycles_per_byte[i] for k in kernels) / len(kernels)
        for i in range(len(host.caches))
    ]
    source = f"matrix kernel with an operand from behind this cache, {here}"
    yield from cache_settings(host, measured.reads, exposed, source, measured.clock_hz, here)


def cache_settings(
    host: HostDescription,
    reads: Sequence[Bandwidth],
    exposed: Sequence[float],
    exposed_source: str,
    clock_hz: float,
    here: str,
) -> Iterator[Setting]:
    """Capacities of the caches, and the cost of a byte from beyond each: `exposed` cycles, at no
    more than the rate in `reads` of the level behind. A missing cache is described by the last
    one, with no further exposed cycles.
    """
    packed = host.cache(2).size_bytes * 3 // 4
    yield "memory.spm.capacity_bytes", packed, f"three quarters of the level 2 cache, {here}"
    far = reads[-1]
    source = f"reading {far.size_bytes} bytes, {here}"
    yield "memory.main.direct_bytes_per_second", far.bytes_per_cycle * clock_hz, source
    for number, level in enumerate(_LEVELS):
        i = min(number, len(host.caches) - 1)
        cache, behind = host.caches[i], reads[i + 1]
        key, source = f"memory.caches.{level}", f"reading {behind.size_bytes} bytes, {here}"
        yield f"{key}.capacity_bytes", cache.size_bytes, f"/sys, {here}"
        yield f"{key}.exposed_cycles_per_byte", exposed[i] if i == number else 0.0, exposed_source
        yield f"{key}.fill_bytes_per_cycle", behind.bytes_per_cycle, source
        yield f"{key}.ways", cache.ways, f"/sys, {here}"


def copy_rule(rates: Sequence[CopyRate]) -> tuple[float, float]:
    """(bytes per cycle, overhead in lines): a run of s bytes costs s / 64 lines plus overhead."""
    terms = [(rate.run_bytes / LINE_BYTES, 1.0) for rate in rates]
    cycles = [rate.run_bytes / rate.bytes_per_cycle for rate in rates]
    line, run = fit_relative(terms, cycles, ["lines", "1"], "copy")
    if run < 0:
        (line,) = fit_relative([t[:1] for t in terms], cycles, ["lines"], "copy")
        return LINE_BYTES / float(line), 0.0
    return LINE_BYTES / float(line), float(run / line)


def _copies(
    direction: str, rates: Sequence[CopyRate], clock_hz: float, here: str
) -> Iterator[Setting]:
    peak, overhead = copy_rule(rates)
    runs = f"runs of {rates[0].run_bytes} to {rates[-1].run_bytes} bytes from the last cache"
    source = f"fit of copies of {runs}, {here}"
    yield f"dma.{direction}.peak_bytes_per_second", peak * clock_hz, source
    yield f"dma.{direction}.block_overhead_transactions", overhead, source


def _kernel(
    name: str, timing: KernelTiming, measured: Measurements, here: str
) -> Iterator[Setting]:
    isa, part = measured.host.instruction_set, PARTS[name]
    lanes = isa.vector_bytes // (8 if name == "f64" else 4)
    yield f"{part}.vector_lanes", lanes, f"vectors of {isa.name}"
    measure = f"independent multiply-adds, {timing.peak_flops_per_cycle:.2f} measured, {here}"
    units = max(1, round(timing.peak_flops_per_cycle / (2 * lanes)))
    yield f"{part}.flops_per_cycle", units * 2 * lanes, measure
    if name == "f32":
        integers = "assumption: a vector multiplication and an addition a cycle"
        yield "core.arithmetic.i32.vector_lanes", lanes, f"vectors of {isa.name}"
        yield "core.arithmetic.i32.flops_per_cycle", 2 * lanes, integers
    else:
        several = "assumption: some eight instructions multiply integers of 64 bits"
        yield "core.arithmetic.i64.vector_lanes", lanes, f"vectors of {isa.name}"
        yield "core.arithmetic.i64.flops_per_cycle", max(1, lanes // 2), several
    error = f"mean error {timing.mean_error:.1%}, worst {timing.worst_error:.1%}"
    source = f"fit over {len(timing.samples)} products, {error}, {here}"
    for key in ("call_cycles", "row_cycles", "block_cycles", "cycles_per_k"):
        yield f"primitives.gemm.{name}.{key}", getattr(timing, key), source


def _quoted(text: str) -> str:
    """A TOML string; characters other than printable ASCII become question marks."""
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "?" for c in text)
    return f'"{plain}"'


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"
