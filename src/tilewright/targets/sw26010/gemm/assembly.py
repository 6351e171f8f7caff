"""The matrix primitives of an artifact: instances in, `<name>_gemm.S` and `spm_gemm.c` out (swATOP
4.1, appendix).

Each instance is one routine, called from C as

    void routine(const void *a, const void *b, void *c, void *workspace);

with arguments in $16 .. $19 and the return address in $26, or for a chain of products as

    void routine(const void *const *pairs, void *c);

with the addresses of A and B of each link, one pair after the other. The primitive uses the whole
register file, so the routine keeps what C expects to find again: all lanes of $9 .. $15, and $26,
$29, $30. It takes `frame_bytes` of the stack, which lies in the core's local memory outside the
buffers: for these registers and for the primitive's tables, vector-aligned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import DType
from tilewright.targets.sw26010.gemm.instances import GemmInstance, has_chains
from tilewright.targets.sw26010.gemm.kernel import gemm_kernel
from tilewright.targets.sw26010.gemm.shape import TABLE_BYTES

SAVED_VECTORS = (9, 10, 11, 12, 13, 14, 15)
SAVED_WORDS = (26, 29, 30)
_VECTOR_BYTES, _WORD_BYTES = 32, 8
_KEPT_BYTES = _VECTOR_BYTES * (len(SAVED_VECTORS) + 2)
FRAME_BYTES = TABLE_BYTES + _KEPT_BYTES
"""Tables, seven vectors, three words, and the bytes lost to rounding the address down."""


_CHAIN_HEAD = "// One of a chain (_x): void routine(const void *const *pairs, void *c): $16, $17."


def _frame_bytes(instances: Iterable[GemmInstance]) -> int:
    """Most bytes of the stack that a call takes."""
    return max((i.plan.table_bytes + _KEPT_BYTES for i in instances), default=FRAME_BYTES)


def routine_name(artifact: str, instance: GemmInstance) -> str:
    """The symbol of a routine, unique among artifacts that are linked together."""
    return f"{artifact}_{instance.symbol}"


def emit_gemm_assembly(artifact: str, instances: Sequence[GemmInstance]) -> str:
    """The text of `<name>_gemm.S`: one routine per instance."""
    on = "".join(sorted({f" on {i.shape.mesh} x {i.shape.mesh} cores" for i in instances}))
    lines = [
        f"// {artifact}_gemm.S: C += A B{on}, one routine per shape. Generated.",
        "//",
        "// void routine(const void *a, const void *b, void *c, void *workspace): $16 .. $19.",
        *([_CHAIN_HEAD] if has_chains(instances) else []),
        f"// Keeps $9 .. $15, $26, $29, $30; takes {_frame_bytes(instances)} bytes of stack.",
        "// All cores call together; operands are aligned to vectors.",
        "    .text",
    ]
    for instance in instances:
        name = routine_name(artifact, instance)
        lines += ["", "    .align 4", f"    .globl {name}", f"    .type {name}, @function"]
        chain = instance.shape.links > 1
        lines += [f"{name}:", *frame(f"{name}_mesh", instance.plan.table_bytes, chain=chain)]
        lines.append(_kernel_text(instance, f"{name}_mesh").rstrip())
        lines.append(f"    .size {name}, . - {name}")
    return "\n".join(lines) + "\n"


@cache
def _kernel_text(instance: GemmInstance, name: str) -> str:
    return gemm_kernel(instance.variant, instance.shape, name).text()


def frame(kernel: str, tables: int = TABLE_BYTES, *, chain: bool = False) -> Iterable[str]:
    """The C-callable part: a stack frame aligned to vectors, whose tables are at its start."""
    vectors = [(r, tables + _VECTOR_BYTES * i) for i, r in enumerate(SAVED_VECTORS)]
    behind = tables + _VECTOR_BYTES * len(SAVED_VECTORS)
    words = [(r, behind + _WORD_BYTES * i) for i, r in enumerate(SAVED_WORDS)]
    given = ["    ldi $18, 0($17)"] if chain else ["    ldi $20, 0($19)"]
    return [
        f"    ldi $0, {-tables - _KEPT_BYTES}($30)",
        "    srl $0, 5, $0",
        "    sll $0, 5, $0",
        *(f"    stl ${r}, {place}($0)" for r, place in words),
        *(f"    vstd ${r}, {place}($0)" for r, place in vectors),
        "    ldi $30, 0($0)",
        *given,
        "    ldi $19, 0($0)",
        f"    bsr $26, {kernel}",
        *(f"    vldd ${r}, {place}($30)" for r, place in vectors),
        *(f"    ldl ${r}, {place}($30)" for r, place in words),
        "    ret $26",
    ]


_DISPATCH_HEAD = """\
#include <stdio.h>

