"""The routines in assembly behind the elementwise primitives: which one a call takes, and its text.

In: a primitive and an element type. Out: the `Routine` that is emitted for it, or none for a
primitive that the cores have no code for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tilewright.codegen.c.winograd_text import TILES_OF_CORES, TRANSFORMS
from tilewright.ir.nodes import Call, Program
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import (
    Copy,
    Fill,
    MultiplyAccumulate,
    Repack,
    ScaleAdd,
    Windows,
    WinogradTransform,
)
from tilewright.ir.visit import walk
from tilewright.targets.sw26010.elementwise.nest import Work, nest_routine
from tilewright.targets.sw26010.elementwise.rows import rows_name, rows_routine
from tilewright.targets.sw26010.elementwise.winograd import WinogradWork
from tilewright.targets.sw26010.elementwise.works import (
    CopyWork,
    FillWork,
    MultiplyAccumulateWork,
    ScaleAddWork,
)
from tilewright.targets.sw26010.gemm.shape import F32, F64, Precision

PRECISIONS = (F64, F32)


@dataclass(frozen=True)
class Routine:
    """One routine: that of a nest of loops around `work`, or the rows of a tile."""

    precision: Precision
    work: Work | None = None

    @property
    def name(self) -> str:
        """Its symbol, which is that of the C function in `tw_primitives.c`."""
        return self.work.name if self.work else rows_name(self.precision)

    def text(self) -> str:
        """Its assembly."""
        return _text(self)


@cache
def _text(routine: Routine) -> str:
    work = routine.work
    return nest_routine(work) if work else rows_routine(routine.precision)


def routine_of(primitive: Primitive, dtype: str) -> Routine | None:
    """The routine of a primitive for one element type."""
    precision = {p.name: p for p in PRECISIONS}.get(dtype)
    if precision is None:
        return None
    match primitive:
        case Fill():
            return Routine(precision, FillWork(precision))
        case Copy() | Windows():
            return Routine(precision, CopyWork(precision))
        case ScaleAdd():
            return Routine(precision, ScaleAddWork(precision))
        case MultiplyAccumulate():
            return Routine(precision, MultiplyAccumulateWork(precision))
        case Repack():
            return Routine(precision)
        case WinogradTransform():
            return _transform(primitive, precision)
        case _:
            return None


def program_routines(program: Program) -> tuple[Routine, ...]:
    """The distinct routines of a program's calls, in their order."""
    found = []
    for call in walk(program.body):
        if isinstance(call, Call):
            dtype = program.element_type(call.operands[0])
            found.append(routine_of(call.primitive, dtype))
    return tuple(dict.fromkeys(routine for routine in found if routine))


def _transform(transform: WinogradTransform, precision: Precision) -> Routine | None:
    points = transform.finite_points
    if points not in TILES_OF_CORES:
        return None
    which = transform.name.removeprefix("winograd_")
    return Routine(precision, WinogradWork(precision, which, points))


def all_routines() -> tuple[Routine, ...]:
    """Every routine that there is."""
    found = []
    for precision in PRECISIONS:
        works: list[Work] = [FillWork(precision), CopyWork(precision)]
        works += [ScaleAddWork(precision), MultiplyAccumulateWork(precision)]
        works += [WinogradWork(precision, w, p) for p in TILES_OF_CORES for w in TRANSFORMS]
        found += [Routine(precision, work) for work in works]
        found.append(Routine(precision))
    return tuple(found)
