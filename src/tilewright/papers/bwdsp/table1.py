"""Table 1: the parameters of the formulas, and how many of Eqs. 1 to 5 use each."""

from __future__ import annotations

from tilewright.papers.bwdsp.equations import FORMULAS
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result, Row, compare

TITLE = "parameters of the formulas"
_PARAMETERS = {
    "N": "cores",
    "I_H": "height of the input",
    "I_W": "width of the input",
    "O_H": "height of the output",
    "O_W": "width of the output",
    "C": "channels of the output; Table 2 takes them for what moves, which is input",
    "F_H": "height of the kernel",
    "F_W": "width of the kernel",
    "S_H": "vertical stride",
    "S_W": "horizontal stride",
    "P": "padding",
    "AVG_H": "rows that a core computes; Eqs. 3 to 5 give those that it reads",
    "AVG_W": "columns that a core computes; likewise",
}


def run(lab: Lab) -> Result:
    """A row for each parameter."""
    uses = {name: sum(name in words for words in FORMULAS.values()) for name in _PARAMETERS}
    rows: list[Row] = [
        compare(name, None, uses[name], "exact", note=meaning, unit="formulas")
        for name, meaning in _PARAMETERS.items()
    ]
    unused = ", ".join(name for name, count in uses.items() if not count)
    return Result(
        paper="bwdsp",
        experiment="table1",
        title=TITLE,
        rows=tuple(rows),
        summary={"parameters that no formula uses": unused},
        notes=("Eq. 4 has no N: nothing in it divides by the number of cores",),
    )
