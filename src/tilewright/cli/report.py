"""`tilewright report`: a compiled folder as a page or a table."""

from __future__ import annotations

from msgspec import Struct

from tilewright.cli.arguments import Report
from tilewright.codegen.folder import write_text
from tilewright.common.errors import ToolError
from tilewright.compiler.artifact import read_compiled
from tilewright.report.subject import load_report, report_titles


class ReportResult(Struct, frozen=True):
    """The `--json` form of `report`: the number of `layers` or stages, and the file `written`."""

    report: str
    layers: int
    written: str


def run(asked: Report) -> None:
    """Write the report, by default to a file in the folder itself."""
    folder, kind, output = asked.folder, asked.kind, asked.output
    known = report_titles()
    if kind not in known:
        raise ToolError(f"there is no report {kind!r}", fix=f"the reports are {', '.join(known)}")
    report, compiled = load_report(kind), read_compiled(folder)
    path = asked.to or folder / f"report{report.suffix}"
    write_text(path, report.text(compiled))
    output.value(ReportResult(kind, len(compiled.lines), str(path)))
    output.show(f"written to {path}")
