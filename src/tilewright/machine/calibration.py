"""Calibration: the capability of families that measure the computer at hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tilewright.common.progress import Progress
from tilewright.machine.family import Capability


@dataclass(frozen=True)
class CalibrationTable:
    """A table of measurements as text, with a heading for each column."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Calibration:
    """A measured machine description: its file, the name or path to use it by, and the measurements
    as a value and as text.
    """

    file: Path
    usable_as: str
    measured: object
    head: tuple[str, ...]
    tables: tuple[CalibrationTable, ...]


class Calibrates(Protocol):
    """A family whose machine can be measured on the computer at hand."""

    @property
    def machine(self) -> str:
        """The name of the measured machine."""

    def calibrate(self, file: Path | None, *, quick: bool, progress: Progress) -> Calibration:
        """Measure, and write the description to `file` or, by default, to its usual path.

        Raises ToolError if there is no compiler or the file cannot be written.
        """


CALIBRATES: Capability[Calibrates] = Capability(
    "calibration", ("calibrate",), "way to be measured here"
)
