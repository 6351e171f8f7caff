"""GEMM micro-kernels as C text: one template for every block, element type and instruction set.

In: a `Microkernel` and a name. Out: a static C function that adds a product of any extents to C,
and the functions of its register blocks. Remainders take smaller blocks, along the vectors with
masks. Inside, `rows` and x belong to the broadcast operand, `columns` and y to the one that is
loaded by vectors, and z is C: with n vectorised x is A and y is B, with m the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from tilewright.codegen.c.writer import CWriter
from tilewright.targets.host.vectors.block import (
    RegisterBlock,
    declared_parameters,
    fetches_next_panel,
    runs_ahead,
    streams_ahead,
)
from tilewright.targets.host.vectors.epilogue import advanced, finish_function
from tilewright.targets.host.vectors.microkernel import (
    LINE_BYTES,
    SET_BYTES,
    Microkernel,
    column_counts,
    row_counts,
)

_Widths = Sequence[tuple[int, str]]
"""Register blocks along the vectors: how many vectors, and "tail" where only some lanes of the last
one are in C, "half" where at most half of them are; by vectors, those of fewer lanes first.
"""
_WAYS, _COPIED_BYTES = 7, 2**18
"""Lines that a set of the level 1 cache holds, about; the longest copy that keeps rows out of one
set.
"""


def emit_microkernel(
    kernel: Microkernel,
    name: str,
    rows: Iterable[int] | None = None,
    columns: Iterable[int] | None = None,
) -> str:
    """C text of `static void name(m, n, k, a, lda, b, ldb, c, ldc, ...)`, extents and strides long.

    `rows` and `columns` are the heights and widths of register blocks that the calls need
    (`row_counts`, `column_counts`), all by default; a call that needs another one traps. The text
    needs `instruction_sets.vector_text` before it.
    Further parameters follow in this order: `long run, long gap`: rows of a run, and elements from
    one to the next beyond the leading dimension (runs), `long z_gap, long z_first`: such elements,
    and the number of the first row of C in its run (c_run), `long z_run`: the rows of a run (where
    these vary), `int first` (start "either"), `long
    count, const long *x_offsets, const long *y_offsets` of the broadcast and of the loaded operand
    (offsets), `int last` and what lies beside the sums (epilogue).
    """
    heights = sorted(row_counts(kernel, None) if rows is None else set(rows))
    wide = column_counts(kernel, None) if columns is None else set(columns)
    widths = sorted({_width(kernel, n) for n in wide})
    writer = CWriter()
    writer.lines(finish_function(kernel.epilogue, name, kernel.dtype))
    for height, (vectors, tail) in product(heights, widths):
        RegisterBlock(kernel, name, height, vectors, tail).write(writer)
    _write_function(kernel, name, heights, widths, writer)
    return writer.text()


def _width(kernel: Microkernel, columns: int) -> tuple[int, str]:
    """The register block for so many elements along the vectors."""
    vectors, rest = -(-columns // kernel.lanes), -columns % kernel.lanes
    if not rest:
        return vectors, ""
    return vectors, "half" if kernel.halves and 2 * rest >= kernel.lanes else "tail"


def _passed(kernel: Microkernel) -> list[str]:
    """The arguments for the same parameters of a block that begins at row i and column j."""
    found = ["first"] if kernel.start == "either" else []
    found += ["count", "x_offsets", "y_offsets"] if kernel.offsets else []
    found += ["last"] if kernel.epilogue else []
    bias = {kernel.vectorised: "j"}
    return found + advanced(kernel.epilogue, lambda along: bias.get(along, "i"), _z_place(kernel))


def _z_place(kernel: Microkernel) -> str:
    gaps = f"(z_first + i) / {kernel.rows_in_run} * z_gap + " if kernel.c_run else ""
    return f"i * ldz + {gaps}j"


def _z_run(kernel: Microkernel) -> list[str]:
    """The arguments that say where in a run of C row i stands."""
    at = {"z_first": f"(z_first + i) % {kernel.rows_in_run}"}
    return [at.get(name, name) for name in kernel.of_c]


def _write_function(
    kernel: Microkernel, name: str, heights: Sequence[int], widths: _Widths, writer: CWriter
) -> None:
    """The function that goes over the register blocks of a product."""
    kind = kernel.dtype.c_name
    x = f"const {kernel.scalar_dtype.c_name} *x"
    y = f"const {kernel.vector_dtype.c_name} *y"
    if kernel.vectorised == "n":
        operands = ["long rows", "long columns", "long k", x, "long ldx", y, "long ldy"]
    else:
        operands = ["long columns", "long rows", "long k", y, "long ldy", x, "long ldx"]
    runs = ["long run", "long gap"] if kernel.runs else []
    runs += [f"long {name}" for name in kernel.of_c]
    writer.head(
        f"static void {name}",
        [*operands, f"{kind} *z", "long ldz", *runs, *declared_parameters(kernel)],
    )
    over_rows = _over_rows(kernel, turns=fetches_next_panel(kernel))
    over_columns = f"for (long j = 0; j < columns; j += {kernel.width})"
    height = f"height = {_height(kernel)};"
    with writer.block():
        if kernel.scalar_layout != "panels":
            # Blocks as equal as possible, the higher ones first, without a division for each.
            writer.line(f"const long blocks = (rows - 1) / {kernel.scalars} + 1;")
            writer.line("const long least = rows / blocks, higher = rows % blocks;")
        if kernel.scalar_runs_along_k and not kernel.offsets:
            _write_copying(kernel, name, writer)
        if streams_ahead(kernel):
            writer.line(f"const long share = {_share(kernel)};")
        if kernel.inner == kernel.vectorised:
            with writer.block(over_rows):
                writer.line(height)
                with writer.block(over_columns):
                    _write_cases(kernel, name, heights, widths, writer)
        else:
            with writer.block(over_columns), writer.block(over_rows):
                writer.line(height)
                _write_cases(kernel, name, heights, widths, writer)


def _write_copying(kernel: Microkernel, name: str, writer: CWriter) -> None:
    """Where rows of x would conflict in one set of the level 1 cache, copies each block's rows to
    rows that do not, and sweeps the columns with the copy.
    """
    size, most = kernel.scalar_dtype.size_bytes, kernel.scalars
    line = LINE_BYTES // size
    longest = _COPIED_BYTES // (most * size) - 2 * line
    test = f"ldx * {size} % {SET_BYTES} == 0 && rows > {_WAYS} && k <= {longest}"
    if kernel.vectorised == "n":
        given = ["height", "columns", "k", "copy", "apart", "y", "ldy"]
    else:
        given = ["columns", "height", "k", "y", "ldy", "copy", "apart"]
    with writer.block(f"if ({test})"):
        writer.line(f"const long j = 0, apart = (k / {line} + 1 | 1) * {line};")
        writer.line(f"{kernel.scalar_dtype.c_name} copy[{most} * apart];")
        with writer.block(_over_rows(kernel)):
            writer.line(f"height = {_height(kernel)};")
            with writer.block("for (long r = 0; r < height; r++)"):
                writer.line(f"const long from = {_row_at(kernel, 'i + r')}, to = r * apart;")
                writer.line("for (long p = 0; p < k; p++)")
                with writer.deeper():
                    writer.line("copy[to + p] = x[from + p];")
            given += [f"z + {_z_place(kernel)}", "ldz", *(["height", "0"] if kernel.runs else [])]
            given += _z_run(kernel)
            writer.call(name, [*given, *_passed(kernel)])
        writer.line("return;")


def _row_at(kernel: Microkernel, row: str) -> str:
    """Elements from the broadcast operand's first row to this one, where rows run along k."""
    index = row if row.isidentifier() else f"({row})"
    return f"{index} * ldx + {index} / run * gap" if kernel.runs else f"{index} * ldx"


