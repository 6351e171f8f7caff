"""Tables of a calibration: kernels, memory levels, copies, threads; all of it measured."""

from __future__ import annotations

from tilewright.machine.calibration import CalibrationTable
from tilewright.targets.host.calibrating.measure import Measurements


def calibration_tables(measured: Measurements) -> tuple[CalibrationTable, ...]:
    """Tables of all measurements, for readers."""
    return _kernels(measured), _memory(measured), _copies(measured)


def _kernels(measured: Measurements) -> CalibrationTable:
    columns = (
        "type",
        "block",
        "peak flop/cycle",
        "best % of it",
        "cycles per block",
        "cycles per k",
        "model error, mean / worst",
    )
    rows = [
        (
            name,
            timing.block,
            f"{timing.peak_flops_per_cycle:.2f}",
            f"{100 * timing.best_peak_fraction:.1f}",
            f"{timing.block_cycles:.1f}",
            f"{timing.cycles_per_k:.2f}",
            f"{timing.mean_error:.1%} / {timing.worst_error:.1%}",
        )
        for name, timing in sorted(measured.kernels.items())
    ]
    return CalibrationTable("matrix kernels, measured", columns, tuple(rows))


def _memory(measured: Measurements) -> CalibrationTable:
    """Memory levels: a loop's read bandwidth, and the matrix kernel's exposed cycles per byte."""
    columns = ("level", "working set", "bytes/cycle", "spread", "exposed cycles/byte")
    levels = [f"cache {c.level}" for c in measured.host.caches] + ["main memory"]
    kernels, rows = list(measured.kernels.values()), []
    for i, (level, read) in enumerate(zip(levels, measured.reads, strict=True)):
        exposed = [k.exposed_cycles_per_byte[i - 1] for k in kernels] if i else []
        row = (
            level,
            str(read.size_bytes),
            f"{read.bytes_per_cycle:.1f}",
            f"{read.spread:.1%}",
            f"{sum(exposed) / len(exposed):.4f}" if exposed else "",
        )
        rows.append(row)
    return CalibrationTable("memory levels, measured", columns, tuple(rows))


def _copies(measured: Measurements) -> CalibrationTable:
    title = "copies between the last cache and packed buffers, measured, bytes/cycle"
    rows = [
        (str(get.run_bytes), f"{get.bytes_per_cycle:.1f}", f"{put.bytes_per_cycle:.1f}")
        for get, put in zip(measured.gets, measured.puts, strict=True)
    ]
    return CalibrationTable(title, ("run bytes", "into the buffer", "out of it"), tuple(rows))


def calibration_head(measured: Measurements) -> tuple[str, ...]:
    """The processor, the assumptions about it, clock and threads."""
    host = measured.host
    return (
        f"{host.cpu_name}, {host.processors} processors, {host.instruction_set.name}, "
        f"{measured.clock_hz / 1e9:.2f} GHz, load {measured.load:.1f}, {measured.date}",
        *(f"assumed: {text}" for text in host.assumptions),
        f"{measured.threads} threads: {measured.thread_start_seconds * 1e6:.1f} us to start and "
        f"join, {measured.barrier_seconds * 1e9:.0f} ns to meet, {measured.saturating:.1f} times "
        "as much from main memory as one (best of many)",
    )
