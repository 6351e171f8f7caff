"""What the rows of fill, copy, scale-add and multiply-accumulate do to their items, in SW26010
assembly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.isa import Instruction
from tilewright.targets.sw26010.elementwise.code import (
    load,
    move,
    op,
    scaled_add,
    spread,
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
)
from tilewright.targets.sw26010.gemm.shape import Precision

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
        """The symbol of the routine."""
        return f"tw_fill_{self.precision.name}"

    def arguments(self) -> list[Instruction]:
        """One place earlier than where there is a source."""
        return [spread(19, _VALUE), move(18, Y_STRIDES), move(17, COUNT)]

    def items(self, mode: str, count: int) -> list[Instruction]:
        """Stores."""
        return stores(self.precision, mode, [_VALUE] * count)


@dataclass(frozen=True)
class CopyWork(Work):
    """y = x."""

    unrolled: ClassVar[int] = 8

    @property
    def name(self) -> str:
        """The symbol of the routine."""
        return f"tw_copy_{self.precision.name}"

    def items(self, mode: str, count: int) -> list[Instruction]:
        """Loads, then stores, as many at a time as there are registers."""
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
        """The symbol of the routine."""
        return f"tw_scale_add_{self.precision.name}"

    def arguments(self) -> list[Instruction]:
        """Both factors in every lane; $1 is the caller's stack pointer."""
        return [spread(TO, _ALPHA), op("ldde", _BETA, (0, 1))]

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
        """The symbol of the routine."""
        return f"tw_multiply_accumulate_{self.precision.name}"

    def arguments(self) -> list[Instruction]:
        """The factor in every lane."""
        return [op(self.precision.scalar_load, _FACTOR, (0, TO))]

    def items(self, mode: str, count: int) -> list[Instruction]:
        """Load both, add the product, store."""
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
    return _accesses(precision, mode, pointer, registers, step, load(precision, mode))


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
