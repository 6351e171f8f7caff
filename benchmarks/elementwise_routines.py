"""Prices of the SW26010's elementwise routines against the routines as they are emitted.

    python benchmarks/elementwise_routines.py [--quick] [--csv FILE]

Every routine runs on the instruction-level simulator, over rows of one item and of many, in one
loop and in several, by vectors and element by element. Maps and reductions are the frequent ones,
and some of other functions.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import cycle
from math import prod
from typing import Any

from shared.output import note, text_table
from shared.results import add_csv_option, write_results

from tilewright.machine import Machine, load_machine
from tilewright.targets.sw26010.elementwise.lie import ELEMENTS, Lie
from tilewright.targets.sw26010.elementwise.maps import MapRoutine, map_routine
from tilewright.targets.sw26010.elementwise.reduce import PARTS, ReduceRoutine, reduce_routine
from tilewright.targets.sw26010.elementwise.routines import UNROLLED, Routine, all_routines
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES
from tilewright.targets.sw26010.timing.derived import Derived
from tilewright.targets.sw26010.timing.maps import MAPS
from tilewright.targets.sw26010.timing.nests import NESTS, around
from tilewright.targets.sw26010.timing.reductions import REDUCTIONS, Extents

MACHINES = ("sw26010", "sw26010_cg", "sw26010_measured")
LOOPS = ((1,), (3,), (16,), (2, 3), (3, 7), (2, 2, 2), (2, 1, 3, 2), (2, 2, 1, 1, 3))
COUNTS = tuple((*loops, items) for loops in LOOPS for items in (1, 2, 3, 4, 5, 6, 11, 28, 50))
CHANGES = tuple(
    (r, new, old)
    for r in (0, 1, 3, 9)
    for new, old in ((0, 3), (1, 2), (4, 2), (14, 11), (11, 14), (40, 28))
)
_MOST_ITEMS = 1000
"""Most items of a sample: more do not fit the local memory."""
_SOFTPLUS = "log1p(exp(-abs(x0))) + (0.0 if x0 < 0.0 else x0)"
FUNCTIONS = (
    "floor(x0)",
    "ceil(x0)",
    "sqrt(x0)",
    "exp(x0)",
    "log(x0)",
    "log1p(x0)",
    "1.0 / (1.0 + exp(-x0))",
    _SOFTPLUS,
    "0.1 * expm1(x0) if x0 < 0.0 else x0",
    "pow(x0, 2.2)",
    "pow(x0, 3.0)",
)
GATHERED = ("abs(x0)", "exp(x0)", "log(x0)", "pow(abs(x0), 0.75)", "pow(abs(x0), 2.2)")
LIES = (Lie(1), Lie(2, 3, loops=True), Lie(0, 2), Lie(0, along=True))
AROUND, LENGTHS = ((2, 3), (5, 1), (1, 2)), (31, 12, 7, 1, 16, 49)
"""Iterations of the two outer gathering loops, and elements of a contiguous run, in turn."""
Emitted = Routine | MapRoutine | ReduceRoutine


def all_of_them() -> Iterator[Emitted]:
    """Every routine of tiles and the frequent ones of expressions; further expressions in f64
    alone, since f32 uses the same arithmetic.
    """
    yield from all_routines()
    yield from MAPS.frequent()
    yield from REDUCTIONS.frequent()
    found = [map_routine(expression, (False,), "f64") for expression in FUNCTIONS]
    found.append(map_routine("pow(x0, x1)", (False, False), "f64"))
    yield from (routine for routine in found if routine)
    reduced = [reduce_routine("sum", e, lie, "f64") for e in GATHERED for lie in LIES]
    yield from (routine for routine in reduced if routine)


def text_of(routine: Emitted) -> str:
    """Description of a routine for the table."""
    match routine:
        case Routine():
            return ""
        case MapRoutine():
            same = [f"x{i}" for i, stays in enumerate(routine.still) if stays]
            updated = ", updates x0" * routine.updates
            return f"{routine.expression}{', still: ' * bool(same)}{' '.join(same)}{updated}"
        case ReduceRoutine():
            lie, how = routine.lie, "in runs" if routine.lie.along else f"step {routine.lie.step}"
            taps = f", {lie.taps} taps" * (lie.taps > 1)
            return f"{routine.function} {routine.expression}: {how}{taps}{', loops' * lie.loops}"


def errors(routine: Emitted, table: str) -> Iterator[float]:
    """Errors of a routine's price, relative to the simulated cycles."""
    kind = kind_of(routine)
    for mode, fit in kind.timing(table, routine).items():
        samples = [*_samples(routine, mode)]
        simulated = kind.simulate(table, routine, mode, samples)
        for sample, cycles in zip(samples, simulated, strict=True):
            priced = float(fit.cycles(kind.terms(routine, mode, sample)))
            yield abs(priced / cycles - 1)


