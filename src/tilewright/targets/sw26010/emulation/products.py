"""Matrix products of emulated cases through the dispatch that is emitted for the machine.

In: an artifact with `spm_gemm.c` and `<name>_gemm.S`. Out: C around the sources that call it. The
dispatch is compiled as it is; each routine that the assembly has becomes a stub of that name, which
lets the runtime compute the product of the routine's own shape. So a call that the dispatch does
not know, leads to another routine or to one that is missing fails as on the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.codegen.artifact import Artifact
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import FLOATS

DISPATCH, _ASSEMBLY = "spm_gemm.c", "_gemm.S"
_ROUTINE = re.compile(
    r"^ *\.globl (?P<name>\w+_gemm_(?P<kind>f64|f32)_(?P<along>[mn])_(?P<a>row|column)_"
    r"(?P<b>row|column)_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_(?P<lda>\d+)_(?P<ldb>\d+)_(?P<ldc>\d+)"
    r"(?:_x(?P<links>\d+))?)$",
    re.MULTILINE,
)
_ORDERS = ("column", "row")
_STEMS = ("spm_gemm", "spm_gemm_chain")


_ARGUMENTS = "const void *a, const void *b, void *c, void *workspace"
_CHAIN_ARGUMENTS = "const void *const *pairs, void *c"


@contextmanager
def dispatched_products(writer: CWriter, number: int, artifact: Artifact) -> Iterator[None]:
    """Between entry and exit, calls of `spm_gemm` go to the artifact's dispatch if it has one; else
    the runtime computes any product.
    """
    assembly = next((name for name in artifact.files if name.endswith(_ASSEMBLY)), None)
    if assembly is None or DISPATCH not in artifact.files:
        yield
        return
    routines = list(_ROUTINE.finditer(artifact.files[assembly]))
    own = [*(routine["name"] for routine in routines), "tw_refuse"]
    functions = [f"{stem}_{kind.name}" for stem in _STEMS for kind in FLOATS]
    writer.lines('#include <stdio.h>\n#include "tw_runtime.h"')
    for function in functions:
        writer.line(f"#undef {function}")
    for name in (*own, *functions):
        writer.line(f"#define {name} tw_{number}_{name}")
    for routine in routines:
        _stub(writer, routine)
    # The refusal is a report here, and the instruction that stops a core none of this processor.
    writer.lines("#define printf tw_report_at\n#define volatile\n#define __asm__ (void)")
    writer.line(f'#include "case{number}/{DISPATCH}"')
    writer.lines("#undef printf\n#undef volatile\n#undef __asm__")
    for function in functions:
        call = f'tw_dispatched(tw_{number}_{function}, "{function}", __VA_ARGS__)'
        writer.lines(f"#undef {function}\n#define {function}(...) {call}")
    yield
    for name in own:
        writer.line(f"#undef {name}")
    for function in functions:
        writer.line(f"#undef {function}")
    for kind in FLOATS:
        call = f"tw_watch_gemm({kind.size_bytes}, __VA_ARGS__)"
        writer.line(f"#define spm_gemm_{kind.name}(...) {call}")


def _stub(writer: CWriter, routine: re.Match[str]) -> None:
    """A routine that computes the product, or the chain of products, that its name tells."""
    along = "mn".index(routine["along"])
    orders = (_ORDERS.index(routine["a"]), _ORDERS.index(routine["b"]), along)
    operands = zip("abc", orders, strict=True)
    matrices = (f"{{{x}, {routine[f'ld{x}']}, {order}}}" for x, order in operands)
    given, size, links = _ARGUMENTS, 8 if routine["kind"] == "f64" else 4, routine["links"]
    if links:
        given = _CHAIN_ARGUMENTS
    with writer.block(f"static void {routine['name']}({given})"):
        if links:
            writer.line("const void *const a = pairs[0], *const b = pairs[1];")
        writer.line(f"struct tw_matrix x = {next(matrices)}, y = {next(matrices)};")
        writer.line(f"struct tw_matrix z = {next(matrices)};")
        extents = ", ".join(routine[axis] for axis in "mnk")
        call = f"{size}, {extents}, {along}, x, y, z"
        writer.line(
            f"tw_chain_routine({links}, pairs, {call});"
            if links
            else f"tw_routine({call}, workspace);"
        )
