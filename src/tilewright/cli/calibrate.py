"""`tilewright calibrate MACHINE`: measure the machine at hand and write its description."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from rich.table import Table

from tilewright.cli.arguments import Calibrate
from tilewright.cli.output import UsageProblem, progress_bar
from tilewright.machine.calibration import CALIBRATES, Calibrates, CalibrationTable
from tilewright.machine.family import family_names, find_family
from tilewright.report.table import plain_table


class CalibrationResult(Struct, frozen=True):
    """The measured values, and the file of the machine description."""

    file: str
    measured: Any


def run(asked: Calibrate) -> None:
    """Measure a machine that is at hand, and write its description to the file."""
    calibrates = _calibrates(asked.machine)
    with progress_bar(asked.output) as progress:
        found = calibrates.calibrate(asked.file, quick=asked.quick, progress=progress)
    asked.output.value(CalibrationResult(str(found.file), found.measured))
    asked.output.show(*found.head, *map(_table, found.tables))
    asked.output.show(f"written: {found.file}", f"use it: --machine {found.usable_as}")


def _calibrates(machine: str | None) -> Calibrates:
    """The calibration of the named machine. Raises UsageProblem where its family has none."""
    families = [CALIBRATES.of_family(find_family(name)) for name in family_names()]
    known = {found.machine: found for found in families if found is not None}
    if machine is None and len(known) == 1:
        return next(iter(known.values()))
    if machine not in known:
        names = " or ".join(repr(name) for name in sorted(known))
        raise UsageProblem(f"only the machine {names} can be measured, found {machine!r}")
    return known[machine]


def _table(found: CalibrationTable) -> Table:
    table = plain_table(found.title, found.columns)
    for row in found.rows:
        table.add_row(*row)
    return table