def _over_rows(kernel: Microkernel, *, turns: bool = False) -> str:
    """The head of the loop over blocks of rows, which counts its turns where they are used."""
    if turns or kernel.scalar_layout != "panels":
        return "for (long i = 0, turn = 0, height; i < rows; i += height, turn++)"
    return "for (long i = 0, height; i < rows; i += height)"


def _height(kernel: Microkernel) -> str:
    """Rows of the block of this turn."""
    most = kernel.scalars
    if kernel.scalar_layout == "panels":
        return f"rows - i < {most} ? rows - i : {most}"
    return "least + (turn < higher)"


def _next_panel(kernel: Microkernel) -> str:
    """Elements from this panel to the one that comes next."""
    if kernel.next_call is None:
        return "ldy"
    return f"(j + {kernel.width} < columns ? ldy : {kernel.next_call} - j / {kernel.width} * ldy)"


def _next_shares(kernel: Microkernel) -> list[str]:
    """The arguments that say where a block's share of the next panel begins, in bytes, and how much
    of it each step fetches. Shares at the start of blocks whose panels stay near are the next
    call's.
    """
    sweeps, size = kernel.inner == kernel.vectorised, kernel.vector_dtype.size_bytes
    if kernel.lines_next:
        panel = str(kernel.next_call) if sweeps else _next_panel(kernel)
        return [f"{panel} * {size} + turn * {kernel.lines_next * LINE_BYTES}"]
    if not streams_ahead(kernel):
        return []
    beyond = f"{_next_panel(kernel)} * {size}"
    return [beyond if sweeps else f"{beyond} + turn * share * k", "share"]