def kind_of(routine: Emitted) -> Derived[Any, Any]:
    """The kind of derived timing that prices a routine."""
    match routine:
        case ReduceRoutine():
            return REDUCTIONS
        case MapRoutine():
            return MAPS
        case Routine():
            return NESTS


def _samples(routine: Emitted, mode: str) -> Iterator[Any]:
    match routine:
        case Routine(work=None):
            yield from CHANGES
        case Routine() | MapRoutine():
            yield from _nests()
        case ReduceRoutine(lie=lie):
            gathering = cycle(AROUND if lie.loops else ((1, 1),))
            lengths = cycle(LENGTHS if lie.along else (lie.taps,))
            size = 1 if mode == ELEMENTS or lie.along else VECTOR_LANES
            for *loops, items in _nests():
                gathered = (*next(gathering), next(lengths))
                yield loops, Extents(prod(loops), items * size, *gathered, around(loops))


def _nests() -> Iterator[tuple[int, ...]]:
    return (counts for counts in COUNTS if prod(counts) <= _MOST_ITEMS)


def call_and_vector(routine: Emitted, table: str) -> tuple[float, float]:
    """Cycles of a call with one row, and cycles per vector in the loop over whole vectors."""
    found = next(iter(kind_of(routine).timing(table, routine).values())).coefficients
    match routine:
        case ReduceRoutine(lie=lie) if lie.along:
            return found[0], found[10 if lie.loops else 8] / (PARTS // VECTOR_LANES)
        case ReduceRoutine(lie=lie):
            each = (8 if routine.unrolled > 1 else 7) + 2 * lie.loops
            return found[0], found[each] / (routine.unrolled * lie.taps)
        case MapRoutine():
            return found[0], found[7] / routine.unrolled
        case Routine(work=None):
            return found[1], found[4] / UNROLLED
        case Routine():
            return found[0], found[7]


def row_of(machine: Machine, routine: Emitted) -> dict[str, object]:
    """The table's row of one routine on one machine."""
    note(f"{machine.name}, {routine.name}")
    table = machine.core.instruction_table or ""
    found, (call, vector) = list(errors(routine, table)), call_and_vector(routine, table)
    return {
        "machine": machine.name,
        "routine": routine.name,
        "expression": text_of(routine),
        "call_cycles": f"{call:.0f}",
        "cycles_per_vector": f"{vector:.3g}",
        "mean_percent": f"{100 * sum(found) / len(found):.2f}",
        "worst_percent": f"{100 * max(found):.2f}",
    }


def main() -> None:
    """Simulate, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two routines of one machine")
    add_csv_option(parser)
    arguments = parser.parse_args()
    cases = [(load_machine(m), r) for m in MACHINES for r in dict.fromkeys(all_of_them())]
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
            "expression": "of a map, and its operands that stay the same along a row; what is "
            "gathered, and how far elements lie apart from one result to the next",
            "call_cycles": "of a call with one row",
            "cycles_per_vector": "in the loop of a row of whole vectors; of tw_repack_rows moved; "
            "of a reduction that is taken in, an element where the step is 0",
            "mean_percent": "error of the price",
            "worst_percent": "the same",
        },
    )


if __name__ == "__main__":
    main()
