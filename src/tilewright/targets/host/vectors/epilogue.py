"""The epilogue of a micro-kernel: an expression on complete sums before they are stored.

In: the expression, over a sum and what lies beside it: a bias along m or n, a residual in the
layout of C. Out: the parameters that these add to the kernel, and a C function on vectors. It takes
complete sums, so a kernel that is called once per part of k is told which call is the last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import DType
from tilewright.ir.scalar import parse_scalar
from tilewright.targets.host.vectors.expressions import functions_of, write_value

Along = Literal["m", "n"]


@dataclass(frozen=True)
class Bias:
    """An element of a vector that lies along m or n."""

    along: Along = "n"


@dataclass(frozen=True)
class Residual:
    """An element of another matrix of the layout of C."""


Beside: TypeAlias = Bias | Residual


@dataclass(frozen=True)
class Finish:
    """An expression over a complete sum, x0, and what lies beside it, x1, x2 and so on; false where
    the sum is stored as it is.
    """

    expression: str = "x0"
    beside: tuple[Beside, ...] = ()

    def __bool__(self) -> bool:
        return self.expression != "x0"

    @property
    def calls(self) -> set[str]:
        """The functions that it calls."""
        return functions_of(parse_scalar(self.expression))


PLAIN_SUMS = Finish()


@dataclass(frozen=True)
class VectorPosition:
    """Where one vector stands in a register block: C texts of row, columns and the offset in C.

    `tail` is the text of the number of lanes in use, empty where all are.
    """

    row: str
    column: str
    offset: str
    tail: str


def parameter(index: int, beside: Beside) -> str:
    """The name of the array of number `index` beside the sums.

    >>> parameter(0, Bias()), parameter(1, Residual())
    ('bias0', 'residual1')
    """
    return f"{type(beside).__name__.lower()}{index}"


def names(finish: Finish) -> list[tuple[str, Beside]]:
    """The arrays that a kernel is given, by name."""
    return [(parameter(i, beside), beside) for i, beside in enumerate(finish.beside)]


def epilogue_parameters(finish: Finish, kind: DType) -> list[str]:
    """Their declarations.

    >>> from tilewright.common.dtypes import F32
    >>> epilogue_parameters(Finish("x0 + x1", (Bias("n"),)), F32)
    ['const float *bias0']
    """
    return [f"const {kind.c_name} *{name}" for name, _ in names(finish)]


def advanced(finish: Finish, bias: Callable[[Along], str], place: str) -> list[str]:
    """The arguments for a block: `bias` gives the index of its first element along a dimension,
    `place` is its first element's in C.
    """
    return [
        f"{name} + {bias(beside.along) if isinstance(beside, Bias) else place}"
        for name, beside in names(finish)
    ]


def finish_function(finish: Finish, name: str, kind: DType, *, apart: bool = False) -> str:
    """C text of the function of a vector of sums, and of one for each array beside it; empty where
    sums are stored as they are. One that calls others stays `apart` from code with many vectors.
    """
    if not finish:
        return ""
    writer, vector = CWriter(), f"tw_vector_{kind}"
    operands = [f"x{i}" for i in range(len(finish.beside) + 1)]
    inlined = "inline __attribute__((always_inline))"
    if apart and finish.calls:
        inlined = "__attribute__((noinline))"
    writer.head(f"static {inlined} {vector} {name}_finish", [f"{vector} {x}" for x in operands])
    with writer.block():
        scalar = parse_scalar(finish.expression)
        value = write_value(scalar, operands, kind, writer, vectors=True)
        writer.line(f"return {value};")
    return writer.text()


def with_finish(
    value: str, finish: Finish, name: str, kind: DType, place: VectorPosition, vectorised: Along
) -> str:
    """The C expression of the vector `value` after the epilogue."""

    def load(pointer: str) -> str:
        if place.tail:
            return f"tw_load_first_{kind}({pointer}, {place.tail})"
        return f"tw_load_{kind}({pointer})"

    def beside(array: str, one: Beside) -> str:
        match one:
            case Residual():
                return load(f"{array} + {place.offset}")
            case Bias(along) if along == vectorised:
                return load(f"{array} + {place.column}")
            case Bias():
                return f"tw_broadcast_{kind}({array}[{place.row}])"

    return f"{name}_finish({', '.join([value, *(beside(*one) for one in names(finish))])})"


def write_finished(
    rows: int,
    vectors: int,
    finish: Finish,
    name: str,
    kind: DType,
    place: Callable[[str, int], VectorPosition],
    vectorised: Along,
    writer: CWriter,
    store: Callable[[str, VectorPosition], str] | None = None,
) -> None:
    """Write the epilogue of a block's sums, s0_0, s0_1 and so on: a line for each or, where it
    calls functions, a loop over its rows. The `place` is that of a row and a number of a vector.
    Finished sums go to these variables again, or where the statement `store` puts them.
    """

    def finished(value: str, row: str, v: int) -> str:
        at = place(row, v)
        found = with_finish(value, finish, name, kind, at, vectorised)
        return store(found, at) if store else f"{value} = {found};"

    cells = [(i, v) for i in range(rows) for v in range(vectors)]
    if not finish.calls:
        for i, v in cells:
            writer.line(finished(f"s{i}_{v}", str(i), v))
        return
    sums = ", ".join(f"s{i}_{v}" for i, v in cells)
    with writer.block():  # one function may finish several blocks' sums
        writer.line(f"tw_vector_{kind} s[{rows * vectors}] = {{{sums}}};")
        with writer.block(f"for (long i = 0; i < {rows}; i++)"):
            for v in range(vectors):
                writer.line(finished(f"s[i * {vectors} + {v}]", "i", v))
        for number, (i, v) in enumerate(() if store else cells):
            writer.line(f"s{i}_{v} = s[{number}];")
