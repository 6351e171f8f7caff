"""The routines in assembly behind the elementwise primitives: which one a call takes, and its text.

In: a primitive and an element type. Out: the `Routine` that is emitted for it, or none for a
primitive that the cores have no code for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

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
from tilewright.isa import Instruction
from tilewright.targets.sw26010.elementwise.code import (
    MODES,
    RoutineCode,
    lane_to_lanes,
    load_item,
    move,
    op,
    scaled_add,
    store,
)
from tilewright.targets.sw26010.elementwise.nest import (
    COUNT,
    FROM,
    FROM_STEP,
    TO,
    TO_STEP,
    Y_STRIDES,
    Work,
    nest_routine,
)
from tilewright.targets.sw26010.elementwise.rows import rows_name, rows_routine
from tilewright.targets.sw26010.elementwise.winograd import WinogradWork
from tilewright.targets.sw26010.gemm.shape import PRECISIONS, Precision

_VALUE, _ALPHA, _BETA = 1, 9, 10
_DATA = (1, 2, 3, 4, 5, 6)
_READING, _FACTOR = 5, 13


@dataclass(frozen=True)
class FillWork(Work):
    """y = value; the arguments are y, count, y_stride and the value."""

    has_source: ClassVar[bool] = False
    unrolled: ClassVar[int] = 8

    @property
    def name(self) -> str:
        return f"tw_fill_{self.precision.name}"

    def arguments(self) -> list[Instruction]:
        """Moves the arguments, which come one place earlier than with a source."""
        return [lane_to_lanes(19, _VALUE), move(18, Y_STRIDES), move(17, COUNT)]

    def items(self, mode: str, count: int) -> list[Instruction]:
        return stores(self.precision, mode, [_VALUE] * count)


@dataclass(frozen=True)
class CopyWork(Work):
    """y = x."""

    unrolled: ClassVar[int] = 8

    @property
    def name(self) -> str:
        return f"tw_copy_{self.precision.name}"

    def items(self, mode: str, count: int) -> list[Instruction]:
        code = []
        for start in range(0, count, 4):
            group = _DATA[: min(4, count - start)]
            code += loads(self.precision, mode, FROM, group, FROM_STEP)
            code += stores(self.precision, mode, group)
        return code


@dataclass(frozen=True)
class ScaleAddWork(Work):
    """y = alpha y + beta x; alpha is the sixth argument, beta the first on the stack."""

    unrolled: ClassVar[int] = 4
    saves: ClassVar[tuple[int, ...]] = (9, 10, 11, 12, 13, 14)

    @property
    def name(self) -> str:
        return f"tw_scale_add_{self.precision.name}"

    def arguments(self) -> list[Instruction]:
        """Both factors in every lane; $1 is the caller's stack pointer."""
        return [lane_to_lanes(TO, _ALPHA), op("ldde", _BETA, (0, 1))]

    def items(self, mode: str, count: int) -> list[Instruction]:
        """Load both, scale the one, add the other times its factor, store."""
        results, others = (1, 2, 3, 4)[:count], (11, 12, 13, 14)[:count]
        suffix = self.precision.prefix
        code = [move(TO, _READING)]
        code += loads(self.precision, mode, _READING, results, TO_STEP)
        code += loads(self.precision, mode, FROM, others, FROM_STEP)
        code += [op(f"vmul{suffix}", r, _ALPHA, r) for r in results]
        multiply_add = self.precision.multiply_add
        code += [op(multiply_add, x, _BETA, r, r) for r, x in zip(results, others, strict=True)]
        return [*code, *stores(self.precision, mode, results)]


@dataclass(frozen=True)
class MultiplyAccumulateWork(Work):
    """y = y + x w; the sixth argument leads to the one factor w."""

    unrolled: ClassVar[int] = 4
    saves: ClassVar[tuple[int, ...]] = (9, 10, 11, 12, 13)

    @property
    def name(self) -> str:
        return f"tw_multiply_accumulate_{self.precision.name}"

    def arguments(self) -> list[Instruction]:
        return [op(self.precision.scalar_load, _FACTOR, (0, TO))]

    def items(self, mode: str, count: int) -> list[Instruction]:
        results, others = (1, 2, 3, 4)[:count], (9, 10, 11, 12)[:count]
        code = [move(TO, _READING)]
        code += loads(self.precision, mode, FROM, others, FROM_STEP)
        code += loads(self.precision, mode, _READING, results, TO_STEP)
        multiply_add = self.precision.multiply_add
        code += [op(multiply_add, x, _FACTOR, r, r) for r, x in zip(results, others, strict=True)]
        return [*code, *stores(self.precision, mode, results)]


def loads(
    precision: Precision, mode: str, pointer: int, registers: Sequence[int], step: int
) -> list[Instruction]:
    """Successive items to registers; the pointer goes on, by elements as register `step` says."""
    return _accesses(precision, mode, pointer, registers, step, load_item(precision, mode))


def stores(precision: Precision, mode: str, registers: Sequence[int]) -> list[Instruction]:
    """Registers to successive items of the result."""
    return _accesses(precision, mode, TO, registers, TO_STEP, store(precision, mode))


def _accesses(
    precision: Precision,
    mode: str,
    pointer: int,
    registers: Sequence[int],
    step: int,
    mnemonic: str,
) -> list[Instruction]:
    size = precision.vector_bytes
    if mode == "vectors":
        code = [op(mnemonic, r, (i * size, pointer)) for i, r in enumerate(registers)]
        return [*code, move(pointer, pointer, len(registers) * size)]
    forward = op(scaled_add(precision), step, pointer, pointer)
    return [one for r in registers for one in (op(mnemonic, r, (0, pointer)), forward)]


@dataclass(frozen=True)
class Routine:
    """One routine: a nest of loops around `work`, or without it the rows of a tile."""

    precision: Precision
    work: Work | None = None
    modes: ClassVar[tuple[str, ...]] = MODES

    @property
    def name(self) -> str:
        """The routine's symbol, that of the C function in `tw_primitives.c`."""
        return self.work.name if self.work else rows_name(self.precision)

    @property
    def timed_as(self) -> str:
        """Its name among the timings."""
        return self.name

    def code(self) -> RoutineCode:
        """The routine's instructions, in the order of its text."""
        return _code_of(self)

    def text(self) -> str:
        """The routine's assembly."""
        return self.code().text()


@cache
def _code_of(routine: Routine) -> RoutineCode:
    work = routine.work
    return nest_routine(work) if work else rows_routine(routine.precision)


def routine_of(primitive: Primitive, dtype: str) -> Routine | None:
    """The routine of a primitive for one element type."""
    precision = PRECISIONS.get(dtype)
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
    """Every routine of the package."""
    found = []
    for precision in PRECISIONS.values():
        works: list[Work] = [FillWork(precision), CopyWork(precision)]
        works += [ScaleAddWork(precision), MultiplyAccumulateWork(precision)]
        works += [WinogradWork(precision, w, p) for p in TILES_OF_CORES for w in TRANSFORMS]
        found += [Routine(precision, work) for work in works]
        found.append(Routine(precision))
    return tuple(found)
