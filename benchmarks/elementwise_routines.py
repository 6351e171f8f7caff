"""Prices of the SW26010's elementwise routines against the routines as they are emitted.

    python benchmarks/elementwise_routines.py [--quick] [--csv FILE]

Every routine runs on the instruction-level simulator over rows of one item and of many, in one loop
and in several, by vectors and element by element; those of maps are the frequent ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from shared.output import note, text_table
from shared.results import add_csv_option, write_results

from tilewright.machine import Machine, load_machine
from tilewright.targets.sw26010.map_timing import (
    frequent_routines,
    map_cycles,
    map_terms,
    map_timing,
)
from tilewright.targets.sw26010.vector_code import MODES
from tilewright.targets.sw26010.vector_map import MapRoutine
from tilewright.targets.sw26010.vector_routines import Routine, all_routines
from tilewright.targets.sw26010.vector_rows import UNROLLED
from tilewright.targets.sw26010.vector_timing import (
    RoutineTiming,
    assembled,
    nest_cycles,
    nest_terms,
    rows_cycles,
    rows_terms,
    sampled_rows,
    timings_of,
)

MACHINES = ("sw26010", "sw26010_cg", "sw26010_measured")
LOOPS = ((1,), (3,), (16,), (2, 3), (3, 7), (2, 2, 2), (2, 1, 3, 2), (2, 2, 1, 1, 3))
NESTS = tuple((*loops, items) for loops in LOOPS for items in (1, 2, 3, 4, 5, 6, 11, 28, 50))
CHANGES = tuple(
    (r, new, old)
    for r in (0, 1, 3, 9)
    for new, old in ((0, 3), (1, 2), (4, 2), (14, 11), (11, 14), (40, 28))
)
_MOST_ITEMS = 1000
"""More elements than this leave the local memory."""


def timing_of(routine: Routine | MapRoutine, table: str) -> RoutineTiming:
    """The coefficients of its price."""
    if isinstance(routine, MapRoutine):
        return map_timing(table, routine)
    return timings_of(table).routines[routine.name]


def unrolled_of(routine: Routine | MapRoutine) -> int:
    """Items of a trip of the loop of a row."""
    if isinstance(routine, MapRoutine):
        return routine.unrolled
    return routine.work.unrolled if routine.work else UNROLLED


def errors(routine: Routine | MapRoutine, table: str) -> Iterator[float]:
    """Of the price, relative to the simulated cycles."""
    program = assembled(routine.text(), table)
    for mode in MODES:
        coefficients = getattr(timing_of(routine, table), mode).coefficients
        if isinstance(routine, Routine) and routine.work is None:
            for moved, new, old in CHANGES:
                terms = rows_terms(new > old, moved, max(new, old), min(new, old))
                exact = rows_cycles(routine, program, mode, (moved, new, old))
                yield abs(float(np.dot(coefficients, terms)) / exact - 1)
            continue
        for counts in (n for n in NESTS if np.prod(n) <= _MOST_ITEMS):
            rows = sampled_rows(mode, counts)
            if isinstance(routine, MapRoutine):
                terms = map_terms(routine, mode, rows)
                exact = map_cycles(routine, program, mode, counts)
            else:
                terms = nest_terms(unrolled_of(routine), rows)
                exact = nest_cycles(routine, program, mode, counts)
            yield abs(float(np.dot(coefficients, terms)) / exact - 1)


def row_of(machine: Machine, routine: Routine | MapRoutine) -> dict[str, object]:
    """One routine on one machine."""
    note(f"{machine.name}, {routine.name}")
    table = machine.core.instruction_table or ""
    found, coefficients = (
        list(errors(routine, table)),
        timing_of(routine, table).vectors.coefficients,
    )
    is_rows = isinstance(routine, Routine) and routine.work is None
    group = coefficients[4 if is_rows else 7]
    still = ""
    if isinstance(routine, MapRoutine):
        same = [f"x{i}" for i, stays in enumerate(routine.still) if stays]
        still = f"{routine.expression}{', still: ' * bool(same)}{' '.join(same)}"
    return {
        "machine": machine.name,
        "routine": routine.name,
        "expression": still,
        "call_cycles": f"{coefficients[1 if is_rows else 0]:.0f}",
        "cycles_per_vector": f"{group / unrolled_of(routine):.3g}",
        "mean_percent": f"{100 * sum(found) / len(found):.2f}",
        "worst_percent": f"{100 * max(found):.2f}",
    }


def main() -> None:
    """Simulate, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two routines of one machine")
    add_csv_option(parser)
    arguments = parser.parse_args()
    routines = (*all_routines(), *frequent_routines())
    cases = [(load_machine(m), r) for m in MACHINES for r in routines]
    rows = [row_of(*case) for case in cases[: 2 if arguments.quick else None]]
    print(text_table(tuple(rows[0]), [tuple(row.values()) for row in rows]))
    write_results(
        arguments.csv,
        rows,
        title="Elementwise routines of the SW26010 and their prices",
        kind="simulated",
        processor="",
        conditions="rows of one item and of many, in one loop and in up to five, by vectors and by "
        "elements, most of which no price was derived from",
        meanings={
            "expression": "of a map, and its operands that stay the same along a row",
            "call_cycles": "of a call with one row",
            "cycles_per_vector": "in the loop of a row of whole vectors; of tw_repack_rows moved",
            "mean_percent": "error of the price",
            "worst_percent": "the same",
        },
    )


if __name__ == "__main__":
    main()
