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
    Microkernel,
    column_counts,
    row_counts,
)

_Widths = Sequence[tuple[int, str]]
"""Register blocks along the vectors: how many vectors, and "tail" where only some lanes of the last
one are in C, "half" where at most half of them are; by vectors, those of fewer lanes first.
"""
_STACK_BYTES = 2**18
"""Longest copy that keeps rows out of one set: it is on the stack, of which some systems give a
thread no more than half a megabyte.
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
    of `instruction_sets.vector_text` has to precede it.

    Further parameters follow in this order. With `runs`, `long run, long gap`: rows of a run, and
    elements from run to run beyond the leading dimension. With `c_run`, `long z_gap, long z_first`:
    such elements, and the number of C's first row in its run; if runs vary, `long z_run`: rows of a
    run. With `start` "either", `int first`. With `offsets`, `long count, const long *x_offsets,
    const long *y_offsets` of the broadcast and the loaded operand. With an `epilogue`, `int last`
    and its operands beside the sums.
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
    """(vectors, tail) of the register block for so many elements along the vectors."""
    vectors, rest = -(-columns // kernel.lanes), -columns % kernel.lanes
    if not rest:
        return vectors, ""
    return vectors, "half" if kernel.halves and 2 * rest >= kernel.lanes else "tail"


def _passed(kernel: Microkernel) -> list[str]:
    """C arguments that the kernel passes on to a block that begins at row i and column j."""
    found = ["first"] if kernel.start == "either" else []
    found += ["count", "x_offsets", "y_offsets"] if kernel.offsets else []
    found += ["last"] if kernel.epilogue else []
    bias = {kernel.vectorised: "j"}
    return found + advanced(kernel.epilogue, lambda along: bias.get(along, "i"), _z_place(kernel))


def _z_place(kernel: Microkernel) -> str:
    gaps = f"(z_first + i) / {kernel.rows_in_run} * z_gap + " if kernel.c_run else ""
    return f"i * ldz + {gaps}j"


def _z_run(kernel: Microkernel) -> list[str]:
    """C arguments that describe runs of C for a block that begins at row i."""
    at = {"z_first": f"(z_first + i) % {kernel.rows_in_run}"}
    return [at.get(name, name) for name in kernel.of_c]


def _write_function(
    kernel: Microkernel, name: str, heights: Sequence[int], widths: _Widths, writer: CWriter
) -> None:
    """Write the function that loops over the register blocks of a product."""
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
    """Where rows of x, with a line of y, would exceed one set of the level 1 cache, copies each
    block's rows to rows that do not, and sweeps the columns with the copy.
    """
    sets = kernel.sets
    if sets is None:
        return
    size, most = kernel.scalar_dtype.size_bytes, kernel.scalars
    line = LINE_BYTES // size
    longest = _STACK_BYTES // (most * size) - 2 * line
    test = f"ldx * {size} % {sets.way_bytes} == 0 && rows > {sets.ways - 1} && k <= {longest}"
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
    """C offset, in elements, of a row of the broadcast operand, where rows run along k."""
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
    """C offset, in elements, from this panel to the next one, which may be the next call's."""
    if kernel.next_call is None:
        return "ldy"
    return f"(j + {kernel.width} < columns ? ldy : {kernel.next_call} - j / {kernel.width} * ldy)"


def _next_shares(kernel: Microkernel) -> list[str]:
    """C arguments for a block's share of the next panel: the offset in bytes at which it begins,
    and the bytes that each step prefetches. If panels stay near and shares are fetched at the start
    of blocks, the next panel is that of the next call.
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
    """Bytes of the next panel that a block prefetches per step of k. All blocks that use a panel
    share this work, as far memory takes as long as all of them to deliver the next one.
    """
    step = kernel.width * kernel.vector_dtype.size_bytes
    if kernel.inner == kernel.vectorised:
        return str(step)
    blocks = f"((rows - 1) / {kernel.scalars} + 1)"
    return f"({step - 1} + {blocks}) / {blocks}"


def _ahead(kernel: Microkernel) -> str:
    """C offset, in elements, from this block's rows to the next block's; 0 for the same rows."""
    there, here = _row_at(kernel, "i + height"), _row_at(kernel, "i")
    following = f"i + height < rows ? {there} - ({here}) : "
    if kernel.inner == kernel.vectorised:
        return f"j + {kernel.width} < columns ? 0 : {following}0"
    return f"{following}-({here})"


def _write_cases(
    kernel: Microkernel, name: str, heights: Sequence[int], widths: _Widths, writer: CWriter
) -> None:
    """Write the call of the block at (i, j) of `height` rows: full, or with a tail in columns."""
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
