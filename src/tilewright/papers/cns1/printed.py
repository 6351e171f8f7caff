"""The report's printed numbers beside those of formulas, table by table.

In: a table whose rows have, beside a printed number, the formula for ours and, in a column that our
formulas do not match, other arithmetic that does. Out: rows as printed, slips of their column, or
off by a difference (`papers.readings`). A formula is Python arithmetic over names: those that the
experiment passes, the quantities of the row's machine and network (`quantities_of`), `row(name,
table)` for ours and `printed(name, table)` for the printed number of a row of any table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from tilewright.papers.cns1.cases import CHIPS, MODEL, NETWORKS, TableCell
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Kind, Row
from tilewright.papers.published import read_published
from tilewright.papers.readings import Printed, Reading, judged_rows
from tilewright.targets.cns1.node import node_table
from tilewright.targets.cns1.sections import Codes, Hosts, Messages, NodeCaches, Rdram, Vectors
from tilewright.targets.cns1.timing.layers import (
    ELEMENT_BYTES,
    VECTOR_BYTES,
    WORD_BYTES,
    on_each_node,
    read_cycles,
    write_cycles,
)

PAPER = "cns1"
_BUILTINS = {"float": float, "len": len, "max": max, "min": min, "sum": sum}


class Stated(Printed, frozen=True):
    """A printed number with the formula for ours and its column's other arithmetic."""

    ours: str = ""
    reading: str = ""


@cache
def _stated(experiment: str) -> dict[str, Stated]:
    return {row.name: row for row in read_published(PAPER, experiment, Stated).rows}


def printed_numbers(experiment: str) -> dict[str, float]:
    """The printed numbers of a table by name."""
    return {name: float(row.value) for name, row in _stated(experiment).items()}


def cell_named(name: str) -> TableCell:
    """The cell of Table 3.1 that a row's name implies; the model conditions for what it omits."""
    nodes = 1024 if "1024 nodes" in name else MODEL.nodes
    usual = MODEL.network if nodes == MODEL.nodes else "768M"
    network = next((one for one in NETWORKS if re.match(rf"{one}\b", name)), usual)
    return TableCell(nodes, network, next((c for c in CHIPS if c in name), MODEL.chips))


@cache
def quantities_of(case: TableCell) -> Mapping[str, Any]:
    """Names of a machine and its network for formulas: sections of its description, the local
    layers, and cycles of accesses to a vector, a word and a byte.
    """
    machine, table = case.machine(), node_table(case.machine())
    return {
        "case": case,
        "machine": machine,
        "layers": case.layers,
        "local": on_each_node(machine, case.layers),
        "rdram": machine.section(Rdram),
        "caches": machine.section(NodeCaches),
        "hosts": machine.section(Hosts),
        "codes": machine.section(Codes),
        "messages": machine.section(Messages),
        "vectors": machine.section(Vectors),
        "fabric": machine.fabrics["torrents"],
        "table": table,
        "cache_bytes": machine.memory["cache"].capacity_bytes,
        "read": read_cycles(machine, VECTOR_BYTES),
        "write": write_cycles(machine, VECTOR_BYTES),
        "word": read_cycles(machine, WORD_BYTES),
        "byte": read_cycles(machine, ELEMENT_BYTES),
    }


def formula_value(formula: str, experiment: str, name: str, names: Mapping[str, Any]) -> float:
    """The value of a formula of the row `name`."""

    def row(other: str, table: str = experiment) -> float:
        return formula_value(_stated(table)[other].ours, table, other, names)

    def printed(other: str, table: str = experiment) -> float:
        return float(_stated(table)[other].value)

    own = {"__builtins__": _BUILTINS, "row": row, "printed": printed}
    # formulas are part of this package and as trusted as its modules; users' formulas are never
    # read
    found: float = eval(formula, {**names, **quantities_of(cell_named(name)), **own})
    return found


def reproduced(
    lab: Lab,
    experiment: str,
    names: Mapping[str, Any],
    texts: Mapping[str, str] | None = None,
    *,
    kind: Kind = "model",
    notes: Sequence[str] = (),
    beside: Sequence[Row] = (),
) -> Findings:
    """The rows of one table, then the rows `beside` it. Formulas may use `names`; `texts` describe
    each column's other arithmetic. A user's table has printed numbers only.
    """
    stated, table = _stated(experiment), lab.published(PAPER, experiment, _rows_of(lab))
    ours = {name: formula_value(one.ours, experiment, name, names) for name, one in stated.items()}
    readings = {
        column: Reading(
            text,
            {
                name: formula_value(one.reading, experiment, name, names)
                for name, one in stated.items()
                if one.column == column
            },
        )
        for column, text in (texts or {}).items()
    }
    rows = judged_rows([one for one in table.rows if one.name in ours], ours, readings, kind)
    notes = (f"published: {table.source}", *notes)
    return Findings((*rows, *beside), {"rows": len(rows)}, notes)


def _rows_of(lab: Lab) -> type[Printed]:
    """The row type; only our own tables have formulas."""
    return Stated if lab.rows is None else Printed
