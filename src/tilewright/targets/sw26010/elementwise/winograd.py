"""Winograd's transforms of SW26010 in assembly: y = M x M^T / divisor for one item of tiles.

In: the matrices of `ir.winograd`. Out: a `Work` of the nest of loops whose items are tiles: first
all columns are multiplied by the matrix, into the frame, then all rows. Arithmetic is in double
precision, whatever the elements are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import frexp
from typing import ClassVar

from tilewright.codegen.c.winograd_text import transform_name
from tilewright.ir.winograd import Matrix, transforms
from tilewright.isa import Instruction
from tilewright.targets.sw26010.elementwise.code import (
    STACK,
    ZERO,
    constant_to_lanes,
    load_item,
    move,
    op,
    scaled_add,
    store,
)
from tilewright.targets.sw26010.elementwise.nest import (
    FROM,
    ITEM_AT,
    LEFT,
    SCRATCH_AT,
    STEPS_AT,
    TO,
    Work,
)
from tilewright.targets.sw26010.elementwise.sums import ZERO_VALUE, Sums, matrix_product
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES

Y_ROW, Y_COLUMN, X_ROW, X_COLUMN = 9, 10, 11, 12
"""Distances in bytes between the points of a tile."""
_COLUMN, _POINT, _RESULT_ROW, _RESULT = 13, 14, 15, 18
"""Pointers that run over a tile: its columns and their points, the result's rows and points."""
_POINTERS = ((_COLUMN, "x"), (_POINT, "x"), (_RESULT_ROW, "y"), (_RESULT, "y"))
_CONSTANTS = (16, 17, 19, 20, 23)
_ITEM = (TO, FROM, LEFT)
"""Registers that the next item needs, saved in the frame during this one."""
_VALUES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 24, 27, 28, 26, 29, *_ITEM)
_VECTOR_BYTES = 32
_Access = Callable[[int], list[Instruction]]


@dataclass(frozen=True)
class WinogradWork(Work):
    """One transform; its arguments are those of a copy and the strides of a tile's points."""

    which: str
    points: str
    saves: ClassVar[tuple[int, ...]] = (9, 10, 11, 12, 13, 14, 15)
    spills: ClassVar[bool] = True
    pointers: ClassVar[tuple[tuple[int, str], ...]] = _POINTERS

    @property
    def name(self) -> str:
        return f"tw_winograd_{self.which}_{transform_name(self.points)}_{self.precision.name}"

    @property
    def matrix(self) -> Matrix:
        """The transform's matrix."""
        found: Matrix = getattr(transforms(self.points), self.which)
        return found

    @property
    def divisor(self) -> float:
        """The divisor of the results: 1 but for the output transform."""
        return transforms(self.points).divisor if self.which == "output" else 1.0

    @cached_property
    def constants(self) -> tuple[float, ...]:
        """The factors of the sums and of the division, in the order of their registers."""
        sums = Sums()
        self._line(sums, divided=True)
        return tuple(sums.constants)

    @property
    def scratch_bytes(self) -> int:
        rows, side = self.matrix.shape
        return _VECTOR_BYTES * int(rows) * int(side)

    def arguments(self) -> list[Instruction]:
        """Strides in bytes; $1 is the caller's stack pointer."""
        stacked = (Y_COLUMN, X_ROW, X_COLUMN)
        code = [move(TO, Y_ROW)]
        code += [op("ldl", register, (8 * i, 1)) for i, register in enumerate(stacked)]
        add = scaled_add(self.precision)
        return [*code, *(op(add, r, ZERO, r) for r in (Y_ROW, *stacked))]

    def row_starts(self) -> list[Instruction]:
        pairs = zip(self.constants, _CONSTANTS, strict=False)
        return [line for factor, register in pairs for line in constant_to_lanes(factor, register)]

    def items(self, mode: str, count: int) -> list[Instruction]:
        """One tile of vectors, or of elements. The inputs of a line are loaded before the line in
        front of it is computed, so that loads overlap with arithmetic.
        """
        assert count == 1
        free = [*_CONSTANTS[len(self.constants) :], *_VALUES]
        columns, rows = self._columns(mode), self._rows(mode)
        code = [move(FROM, _COLUMN), move(TO, _RESULT_ROW), *_item("stl")]
        for lines in (columns, rows):
            code += lines[0].loaded(free)
            for line, following in zip(lines, [*lines[1:], None], strict=True):
                code += following.loaded(free) if following else []
                code += line.computed(free)
        return [*code, *_item("ldl"), *self._forward(mode)]

    def _columns(self, mode: str) -> list[_Line]:
        """The first product: points of the tile in, columns of the frame out."""
        rows, side = self.matrix.shape
        found = []
        for column in range(side):
            sums, values, results = self._line()
            loads = _walk(
                load_item(self.precision, mode), (_COLUMN, _POINT), (X_ROW, X_COLUMN), side
            )
            kept = [_frame_access("vstd", row * side + column) for row in range(rows)]
            found.append(_Line(sums, dict(zip(values, loads, strict=True)), results, kept))
        return found

    def _rows(self, mode: str) -> list[_Line]:
        """The second one: rows of the frame in, points of the result out."""
        rows, side = self.matrix.shape
        found = []
        for row in range(rows):
            sums, values, results = self._line(divided=True)
            kept = {
                v: _frame_access("vldd", row * side + column) for column, v in enumerate(values)
            }
            name, pointers = store(self.precision, mode), (_RESULT_ROW, _RESULT)
            found.append(_Line(sums, kept, results, _walk(name, pointers, (Y_COLUMN, Y_ROW), rows)))
        return found

    def _line(
        self, sums: Sums | None = None, *, divided: bool = False
    ) -> tuple[Sums, list[int], list[int]]:
        """Arithmetic on one column or row, as (sums, inputs, results)."""
        sums = sums or Sums(list(self.constants))
        values = [sums.new() for _ in range(self.matrix.shape[1])]
        results = matrix_product(sums, self.matrix, values)
        return sums, values, [self._quotient(sums, r) for r in results] if divided else results

    def _quotient(self, sums: Sums, value: int) -> int:
        """The value over the divisor, rounded once where the reciprocal is not exact: the
        remainder of the first quotient corrects it.
        """
        if self.divisor == 1:
            return value
        inverse = sums.constant(1 / self.divisor)
        quotient = sums.add("vmuld", value, inverse)
        if frexp(self.divisor)[0] == 0.5:
            return quotient
        remainder = sums.add("vnmad", quotient, sums.constant(self.divisor), value)
        return sums.add("vmad", remainder, inverse, quotient)

    def _forward(self, mode: str) -> list[Instruction]:
        if mode == "vectors":
            step = VECTOR_LANES * self.precision.element_bytes
            return [move(TO, TO, step), move(FROM, FROM, step)]
        add, step_to, step_from = scaled_add(self.precision), _VALUES[0], _VALUES[1]
        return [
            op("ldl", step_to, (STEPS_AT, STACK)),
            op("ldl", step_from, (STEPS_AT + 8, STACK)),
            op(add, step_to, TO, TO),
            op(add, step_from, FROM, FROM),
        ]


