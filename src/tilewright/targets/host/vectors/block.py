"""The register blocks of a GEMM micro-kernel as C functions: sums that stay in registers.

In: a `Microkernel`, and the height and width of one block. Out: the block's C function, which
`microkernel_text` calls. Operands are named as there: x is broadcast, y loaded by vectors, z is C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.codegen.c.writer import CWriter
from tilewright.targets.host.vectors.epilogue import (
    Residual,
    VectorPosition,
    epilogue_parameters,
    names,
    write_finished,
)
from tilewright.targets.host.vectors.microkernel import LINE_BYTES, VARYING, Microkernel

_ROWS_PER_BASE = 7
"""Rows that x86 addressing reaches from one pointer and the multiples 1, 3 and 5 of a stride."""
_ROW_OFFSETS = ("", " + x1", " + 2 * x1", " + x3", " + 4 * x1", " + x5", " + 2 * x3")


def declared_parameters(kernel: Microkernel) -> list[str]:
    """C parameters of a micro-kernel besides operands and runs."""
    found = ["int first"] if kernel.start == "either" else []
    if kernel.offsets:
        found += ["long count", "const long *x_offsets", "const long *y_offsets"]
    if kernel.epilogue:
        found.append("int last")
    return found + epilogue_parameters(kernel.epilogue, kernel.dtype)


def runs_ahead(kernel: Microkernel) -> bool:
    """True if a block prefetches the next block's rows, too many for the hardware prefetcher."""
    return "rows" in kernel.prefetch and kernel.scalar_runs_along_k


def streams_ahead(kernel: Microkernel) -> bool:
    """True if a block prefetches the next panel, which may come from far away."""
    return "panels" in kernel.prefetch and kernel.vector_layout == "panels"


def fetches_next_panel(kernel: Microkernel) -> bool:
    """True if blocks prefetch shares of the next panel, step by step or at their start."""
    return streams_ahead(kernel) or kernel.lines_next > 0


def strides_ahead(kernel: Microkernel) -> bool:
    """True if a block prefetches rows of an operand in place that it loads by vectors."""
    return "panels" in kernel.prefetch and kernel.vector_layout != "panels"


def fetches_steps(kernel: Microkernel) -> bool:
    """True if each step of k prefetches all lines that a later step loads by vectors."""
    return strides_ahead(kernel) or "stream" in kernel.prefetch


def _fetches_c_first(kernel: Microkernel) -> bool:
    """True if a block prefetches its part of C before the sum, as each row is at most one line;
    more lines are spread over the sum.
    """
    return "c" in kernel.prefetch and kernel.width * kernel.dtype.size_bytes <= LINE_BYTES


def _goes_by_lines(kernel: Microkernel) -> bool:
    """True if the loop over k is blocked by cache lines, each with prefetches of its own."""
    spreads = "c" in kernel.prefetch and not _fetches_c_first(kernel)
    return spreads or runs_ahead(kernel) or strides_ahead(kernel)


