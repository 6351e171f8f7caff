"""The epilogue of a micro-kernel: an expression on complete sums before they are stored.

In: the expression, over a sum and further operands: biases along m or n, residuals in the layout of
C. Out: the C parameters for these operands, and a C function on vectors. The epilogue applies to
complete sums, so a kernel that is called once per part of k has an argument that marks the last
call.
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
    """An operand with one element per index of m or n."""

    along: Along = "n"


@dataclass(frozen=True)
class Residual:
    """An operand with one element per element of C, in the layout of C."""


Beside: TypeAlias = Bias | Residual


@dataclass(frozen=True)
class Finish:
    """An expression over a complete sum, x0, and the operands `beside` it, x1, x2 and so on; false
    if the sum is stored as it is.
    """

    expression: str = "x0"
    beside: tuple[Beside, ...] = ()

    def __bool__(self) -> bool:
        return self.expression != "x0"

    @property
    def calls(self) -> set[str]:
        """Names of the functions that the expression calls."""
        return functions_of(parse_scalar(self.expression))


PLAIN_SUMS = Finish()


@dataclass(frozen=True)
class VectorPosition:
    """Position of one vector in a register block: C texts of its row, its column and its offset in
    C. `tail` is the C text of the number of lanes in use, empty if all are.
    """

    row: str
    column: str
    offset: str
    tail: str


def parameter(index: int, beside: Beside) -> str:
    """C name of operand number `index` beside the sums.

    >>> parameter(0, Bias()), parameter(1, Residual())
    ('bias0', 'residual1')
    """
    return f"{type(beside).__name__.lower()}{index}"


def names(finish: Finish) -> list[tuple[str, Beside]]:
    """(C name, operand) of each operand beside the sums."""
    return [(parameter(i, beside), beside) for i, beside in enumerate(finish.beside)]


def epilogue_parameters(finish: Finish, kind: DType) -> list[str]:
    """C declarations of the operands beside the sums.

    >>> from tilewright.common.dtypes import F32
    >>> epilogue_parameters(Finish("x0 + x1", (Bias("n"),)), F32)
    ['const float *bias0']
    """
    return [f"const {kind.c_name} *{name}" for name, _ in names(finish)]


def advanced(finish: Finish, bias: Callable[[Along], str], place: str) -> list[str]:
    """C arguments for a block's operands beside the sums. `bias` maps a dimension to the index of
    the block's first element along it; `place` is the offset of the block's first element in C.
    """
    return [
        f"{name} + {bias(beside.along) if isinstance(beside, Bias) else place}"
        for name, beside in names(finish)
    ]


def finish_function(finish: Finish, name: str, kind: DType, *, apart: bool = False) -> str:
    """C text of the epilogue's function, on a vector of sums and one of each operand beside them;
    empty if sums are stored as they are. With `apart`, a function that calls others is not inlined,
    since the code around it has many vectors.
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
    """C expression that applies the epilogue to the vector `value` at `place`."""

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
    """Write the epilogue of a block's sums s0_0, s0_1 and so on: a line for each or, if it calls
    functions, a loop over rows. `place` maps (row, number of a vector) to a position. Results
    replace the sums, or go into the statement that `store` returns.
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