#include "spm_gemm.h"
"""

_REFUSAL = """\
static void tw_refuse(const char *type, long m, long n, long k, long lda, long ldb, long ldc)
{
    printf("spm_gemm_%s: no routine for %ld x %ld x %ld with leading dimensions %ld, %ld, %ld, "
            "these orders, and ALPHA and BETA of 1\\n", type, m, n, k, lda, ldb, ldc);
    fflush(stdout);
    __asm__ volatile ("halt");
}
"""

_ENUMERATORS = {"m": "VECTOR_M", "n": "VECTOR_N", "row": "ROW_MAJOR", "column": "COLUMN_MAJOR"}


def emit_gemm_dispatch(
    artifact: str, instances: Sequence[GemmInstance], kinds: Sequence[DType]
) -> str:
    """The text of `spm_gemm.c`: the functions of `spm_gemm.h` that the program calls, for `kinds`
    of elements. Each calls the routine of a shape.

    Shapes are compared as constants of the code: a table would lie in main memory, where each
    access of a core takes hundreds of cycles.
    """
    writer = CWriter()
    writer.comment(f"spm_gemm.c: the matrix primitives of {artifact}, by shape. Generated.")
    writer.lines(_DISPATCH_HEAD)
    writer.line()
    for instance in instances:
        given = ["const void *const *"] if instance.shape.links > 1 else ["const void *"] * 2
        given += ["void *"] if instance.shape.links > 1 else ["void *"] * 2
        writer.line(f"void {routine_name(artifact, instance)}({', '.join(given)});")
    writer.line()
    writer.lines(_REFUSAL)
    for kind in kinds:
        own = [i for i in instances if i.variant.precision.name == kind.name]
        products, chains = ([i for i in own if (i.shape.links > 1) == c] for c in (False, True))
        writer.line()
        with writer.block(gemm_prototype(kind)):
            _dispatch(writer, artifact, kind.name, products)
        if chains:
            writer.line()
            with writer.block(chain_prototype(kind)):
                _dispatch(writer, artifact, f"chain_{kind.name}", chains)
    return writer.text()


def gemm_prototype(kind: DType) -> str:
    """The head of `spm_gemm_f64` or `_f32`."""
    return f"""\
void spm_gemm_{kind.name}(int M, int N, int K, {kind.c_name} ALPHA, const {kind.c_name} *A, int LDA,
        const {kind.c_name} *B, int LDB, {kind.c_name} BETA, {kind.c_name} *C, int LDC,
        swVecDim vd, swOrder order_a, swOrder order_b, swOrder order_c, void *workspace)"""


def chain_prototype(kind: DType) -> str:
    """The head of `spm_gemm_chain_f64` or `_f32`."""
    return f"""\
void spm_gemm_chain_{kind.name}(int LINKS, int M, int N, int K, const {kind.c_name} *const *PAIRS,
        int LDA, int LDB, {kind.c_name} *C, int LDC, swVecDim vd, swOrder order_a, swOrder order_b,
        swOrder order_c)"""


def _dispatch(
    writer: CWriter, artifact: str, function: str, instances: Sequence[GemmInstance]
) -> None:
    with writer.block("if (M <= 0 || N <= 0 || K <= 0)"):
        writer.line("return;")
    for instance in instances:
        v, s = instance.variant, instance.shape
        opening, arguments = "ALPHA == 1 && BETA == 1", "A, B, C, workspace"
        if s.links > 1:
            opening, arguments = f"LINKS == {s.links}", "(const void *const *)PAIRS, C"
        orders = (v.a_layout, v.b_layout, "row" if v.vectorised == "n" else "column")
        names = ("order_a", "order_b", "order_c")
        checks = [
            opening,
            *(f"{name} == {value}" for name, value in zip("MNK", (s.m, s.n, s.k), strict=True)),
            f"LDA == {s.lda}",
            f"LDB == {s.ldb}",
            f"LDC == {s.ldc}",
            f"vd == {_ENUMERATORS[v.vectorised]}",
            *(f"{n} == {_ENUMERATORS[o]}" for n, o in zip(names, orders, strict=True)),
        ]
        rows = (" && ".join(checks[i:j]) for i, j in ((0, 4), (4, 8), (8, 11)))
        condition = "\n            && ".join(rows)
        with writer.block(f"if ({condition})"):
            writer.line(f"{routine_name(artifact, instance)}({arguments});")
            writer.line("return;")
    writer.line(f'tw_refuse("{function}", M, N, K, LDA, LDB, LDC);')
