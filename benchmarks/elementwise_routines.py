"""Prices of the SW26010's elementwise routines against the routines as they are emitted.

    python benchmarks/elementwise_routines.py [--quick] [--csv FILE]

Every routine runs on the instruction-level simulator over shapes that its price was not derived
from: rows in one loop and in two, by vectors and element by element.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from shared.output import note, text_table
from shared.results import add_csv_option, write_results

from tilewright.machine import Machine, load_machine
from tilewright.targets.sw26010.vector_code import MODES
from tilewright.targets.sw26010.vector_routines import Routine, all_routines
from tilewright.targets.sw26010.vector_timing import (
    nest_cycles,
    nest_terms,
    routine_program,
    rows_cycles,
    rows_terms,
    timings_of,
)

MACHINES = ("sw26010", "sw26010_measured")
NESTS = tuple((o, r, i) for o in (1, 3) for r in (3, 7, 16) for i in (6, 11, 28, 50))
CHANGES = tuple((r, new, old) for r in (3, 9) for new, old in ((14, 11), (11, 14), (40, 28)))


def errors(routine: Routine, table: str) -> Iterator[float]:
    """Of the price, relative to the simulated cycles."""
    for mode in MODES:
        program = routine_program(routine, table)
        fitted = getattr(timings_of(table).routines[routine.name], mode)
        if routine.work is None:
            for rows, new, old in CHANGES:
                terms = rows_terms(new > old, rows, max(new, old), min(new, old))
                exact = rows_cycles(routine, program, mode, (rows, new, old))
                yield abs(float(np.dot(fitted.coefficients, terms)) / exact - 1)
            continue
        # More elements than this leave the local memory.
        for outer, rows, items in (n for n in NESTS if np.prod(n) <= 1000):
            terms = nest_terms(routine.work.unrolled, outer * rows, items)
            exact = nest_cycles(routine, program, mode, (outer, rows, items))
            yield abs(float(np.dot(fitted.coefficients, terms)) / exact - 1)


def row_of(machine: Machine, routine: Routine) -> dict[str, object]:
    """One routine on one machine."""
    note(f"{machine.name}, {routine.name}")
    table = machine.core.instruction_table or ""
    found, fitted = list(errors(routine, table)), timings_of(table).routines[routine.name].vectors
    group = routine.work.unrolled if routine.work else 8
    per_group = fitted.coefficients[3]
    return {
        "machine": machine.name,
        "routine": routine.name,
        "call_cycles": f"{fitted.coefficients[0]:.0f}",
        "cycles_per_vector": f"{per_group / group:.3g}",
        "mean_percent": f"{100 * sum(found) / len(found):.2f}",
        "worst_percent": f"{100 * max(found):.2f}",
    }


def main() -> None:
    """Simulate, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two routines of one machine")
    add_csv_option(parser)
    arguments = parser.parse_args()
    cases = [(load_machine(m), r) for m in MACHINES for r in all_routines()]
    rows = [row_of(*case) for case in cases[: 2 if arguments.quick else None]]
    print(text_table(tuple(rows[0]), [tuple(row.values()) for row in rows]))
    write_results(
        arguments.csv,
        rows,
        title="Elementwise routines of the SW26010 and their prices",
        kind="simulated",
        processor="",
        conditions="shapes that no price was derived from, by vectors and by elements, rows in one "
        "loop and in two",
        meanings={
            "call_cycles": "of a call with one row",
            "cycles_per_vector": "in the loop of a row of whole vectors; of tw_repack_rows moved",
            "mean_percent": "error of the price",
            "worst_percent": "the same",
        },
    )


if __name__ == "__main__":
    main()