def _share(kernel: Microkernel) -> str:
    """Bytes of the next panel that one of the blocks that use a panel prefetches in each step: all
    blocks do, for far memory takes as long as all of them.
    """
    step = kernel.width * kernel.vector_dtype.size_bytes
    if kernel.inner == kernel.vectorised:
        return str(step)
    blocks = f"((rows - 1) / {kernel.scalars} + 1)"
    return f"({step - 1} + {blocks}) / {blocks}"


def _ahead(kernel: Microkernel) -> str:
    """Elements from this block's rows to those of the block after it, 0 where they are the same."""
    there, here = _row_at(kernel, "i + height"), _row_at(kernel, "i")
    following = f"i + height < rows ? {there} - ({here}) : "
    if kernel.inner == kernel.vectorised:
        return f"j + {kernel.width} < columns ? 0 : {following}0"
    return f"{following}-({here})"


def _write_cases(
    kernel: Microkernel, name: str, heights: Sequence[int], widths: _Widths, writer: CWriter
) -> None:
    """Computes the block at (i, j) of `height` rows: full, or with a tail along the vectors."""
    x = {"panels": f"x + i / {kernel.scalars} * ldx"}.get(
        kernel.scalar_layout,
        f"x + {_row_at(kernel, 'i')}" if kernel.scalar_runs_along_k else "x + i",
    )
    y = f"y + j / {kernel.width} * ldy" if kernel.vector_layout == "panels" else "y + j"
    given = ["k", x, "ldx", y, "ldy", f"z + {_z_place(kernel)}", "ldz"]
    given += ["run", "gap", "i % run"] if kernel.runs else []
    given += _z_run(kernel)
    given += _passed(kernel)
    if runs_ahead(kernel):
        given.append(f"ahead * {kernel.dtype.size_bytes}")
        writer.line(f"const long ahead = {_ahead(kernel)};")
    given += _next_shares(kernel)
    writer.line("const long left = columns - j;")
    with writer.block("switch (height)"):
        for height in heights:
            writer.line(f"case {height}:")
            with writer.deeper():
                for vectors, tail in widths:
                    before = (vectors - 1) * kernel.lanes
                    most = before + kernel.lanes // (2 if tail == "half" else 1)
                    whole = f"left {'>=' if vectors == kernel.vectors else '=='} {most}"
                    own = f"left > {before} && left <= {most}" if tail else whole
                    writer.line(f"if ({own})")
                    with writer.deeper():
                        left = [f"left - {before}"] if tail else []
                        block = RegisterBlock(kernel, name, height, vectors, tail)
                        writer.call(block.function, [*given, *left])
                    writer.line("else")
                with writer.deeper():
                    writer.line("__builtin_trap();")
                writer.line("break;")
        writer.line("default:")
        with writer.deeper():
            writer.line("__builtin_trap();")
