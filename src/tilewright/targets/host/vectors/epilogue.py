"""The epilogue of a micro-kernel: bias, residual and ReLU on complete sums before they are stored.

In: the steps, in order. Out: the parameters that each adds to the kernel and the C expression that
it turns a vector into. Steps act on the complete sum, so a kernel that is called once per part of k
is told which call is the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from tilewright.common.dtypes import DType

Along = Literal["m", "n"]


@dataclass(frozen=True)
class Bias:
    """Add an element of a vector that lies along m or n."""

    along: Along = "n"


@dataclass(frozen=True)
class Residual:
    """Add an element of another matrix of the layout of C."""


@dataclass(frozen=True)
class Relu:
    """max(x, `slope` x), with 0 <= slope < 1."""

    slope: float = 0.0


Step: TypeAlias = Bias | Residual | Relu


@dataclass(frozen=True)
class VectorPosition:
    """Where one vector stands in a register block: C texts of row, columns and the offset in C.

    `tail` is the text of the number of lanes in use, empty where all are.
    """

    row: str
    column: str
    offset: str
    tail: str


def parameter(index: int, step: Step) -> str:
    """The name of the array that step number `index` takes, empty for none.

    >>> parameter(0, Bias()), parameter(1, Residual()), parameter(2, Relu())
    ('bias0', 'residual1', '')
    """
    return "" if isinstance(step, Relu) else f"{type(step).__name__.lower()}{index}"


def parameters(index: int, step: Step, kind: DType) -> tuple[str, ...]:
    """Declarations of what step number `index` needs to be given.

    >>> from tilewright.common.dtypes import F32
    >>> parameters(0, Bias("n"), F32), parameters(1, Residual(), F32), parameters(2, Relu(), F32)
    (('const float *bias0',), ('const float *residual1',), ())
    """
    match step:
        case Bias():
            return (f"const {kind.c_name} *bias{index}",)
        case Residual():
            return (f"const {kind.c_name} *residual{index}",)
        case Relu():
            return ()
        case _:
            assert_never(step)


def advanced(index: int, step: Step, place: str, vectorised: Along) -> tuple[str, ...]:
    """The arguments of step number `index` for the block at row i and column j, `place` in C."""
    match step:
        case Bias(along):
            return (f"bias{index} + {'j' if along == vectorised else 'i'}",)
        case Residual():
            return (f"residual{index} + {place}",)
        case Relu():
            return ()
        case _:
            assert_never(step)


def applied(
    value: str, index: int, step: Step, kind: DType, place: VectorPosition, vectorised: Along
) -> str:
    """The C expression of step number `index` applied to the vector `value`."""
    t = kind.name

    def load(pointer: str) -> str:
        if place.tail:
            return f"tw_load_first_{t}({pointer}, {place.tail})"
        return f"tw_load_{t}({pointer})"

    def along(name: str, direction: Along) -> str:
        if direction == vectorised:
            return load(f"{name} + {place.column}")
        return f"tw_broadcast_{t}({name}[{place.row}])"

    match step:
        case Bias(direction):
            return f"tw_add_{t}({value}, {along(f'bias{index}', direction)})"
        case Residual():
            return f"tw_add_{t}({value}, {load(f'residual{index} + {place.offset}')})"
        case Relu(slope):
            other = f"tw_broadcast_{t}({slope!r})"
            if slope:
                other = f"tw_multiply_{t}({value}, {other})"
            # Where one operand is NaN the maximum is the second one, so NaN stays NaN.
            return f"tw_maximum_{t}({other}, {value})"
        case _:
            assert_never(step)