def _walk(
    name: str, pointers: tuple[int, int], steps: tuple[int, int], count: int
) -> list[_Access]:
    """Accesses to the points of a line: the first at pointer `start`, which moves to the next line
    after the last.
    """
    (start, pointer), (step, line) = pointers, steps

    def access(number: int, register: int) -> list[Instruction]:
        before = start if number == 1 else pointer
        code = [op("addl", before, step, pointer)] if number else []
        code.append(op(name, register, (0, pointer if number else start)))
        return [*code, op("addl", start, line, start)] if number == count - 1 else code

    return [partial(access, number) for number in range(count)]


def _frame_access(name: str, place: int) -> _Access:
    def access(register: int) -> list[Instruction]:
        return [op(name, register, (SCRATCH_AT + _VECTOR_BYTES * place, STACK))]

    return access


def _item(name: str) -> list[Instruction]:
    return [op(name, r, (ITEM_AT + 8 * i, STACK)) for i, r in enumerate(_ITEM)]


@dataclass
class _Line:
    """A column or row in progress: its inputs, arithmetic and stores."""

    sums: Sums
    inputs: Mapping[int, _Access]
    results: Sequence[int]
    stores: Sequence[_Access]
    place: dict[int, int] = field(default_factory=dict)

    def loaded(self, free: list[int]) -> list[Instruction]:
        """Load its inputs into the registers that have been free for longest."""
        code = []
        for value, access in self.inputs.items():
            self.place[value] = free.pop(0)
            code += access(self.place[value])
        return code

    def computed(self, free: list[int]) -> list[Instruction]:
        """Its arithmetic, then its stores; a register is freed after the last use of its value."""
        uses = [value for _, sources, _ in self.sums.steps for value in sources]
        uses += self.results
        code = []
        for name, sources, result in self.sums.steps:
            given = [self._register(value) for value in sources]
            self._release(sources, uses, free)
            self.place[result] = free.pop(0)
            code.append(op(name, *given, self.place[result]))
        for value, access in zip(self.results, self.stores, strict=True):
            code += access(self.place[value])
        self._release(self.results, uses, free)
        return code

    def _release(self, values: Sequence[int], uses: list[int], free: list[int]) -> None:
        for value in values:
            uses.remove(value)
            if value >= 0 and value not in uses:
                free.append(self.place[value])

    def _register(self, value: int) -> int:
        if value == ZERO_VALUE:
            return ZERO
        return self.place[value] if value >= 0 else _CONSTANTS[-1 - value]
