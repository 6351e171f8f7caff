"""Micro-kernels and packing under the address and undefined-behaviour sanitizers, every operand at
the end of a page that the next one forbids (masked accesses are invisible to the sanitizers).
"""

from __future__ import annotations

import subprocess

import pytest

from support.fences import FENCE
from tilewright.codegen.c.compiler import compiled_files
from tilewright.common.dtypes import F32, F64
from tilewright.common.errors import ToolError
from tilewright.targets.host.emit.packing import emit_pack
from tilewright.targets.host.native import native_instruction_sets
from tilewright.targets.host.vectors.instruction_sets import vector_text
from tilewright.targets.host.vectors.microkernel import Microkernel
from tilewright.targets.host.vectors.microkernel_text import emit_microkernel

FLAGS = ("-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

CHECK = """\
static void check_NAME(long m, long n, long k)
{
    const long lda = LDA, ldb = LDB, ldc = n + 1;
    const long in_a = A_SIZE, in_b = B_SIZE, in_c = m * ldc - 1;
    TYPE *a = fenced(in_a * sizeof *a), *b = fenced(in_b * sizeof *b);
    TYPE *c = fenced(in_c * sizeof *c);
    for (long i = 0; i < in_a; i++)
        a[i] = i * 7 % 15 - 7;
    for (long i = 0; i < in_b; i++)
        b[i] = i * 5 % 17 - 8;
    for (long i = 0; i < in_c; i++)
        c[i] = i;
    NAME(m, n, k, a, lda, b, ldb, c, ldc);
    for (long i = 0; i < m; i++)
        for (long j = 0; j < ldc && i * ldc + j < in_c; j++) {
            TYPE sum = i * ldc + j;
            for (long p = 0; p < k && j < n; p++)
                sum += a[A_PLACE] * b[B_PLACE];
            if (c[i * ldc + j] != sum) {
                printf("NAME %ld %ld %ld: C[%ld, %ld]\\n", m, n, k, i, j);
                exit(4);
            }
        }
    release(a, in_a * sizeof *a);
    release(b, in_b * sizeof *b);
    release(c, in_c * sizeof *c);
}
"""

PACK_CHECK = """\
static void check_NAME(long extent, long k, long step, long k_step)
{
    const long source = (extent - 1) * step + (k - 1) * k_step + 1;
    const long target = (extent + BLOCK - 1) / BLOCK * BLOCK * k;
    TYPE *x = fenced(source * sizeof *x), *to = fenced(target * sizeof *to);
    for (long i = 0; i < source; i++)
        x[i] = i + 1;
    NAME(extent, k, x, step, k_step, to, BLOCK * k);
    for (long i = 0; i < target / k; i++)
        for (long p = 0; p < k; p++) {
            TYPE value = i < extent ? x[i * step + p * k_step] : 0;
            if (to[i / BLOCK * BLOCK * k + p * BLOCK + i % BLOCK] != value) {
                printf("NAME %ld %ld\\n", extent, k);
                exit(4);
            }
        }
    release(x, source * sizeof *x);
    release(to, target * sizeof *to);
}
"""

LAYOUTS = {
    "row": ("m % 2 ? k + 2 : 1024", "(m - 1) * lda + k", "i * lda + p"),
    "column": ("m + 1", "(k - 1) * lda + m", "p * lda + i"),
    "panels": (
        "PANEL * k",
        "(m + PANEL - 1) / PANEL * PANEL * k",
        "i / PANEL * lda + p * PANEL + i % PANEL",
    ),
}
"""Of A: leading dimension, elements in memory, place of (i, p)."""


def of_b(texts):
    """Texts for B by columns, from those of A by rows."""
    words = {"m": "n", "lda": "ldb", "i": "j"}
    return tuple(" ".join(words.get(w, w) for w in _words(text)) for text in texts)


def _words(text):
    for sign in "()+*/%-":
        text = text.replace(sign, f" {sign} ")
    return text.split()


def kernel_check(kernel, name):
    turned = {"row": "column", "column": "row", "panels": "panels"}
    a = [t.replace("PANEL", str(kernel.scalars)) for t in LAYOUTS[kernel.a_layout]]
    b = [t.replace("PANEL", str(kernel.width)) for t in LAYOUTS[turned[kernel.b_layout]]]
    b = of_b(b)
    text = CHECK.replace("TYPE", kernel.dtype.c_name).replace("NAME", name)
    words = {"LDA": a[0], "LDB": b[0], "A_SIZE": a[1], "B_SIZE": b[1]}
    for word, value in {**words, "A_PLACE": a[2], "B_PLACE": b[2]}.items():
        text = text.replace(word, value)
    return emit_microkernel(kernel, name) + text


def pack_check(kind, block, name):
    check = PACK_CHECK.replace("TYPE", kind.c_name).replace("NAME", name)
    return emit_pack(name, kind, block, 4, 8) + check.replace("BLOCK", str(block))


def program(isa):
    """A C program that checks several kernels over many shapes."""
    kernels = {
        "by_rows": Microkernel(isa, F32, 2, 5),
        "in_panels": Microkernel(isa, F64, 2, 3, a_layout="panels", b_layout="panels"),
        "by_columns": Microkernel(isa, F64, 1, 8, a_layout="column", unroll=2),
    }
    parts = [FENCE, vector_text(isa, (F32, F64))]
    parts += [kernel_check(kernel, name) for name, kernel in kernels.items()]
    parts += [pack_check(F32, 5, "pack5"), pack_check(F64, 16, "pack16")]
    parts.append("int main(void)\n{")
    for name, kernel in kernels.items():
        many = f"n <= {kernel.width + kernel.lanes + 1}"
        parts.append(f"    for (long m = 1; m <= {2 * kernel.scalars + 1}; m++)")
        parts.append(f"        for (long n = 1; {many}; n++)\n            for (long k = 1; k <= 6;")
        parts.append(f"                 k += 2)\n                check_{name}(m, n, k);")
    for name in ("pack5", "pack16"):
        parts.append("    for (long extent = 1; extent < 40; extent += 3) {")
        parts.append(f"        check_{name}(extent, 7, 1, extent + 2);")
        parts.append(f"        check_{name}(extent, 7, 9, 1);\n    }}")
    return "\n".join([*parts, '    puts("well");\n    return 0;\n}\n'])


@pytest.mark.parametrize("isa", native_instruction_sets(), ids=lambda isa: isa.name)
def test_no_access_outside_the_operands(isa):
    flags = (*FLAGS, *isa.compiler_flags, "-o", "program")
    try:
        (path,) = compiled_files("the test", "sanitized", {"program.c": program(isa)}, flags)
    except ToolError as error:
        if "asan" not in error.message:
            raise
        pytest.skip("the compiler has no sanitizers")
    done = subprocess.run([path], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("well\n", 0), done.stderr[:2000]
