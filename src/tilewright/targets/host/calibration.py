"""Calibrate this computer: measure it, and write the description that `host` then names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilewright.common.progress import Progress
from tilewright.machine.calibration import Calibration, CalibrationTable
from tilewright.targets.host.calibrating.description import calibration_path, write_calibration
from tilewright.targets.host.calibrating.measure import Measurements, measure_host
from tilewright.targets.host.detect import detect_host
from tilewright.targets.host.location import THIS_COMPUTER
from tilewright.tune.sampling import DEFAULT_PROTOCOL

_QUICK_ROUNDS, _QUICK_SECONDS = 3, 2e-3


@dataclass(frozen=True)
class HostCalibration:
    """Measures the computer that tilewright runs on."""

    machine: str = THIS_COMPUTER

    def calibrate(self, file: Path | None, *, quick: bool, progress: Progress) -> Calibration:
        """Measure this computer and write its description to `file`, by default the user's own.

        Raises ToolError without a compiler.
        """
        protocol = DEFAULT_PROTOCOL
        if quick:
            protocol = protocol.hurried(_QUICK_ROUNDS, _QUICK_SECONDS)
        path = file or calibration_path()
        measured = measure_host(detect_host(), protocol, progress)
        write_calibration(measured, path)
        usable_as = self.machine if path == calibration_path() else str(path)
        return Calibration(path, usable_as, measured, _head(measured), _tables(measured))


def _tables(measured: Measurements) -> tuple[CalibrationTable, ...]:
    """Printable tables of all measurements."""
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


def _head(measured: Measurements) -> tuple[str, ...]:
    """Lines on the processor, the assumptions about it, its clock and its threads."""
    host = measured.host
    return (
        f"{host.cpu_name}, {host.processors} processors, {host.instruction_set.name}, "
        f"{measured.clock_hz / 1e9:.2f} GHz, load {measured.load:.1f}, {measured.date}",
        *(f"assumed: {text}" for text in host.assumptions),
        f"{measured.threads} threads, best of many: "
        f"{measured.thread_start_seconds * 1e6:.1f} us to start and join{_together(measured)}",
        *_refused(measured),
    )


def _together(measured: Measurements) -> str:
    """Text on barriers and shared main memory, as far as these were measured."""
    meet, more = measured.barrier_seconds, measured.saturating
    found = "" if meet is None else f", {meet * 1e9:.0f} ns to meet"
    return found + ("" if more is None else f", {more:.1f} times as much from main memory as one")


def _refused(measured: Measurements) -> tuple[str, ...]:
    """A line naming the thread figures that were not measured and stay as shipped."""
    values = {"meet_cycles": measured.barrier_seconds, "saturating": measured.saturating}
    names = " and ".join(f"threads.{name}" for name, value in values.items() if value is None)
    why = f"other programs had some of {measured.threads} processors in nearly all samples"
    return (f"as shipped: {names}; {why}",) if names else ()


CALIBRATION = HostCalibration()