@dataclass(frozen=True)
class RegisterBlock:
    """One register block of `height` x `vectors`. `tail` is "tail" if only some lanes of its last
    vector are in C, "half" if at most half of them are, and only half a vector is summed.
    """

    kernel: Microkernel
    name: str
    height: int
    vectors: int
    tail: str

    @property
    def function(self) -> str:
        """Name of the block's C function."""
        return f"{self.name}_{self.height}x{self.vectors}{'_' if self.tail else ''}{self.tail}"

    def write(self, writer: CWriter) -> None:
        """Write the block's C function."""
        kernel, kind = self.kernel, self.kernel.dtype.c_name
        operands = [
            "long k",
            f"const {kernel.scalar_dtype.c_name} *restrict x",
            "long ldx",
            f"const {kernel.vector_dtype.c_name} *restrict y",
            "long ldy",
            f"{kind} *restrict z",
            "long ldz",
            *(["long run", "long gap", "long place"] if self.kernel.runs else []),
            *(f"long {name}" for name in self.kernel.of_c),
            *declared_parameters(self.kernel),
            *(["long ahead"] if runs_ahead(self.kernel) else []),
            *(["long beyond"] if fetches_next_panel(self.kernel) else []),
            *(["long share"] if streams_ahead(self.kernel) else []),
            *(["long tail"] if self.tail else []),
        ]
        writer.head(f"static __attribute__((noinline)) void {self.function}", operands)
        with writer.block():
            self._write_start(writer)
            if self.kernel.offsets:
                with writer.block("for (long r = 0; r < count; r++)"):
                    self._write_sum(writer, "x_offsets[r]", "y + y_offsets[r]")
            else:
                self._write_sum(writer, "", "y")
            self._write_end(writer)

    def _cells(self) -> list[tuple[int, int]]:
        return [(i, v) for i in range(self.height) for v in range(self.vectors)]

    def _write_start(self, writer: CWriter) -> None:
        """Write sums of zero, row strides or pointers, and prefetches before the sum."""
        vector = f"tw_vector_{self.kernel.dtype}"
        writer.line(f"const {vector} zero = tw_broadcast_{self.kernel.dtype}(0);")
        for i in range(self.height):
            whole = [
                f"{sums}{i}_{v} = zero"
                for sums in self._sets
                for v in range(self.vectors)
                if not self._is_half(v)
            ]
            if whole:
                writer.line(f"{vector} {', '.join(whole)};")
            if self.tail == "half":
                zero = f"tw_lower_{self.kernel.dtype}(zero)"
                writer.line(f"tw_half_{self.kernel.dtype} h{i} = {zero};")
        if "c" in self.kernel.prefetch:
            steps = "k * count" if self.kernel.offsets else "k"
            following = f"{steps} < {self.kernel.under_way.latency_steps} ? {self.height} * ldz : 0"
            writer.line(f"const long coming = {following};")
        if self.kernel.runs:
            self._write_pointers(writer)
        elif self.kernel.scalar_runs_along_k:
            size = self.kernel.scalar_dtype.size_bytes
            writer.line(f"long x1 = ldx * {size}, x3 = 3 * x1, x5 = 5 * x1;")
            # Kept apart, the three reach seven rows from one pointer; a compiler that sees through
            # them makes a pointer for every row and runs out of registers.
            writer.line('__asm__("" : "+r"(x1), "+r"(x3), "+r"(x5));')
        for line in range(self.kernel.lines_next):
            at = f"(const char *)y + beyond + {line * LINE_BYTES}"
            writer.line(f"__builtin_prefetch({at}, 0, 2);")
        if _fetches_c_first(self.kernel):
            self._write_c_prefetches(writer)

    def _write_pointers(self, writer: CWriter) -> None:
        """Write a pointer to each row; the first row has index `place` in its run."""
        size = self.kernel.scalar_dtype.size_bytes
        writer.line("const char *b0 = (const char *)x;")
        if self.height == 1:
            return
        writer.line(f"const char *{', *'.join(f'b{i}' for i in range(1, self.height))};")
        with writer.block(f"if (place + {self.height} <= run)"):
            for i in range(1, self.height):
                writer.line(f"b{i} = b{i - 1} + ldx * {size};")
        with writer.block("else"):
            for i in range(1, self.height):
                writer.line("place = place + 1 < run ? place + 1 : 0;")
                writer.line(f"b{i} = b{i - 1} + (place ? ldx : ldx + gap) * {size};")

    def _write_sum(self, writer: CWriter, x: str, y: str) -> None:
        """Write one pass over k. `x` is the offset of the broadcast operand in elements, empty for
        0; `y` points to the other operand.
        """
        kind = self.kernel.dtype
        writer.line(f"const {self.kernel.vector_dtype.c_name} *y0 = {y};")
        if self.kernel.runs:
            writer.line(f"long at = {x or 0} * {self.kernel.scalar_dtype.size_bytes};")
        else:
            writer.line(f"const char *b0 = (const char *)({f'x + {x}' if x else 'x'});")
            for base in self._bases()[1:]:
                writer.line(f"const char *b{base} = b{base - _ROWS_PER_BASE} + x1 + 2 * x3;")
        if streams_ahead(self.kernel):
            writer.line("const char *next = (const char *)y0 + beyond;")
        if self._walks > 1:
            self._write_walks(writer)
            return
        if not _goes_by_lines(self.kernel):
            self._write_steps(writer, "p", "0", "k")
            return
        with writer.block("for (long p = 0, end; p < k; p = end)"):
            steps = LINE_BYTES // kind.size_bytes
            writer.line(f"end = k - p < {steps} ? k : p + {steps};")
            self._write_prefetches(writer)
            if strides_ahead(self.kernel):
                # After the last rows, prefetch the first rows of the next columns.
                rows = self.kernel.under_way.lines_ahead // len(self._lines())
                again = f"({rows} - k) * ldy + {self.vectors * self.kernel.lanes}"
                writer.line(f"const long beyond = p + {rows} < k ? {rows} * ldy : {again};")
            self._write_steps(writer, "q", "p", "end")

    def _lines(self) -> Sequence[int]:
        """Columns at which the cache lines of a row of the loaded operand end. If rows are not
        aligned to lines, the previous block has fetched the line to their left.
        """
        last = self.vectors * self.kernel.lanes - 1
        line = LINE_BYTES // self.kernel.vector_dtype.size_bytes
        return *range(line - 1, last, line), last

    def _bases(self) -> Sequence[int]:
        """Rows with a moving pointer of their own."""
        return range(0, self.height, _ROWS_PER_BASE) if self.kernel.scalar_runs_along_k else [0]

    def _write_prefetches(self, writer: CWriter) -> None:
        """Write the prefetches at one cache line of k: a line of C per row, at the start of the
        sum, and the same line of the next block's rows.
        """
        kernel = self.kernel
        if not _fetches_c_first(kernel):
            self._write_c_prefetches(writer)
        if runs_ahead(kernel):
            # With rows of taps, only the last row is new; past the row's end the next row follows.
            new = "if (r + 1 == count && p < ldx)"
            hint = ", 0, 2" if kernel.offsets else ""
            with writer.block(new) if kernel.offsets else writer.flat():
                for i in range(self.height):
                    writer.line(f"__builtin_prefetch({self._row(i)} + ahead{hint});")

    def _write_c_prefetches(self, writer: CWriter) -> None:
        """Write prefetches of this block's part of C, or the next block's; if rows have several
        lines, each line at a step of its own.
        """
        kernel = self.kernel
        if "c" not in kernel.prefetch:
            return
        per_line = LINE_BYTES // kernel.dtype.size_bytes
        width, first = self.vectors * kernel.lanes, _fetches_c_first(kernel)
        hint = "1" if self.height <= kernel.under_way.lines else "0, 2"
        # In rows that are not aligned to lines, the last element lies on one more line.
        for number, column in enumerate((*range(0, width, per_line), width - 1)):
            tests = [] if first else [self._at_line(number)]
            tests += [f"!({self._has_whole_lines()})"] if column == width - 1 else []
            with writer.block(f"if ({' && '.join(tests)})") if tests else writer.flat():
                for i in range(self.height):
                    here = f"coming + {self._offset_of(i, column)}"
                    if not kernel.streams:
                        writer.line(f"__builtin_prefetch(z + {here}, {hint});")
                    for name in self._residuals():
                        writer.line(f"__builtin_prefetch({name} + {here}, 0, 2);")

    def _residuals(self) -> list[str]:
        every = names(self.kernel.epilogue)
        return [name for name, beside in every if isinstance(beside, Residual)]

    def _at_line(self, number: int) -> str:
        """C condition under which this step prefetches line `number` of C: at the start of product
        `number` if several are summed, else at line `number` of k if k is that long.
        """
        if self.kernel.offsets:
            return f"r == {number} && p == 0"
        first = number * LINE_BYTES // self.kernel.dtype.size_bytes
        return f"p == (k > {first} ? {first} : 0)" if number else "p == 0"

    @property
    def _walks(self) -> int:
        """Number of parts of k that are summed side by side."""
        alone = self.height == 1 and not _goes_by_lines(self.kernel)
        return self.kernel.walks if alone else 1

    @property
    def _sets(self) -> str:
        """A letter for each set of sums: one per walk; or two sets that alternate over k, if a full
        block of so many vectors has too few sums to hide the latency of a multiply-add.
        """
        if self._walks > 1:
            return "stuvwxyz"[: self._walks]
        return "st" if self.vectors * self.kernel.scalars < self.kernel.under_way.sums else "s"

    def _write_steps(self, writer: CWriter, p: str, first: str, end: str) -> None:
        """Write the loop over steps `p` of k; with two sets, also the odd step that remains."""
        count = len(self._sets)
        if count > 1:
            writer.line(f"long {p} = {first};")
            first = ""
        writer.line(f"#pragma GCC unroll {self.kernel.unroll // count}")
        head = f"for ({f'long {p} = {first}' if first else ''}; {p}"
        with writer.block(
            f"{head} < {end}; {p}++)" if count == 1 else f"{head} + 1 < {end}; {p} += 2)"
        ):
            for sums in self._sets:
                with writer.block() if count > 1 else writer.flat():
                    self._write_step(writer, sums)
        if count > 1:
            with writer.block(f"if ({p} < {end})"):
                self._write_step(writer, "s")

    def _write_walks(self, writer: CWriter) -> None:
        """Write the loop over all parts of k side by side, then the steps that remain."""
        count, moving = self._walks, "at" if self.kernel.runs else "b0"
        writer.line(f"const long part = k / {count};")
        writer.line(f"#pragma GCC unroll {max(1, self.kernel.unroll // count)}")
        with writer.block("for (long p = 0; p < part; p++)"):
            for number, sums in enumerate(self._sets):
                with writer.block():
                    self._write_products(writer, sums, f"{number} * part" if number else "")
            self._write_moves(writer)
        writer.line(f"{moving} += {count - 1} * part * {self._x_step()};")
        writer.line(f"y0 += {count - 1} * part * {self.kernel.width};")
        with writer.block(f"for (long p = {count} * part; p < k; p++)"):
            self._write_step(writer, "s")

    def _write_step(self, writer: CWriter, sums: str) -> None:
        """Write loads, broadcasts, multiply-adds and prefetches for one index of k."""
        stream = str(self.kernel.under_way.steps_ahead * self.kernel.width)
        ahead = "beyond" if strides_ahead(self.kernel) else stream
        for column in self._lines() if fetches_steps(self.kernel) else ():
            writer.line(f"__builtin_prefetch(y0 + {ahead} + {column}, 0, 2);")
        if streams_ahead(self.kernel):
            # One per step: prefetches in bursts would wait for each other.
            writer.line("__builtin_prefetch(next, 0, 2);")
            writer.line("next += share;")
        self._write_products(writer, sums)
        self._write_moves(writer)

    def _write_products(self, writer: CWriter, sums: str, behind: str = "") -> None:
        """Write the products of the step that is `behind` steps after the pointers, added to one
        set of sums.
        """
        kind = self.kernel.dtype
        y = f"{behind} * {self.kernel.width} + " if behind else ""
        x = f"{behind} * {self._x_step()} + " if behind else ""
        for v in range(self.vectors):
            if self._is_half(v):
                writer.line(f"const tw_half_{kind} v{v} = tw_lower_{kind}({self._y(v, y)});")
            else:
                writer.line(f"const tw_vector_{kind} v{v} = {self._y(v, y)};")
        for i in range(self.height):
            writer.line(f"const tw_vector_{kind} e{i} = {self._x(i, x)};")
            for v in range(self.vectors):
                writer.line(f"{self._multiply_added(sums, i, v)};")

    def _write_moves(self, writer: CWriter) -> None:
        """Write the pointers' moves to the next step."""
        step = self._x_step()
        for moving in ["at"] if self.kernel.runs else [f"b{base}" for base in self._bases()]:
            writer.line(f"{moving} += {step};")
        packed = self.kernel.vector_layout == "panels"
        writer.line(f"y0 += {self.kernel.width if packed else 'ldy'};")

    def _multiply_added(self, sums: str, i: int, v: int) -> str:
        kind = self.kernel.dtype
        if self._is_half(v):
            return f"h{i} = tw_half_multiply_add_{kind}(tw_lower_{kind}(e{i}), v{v}, h{i})"
        return f"{sums}{i}_{v} = tw_multiply_add_{kind}(e{i}, v{v}, {sums}{i}_{v})"

    def _x_step(self) -> str:
        """Bytes of the broadcast operand from one step of k to the next."""
        size = self.kernel.scalar_dtype.size_bytes
        if self.kernel.scalar_layout == "panels":
            return str(self.kernel.scalars * size)
        return str(size) if self.kernel.scalar_runs_along_k else f"ldx * {size}"

    def _x(self, i: int, behind: str = "") -> str:
        """Row i of the broadcast operand in every lane; `behind` is a term of bytes to add."""
        own, kernel = self.kernel.scalar_dtype, self.kernel
        at = self._row(i) if kernel.scalar_runs_along_k else f"b0 + {i * own.size_bytes}"
        at = f"{behind}{at}"
        return f"tw_broadcast_{kernel.dtype}(*(const {own.c_name} *)({at}))"

    def _row(self, i: int) -> str:
        """Pointer to row i, where rows run along k."""
        if self.kernel.runs:
            return f"b{i} + at"
        return f"b{i - i % _ROWS_PER_BASE}{_ROW_OFFSETS[i % _ROWS_PER_BASE]}"

    def _y(self, v: int, behind: str = "") -> str:
        """Vector v of the loaded operand; `behind` is a term of elements to add. Panels are padded,
        so only other layouts load a partial vector.
        """
        at = f"{behind}y0 + {v * self.kernel.lanes}"
        own, kind = self.kernel.vector_dtype, self.kernel.dtype
        name = f"{kind}" if own == kind else f"{own}_{kind}"
        if self._is_partial(v) and self.kernel.vector_layout != "panels":
            return f"tw_load_first_{name}({at}, tail)"
        return f"tw_load_{name}({at})"

    def _is_partial(self, v: int) -> bool:
        return bool(self.tail) and v == self.vectors - 1

    def _is_half(self, v: int) -> bool:
        return self.tail == "half" and v == self.vectors - 1

    def _z(self, i: int, v: int) -> str:
        return f"z + {self._offset(i, v)}"

    def _offset(self, i: int | str, v: int) -> str:
        """Elements from the block's first element of C to vector v of row i."""
        return self._offset_of(i, v * self.kernel.lanes)

    def _offset_of(self, i: int | str, column: int) -> str:
        return f"{i} * ldz + {self._gaps(i)}{column}"

    def _gaps(self, i: int | str) -> str:
        """C term for the gaps between runs of C up to row i. Counted from the run of row 0, row i
        is in run i / c_run, or in the next one, depending on where row 0 stands in its run.
        """
        run = self.kernel.c_run
        if not run:
            return ""
        if isinstance(i, str) or run == VARYING:
            return f"(z_first + {i}) / {self.kernel.rows_in_run} * z_gap + "
        whole, rest = divmod(i, run)
        gaps = f"{whole} * z_gap + " if whole else ""
        return gaps + (f"(z_first >= {run - rest} ? z_gap : 0) + " if rest else "")

    def _write_end(self, writer: CWriter) -> None:
        """Add the sums to C or overwrite it, after the epilogue if this is the last part of k."""
        kind, start = self.kernel.dtype, self.kernel.start
        for sums in self._sets[1:]:
            for i, v in self._cells():
                writer.line(f"s{i}_{v} = tw_add_{kind}(s{i}_{v}, {sums}{i}_{v});")
        for i in range(self.height) if self.tail == "half" else ():
            writer.line(f"tw_vector_{kind} s{i}_{self.vectors - 1} = tw_whole_{kind}(h{i});")
        if start != "overwrite":
            with writer.block("if (!first)") if start == "either" else writer.flat():
                for i, v in self._cells():
                    loaded = self._loaded(self._z(i, v), v)
                    writer.line(f"s{i}_{v} = tw_add_{kind}(s{i}_{v}, {loaded});")
        if self.kernel.epilogue:
            with writer.block("if (last)"):
                self._write_epilogue(writer)
        if self.kernel.streams and not self.tail:
            with writer.block(f"if ({self._has_whole_lines()})"):
                for i, v in self._cells():
                    writer.line(f"tw_stream_{kind}({self._z(i, v)}, s{i}_{v});")
                writer.line("return;")
        for i, v in self._cells():
            at, sum_ = self._z(i, v), f"s{i}_{v}"
            if self._is_partial(v):
                writer.line(f"tw_store_first_{kind}({at}, tail, {sum_});")
            else:
                writer.line(f"tw_store_{kind}({at}, {sum_});")

    def _has_whole_lines(self) -> str:
        """C condition: all rows of C are aligned to cache lines."""
        size = self.kernel.dtype.size_bytes
        steps = "(ldz | z_gap)" if self.kernel.c_run else "ldz"
        return f"((unsigned long)z | (unsigned long){steps} * {size}) % {LINE_BYTES} == 0"

    def _loaded(self, at: str, v: int) -> str:
        if self._is_partial(v):
            return f"tw_load_first_{self.kernel.dtype}({at}, tail)"
        return f"tw_load_{self.kernel.dtype}({at})"

    def _write_epilogue(self, writer: CWriter) -> None:
        kernel = self.kernel

        def place(row: str, v: int) -> VectorPosition:
            tail = "tail" if self._is_partial(v) else ""
            return VectorPosition(row, str(v * kernel.lanes), self._offset(row, v), tail)

        write_finished(
            self.height, self.vectors, kernel.epilogue, self.name, kernel.dtype, place,
            kernel.vectorised, writer,
        )  # fmt: skip
