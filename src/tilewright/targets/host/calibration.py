"""Calibrate this computer: measurements in, the description that `host` then names out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilewright.common.progress import Progress
from tilewright.machine.calibration import Calibration
from tilewright.targets.host.calibrating.description import calibration_path, write_calibration
from tilewright.targets.host.calibrating.measure import measure_host
from tilewright.targets.host.calibrating.tables import calibration_head, calibration_tables
from tilewright.targets.host.detect import detect_host
from tilewright.targets.host.location import THIS_COMPUTER
from tilewright.tune.sampling import DEFAULT_PROTOCOL

_QUICK_ROUNDS, _QUICK_SECONDS = 3, 2e-3


@dataclass(frozen=True)
class HostCalibration:
    """Measures the computer that tilewright runs on."""

    machine: str = THIS_COMPUTER

    def calibrate(self, file: Path | None, *, quick: bool, progress: Progress) -> Calibration:
        """Measure and write the description; raises ToolError without a compiler."""
        protocol = DEFAULT_PROTOCOL
        if quick:
            protocol = protocol.hurried(_QUICK_ROUNDS, _QUICK_SECONDS)
        path = file or calibration_path()
        measured = measure_host(detect_host(), protocol, progress)
        write_calibration(measured, path)
        usable_as = self.machine if path == calibration_path() else str(path)
        return Calibration(
            path, usable_as, measured, calibration_head(measured), calibration_tables(measured)
        )


CALIBRATION = HostCalibration()
