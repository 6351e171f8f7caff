"""Cycles of every layer or stage by cause, as comma-separated values for a spreadsheet."""

from __future__ import annotations

import csv
import io

from tilewright.report.subject import Subject

TITLE = "Cycles of every layer or stage by cause, as CSV."
SUFFIX = ".csv"


def text(compiled: Subject) -> str:
    """One line per cause of each layer or stage. Cycles are those of one core group or thread,
    simulated or by the model.
    """
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow((compiled.heads[0], "cycles_by", "kind", "subject", "cycles"))
    for line in compiled.lines:
        for cause in line.causes:
            writer.writerow((line.name, line.causes_by, cause.kind, cause.subject, cause.cycles))
    return lines.getvalue()
