"""Every layer's cycles by cause, as comma-separated values for a spreadsheet."""

from __future__ import annotations

import csv
import io

from tilewright.report.subject import Subject

TITLE = "Cycles of every layer by cause, as CSV."
SUFFIX = ".csv"


def text(compiled: Subject) -> str:
    """One line for each cause of each layer; cycles are those of one core group or thread."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(("layer", "timed_by", "kind", "subject", "cycles"))
    for layer in compiled.layers:
        found = compiled.explained(layer)
        for cause in found.causes if found else ():
            writer.writerow((layer.name, layer.timed_by, cause.kind, cause.subject, cause.cycles))
    return lines.getvalue()
