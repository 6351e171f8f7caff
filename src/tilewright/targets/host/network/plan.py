"""A network in the order in which it is computed: stages that read and write values in memory.

In: nothing; these are the values that the compiler fills and the writers of C read. A value's
memory is an argument of the network's function, a part of its constants or a part of its arena.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal, TypeAlias

from msgspec import Struct

from tilewright.network.form import Form
from tilewright.ops import LocalResponseNorm, Pool2d, Softmax

Place: TypeAlias = Literal["input", "output", "constant", "arena"]
"""Where a value is kept."""


class Value(Struct, frozen=True):
    """Memory of `elements` elements: argument number `at`, or byte `at` of constants or arena."""

    place: Place
    elements: int
    at: int = 0


class Operand(Struct, frozen=True):
    """A value read or written element by element; its form broadcasts to the other's shape."""

    value: int
    form: Form


class KernelCall(Struct, frozen=True, tag=True):
    """A call of a generated kernel: its function, and which value each argument is.

    The last argument is its workspace, of no elements where it needs none. The kernel leaves the
    border of `bordered`, its result, alone, which is zeroed beforehand.
    """

    function: str
    arguments: tuple[int, ...]
    bordered: Operand | None = None


class Step(Struct, frozen=True):
    """The value so far, x0, becomes an expression over it and, where there is one, the element of
    operand number `operand`, x1.
    """

    expression: str
    operand: int | None = None


class Map(Struct, frozen=True, tag=True):
    """y = the steps applied to each element of operand 0; forms may all differ.

    Places of y that hold no element are zeroed with `fill`, and are otherwise left alone.
    """

    y: Operand
    operands: tuple[Operand, ...]
    steps: tuple[Step, ...] = ()
    fill: bool = True


class Pool(Struct, frozen=True, tag=True):
    """Windows of x reduced to the elements of y."""

    op: Pool2d
    x: Operand
    y: Operand


class Rows(Struct, frozen=True, tag=True):
    """An operator that looks at one axis as a whole, on row-major tensors."""

    op: Softmax | LocalResponseNorm
    x: int
    y: int


Work: TypeAlias = KernelCall | Map | Pool | Rows


class Stage(Struct, frozen=True):
    """One step of the network; `algorithm`, `estimate_seconds` and their `causes`, in cycles, where
    the model chose it.

    `name` is safe and unique. `label` says what it is, for people. `nodes` are those of the network
    that it computes.
    """

    name: str
    label: str
    work: Work
    flops: int = 0
    algorithm: str = ""
    estimate_seconds: float | None = None
    causes: dict[str, int] = {}
    nodes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What it does, in words of a table."""
        match self.work:
            case KernelCall():
                return "product"
            case Map(steps=steps):
                return "elementwise" if steps else "layout"
            case Pool() | Rows():
                return "window"


class NetworkPlan(Struct, frozen=True):
    """All stages in order on all values; `kernels` are the files that their functions are in."""

    name: str
    dtype: str
    values: tuple[Value, ...]
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]
    stages: tuple[Stage, ...]
    arena_bytes: int
    constant_bytes: int
    threads: int = 1


def used_values(work: Work) -> frozenset[int]:
    """The values that are read or written."""
    match work:
        case KernelCall(_, arguments, _):
            return frozenset(arguments)
        case Map(y, operands, _, _):
            return frozenset((y.value, *(o.value for o in operands)))
        case Pool(_, x, y):
            return frozenset((x.value, y.value))
        case Rows(_, x, y):
            return frozenset((x, y))


def moved_elements(work: Work, values: Sequence[Value]) -> int:
    """Elements of the tensors that a stage reads and writes, each once."""
    match work:
        case KernelCall(_, arguments, _):
            return sum(values[value].elements for value in arguments[:-1])
        case Map(y, operands, _, _):
            return sum(prod(operand.form.shape) for operand in (y, *operands))
        case Pool(_, x, y):
            return prod(x.form.shape) + prod(y.form.shape)
        case Rows(_, x, y):
            return values[x].elements + values[y].elements
