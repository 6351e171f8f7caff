"""`tilewright calibrate host`: measure this computer and keep its machine description."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from tilewright.cli.output import OutputOptions, UsageProblem, progress_bar
from tilewright.report.calibration import calibration_head, calibration_tables
from tilewright.targets.host.calibrate import Measurements, measure_host
from tilewright.targets.host.calibration_file import calibration_path, write_calibration
from tilewright.targets.host.detect import detect_host
from tilewright.targets.host.sampling import DEFAULT_PROTOCOL

_QUICK_ROUNDS, _QUICK_SECONDS = 3, 2e-3


class CalibrationResult(Struct, frozen=True):
    """What was measured, and where the machine description is."""

    file: str
    measured: Measurements


def calibrate_command(
    output: OutputOptions,
    machine: Annotated[str, typer.Argument(help="Only the computer itself: host.")] = "host",
    file: Annotated[
        Path | None, typer.Option("--output", "-o", help="File of the description.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Fewer and shorter samples.")] = False,
) -> None:
    """Measure this computer and write a machine description with its numbers."""
    if machine != "host":
        raise UsageProblem(f"only the machine 'host' can be measured, found {machine!r}")
    protocol = DEFAULT_PROTOCOL
    if quick:
        protocol = protocol.hurried(_QUICK_ROUNDS, _QUICK_SECONDS)
    path = file or calibration_path()
    with progress_bar(output) as advance:
        measured = measure_host(detect_host(), protocol, advance)
    write_calibration(measured, path)
    output.value(CalibrationResult(str(path), measured))
    output.show(*calibration_head(measured), *calibration_tables(measured))
    used = "host" if path == calibration_path() else path
    output.show(f"written: {path}", f"use it: --machine {used}")
