"""Our micro-kernel as a whole matrix product: five loops and packing around it, no search.

This is the bare speed of the host target's micro-kernel, with blocks chosen by cache sizes alone. B
is packed; A is read in place unless its rows would share few cache sets. A product of few rows
reads B in place, too, as it would use a copy too seldom.
"""

from __future__ import annotations

import ctypes
from ctypes import c_long
from dataclasses import dataclass

from host.contest import Prepared, Workload
from tilewright.common.dtypes import F32
from tilewright.ops import Gemm
from tilewright.targets.host.detect import HostDescription, detect_host
from tilewright.targets.host.emit.packing import emit_copy, emit_pack
from tilewright.targets.host.native import address, load_library, page_aligned
from tilewright.targets.host.vectors.instruction_sets import vector_text
from tilewright.targets.host.vectors.microkernel import (
    DEFAULT_BLOCKS,
    PREFETCHES,
    Microkernel,
    Sets,
    row_counts,
)
from tilewright.targets.host.vectors.microkernel_text import emit_microkernel

DEPTH = 512
"""Extent of a block along k: long enough to make loads and stores of C cheap."""

LEAST_ROW_BLOCKS = 4
"""Least uses of each element of B that are worth a copy of B."""

_PAGE_BYTES = 4096

_DRIVER = """\
void tw_gemm(long calls, const float *a, const float *b, float *c, float *packed, float *rows)
{
    for (long call = 0; call < calls; call++)
        for (long j = 0; j < N; j += NC) {
            const long n = N - j < NC ? N - j : NC;
            for (long p = 0; p < K; p += KC) {
                const long k = K - p < KC ? K - p : KC;
                PACK_B
                for (long i = 0; i < M; i += MC) {
                    const long m = M - i < MC ? M - i : MC;
                    PACK_A
                    kernel(m, n, k, A_BLOCK, B_BLOCK, c + i * N + j, N, p == 0);
                }
            }
        }
}
"""


@dataclass(frozen=True)
class Blocking:
    """Extents of the blocks, and which operands are copied."""

    mc: int
    nc: int
    kc: int
    pack_a: bool
    pack_b: bool


def choose_blocking(op: Gemm, kernel: Microkernel, host: HostDescription) -> Blocking:
    """Blocks by cache capacities: a block of B stays in the level 2 cache, and if A is copied, a
    block of A with it.
    """
    size, second = kernel.dtype.size_bytes, host.cache(2).size_bytes
    kc = _even(op.k, DEPTH)
    # Rows a multiple of a page apart share sets of the level 1 cache.
    pack_a = op.k * size % _PAGE_BYTES == 0 and op.m > kernel.scalars and op.n > 4 * kernel.width
    least = LEAST_ROW_BLOCKS - (op.n * size % _PAGE_BYTES == 0)
    pack_b = op.m > least * kernel.scalars
    mc = _even(op.m, second // 4 // (kc * size), kernel.scalars) if pack_a else op.m
    nc = _even(op.n, second // (1 if pack_a else 2) // (kc * size), kernel.width)
    return Blocking(mc, nc, kc, pack_a, pack_b)


def _even(extent: int, most: int, step: int = 1) -> int:
    """Size of a part, a multiple of `step`, if `extent` is split evenly into parts of `most`."""
    parts = -(-extent // max(most // step * step, step))
    each = -(-extent // parts)
    return -(-each // step) * step


@dataclass(frozen=True)
class BareGemm:
    """The contender; it runs on one thread and offers nothing on several."""

    threads: int
    version: str = "micro-kernel"
    name: str = "bare kernel"

    def prepare(self, workload: Workload) -> list[Prepared]:
        """The product on plain operands; nothing for convolutions."""
        op = workload.op
        if not isinstance(op, Gemm) or self.threads > 1:
            return []
        host = detect_host()
        isa = host.instruction_set
        block, l1 = DEFAULT_BLOCKS[isa.name], host.cache(1)
        plain = Microkernel(isa, F32, *block, start="either")
        chosen = choose_blocking(op, plain, host)
        layout = "panels" if chosen.pack_b else "row"
        inner = "m" if chosen.pack_a else "n"
        kernel = Microkernel(
            isa, F32, *block, b_layout=layout, start="either", inner=inner, prefetch=PREFETCHES,
            sets=Sets(l1.size_bytes // l1.ways, l1.ways),
        )  # fmt: skip
        function = _load(op, kernel, chosen).tw_gemm
        a, b = (page_aligned(x.size, F32) for x in workload.inputs)
        a[:], b[:] = (x.ravel() for x in workload.inputs)
        c = page_aligned(op.m * op.n, F32)
        packed = page_aligned(chosen.kc * (chosen.nc + kernel.width), F32)
        rows = page_aligned((chosen.mc + kernel.scalars) * _stride(chosen), F32)
        operands = [address(x) for x in (a, b, c, packed, rows)]
        packs = "".join(n for n, yes in (("A", chosen.pack_a), ("B", chosen.pack_b)) if yes)
        text = f"{kernel.scalars}x{kernel.width}, packs {packs or 'nothing'}"
        return [
            Prepared(
                lambda calls: function(c_long(calls), *operands),
                lambda: c.reshape(op.m, op.n),
                text,
                (a, b, c, packed, rows),
            )
        ]


def _stride(blocking: Blocking) -> int:
    """Elements between copied rows of A: an odd number of cache lines, to use all sets."""
    return (-(-blocking.kc // 16) | 1) * 16


def _load(op: Gemm, kernel: Microkernel, chosen: Blocking) -> ctypes.CDLL:
    heights = frozenset[int]().union(
        *(row_counts(kernel, m) for m in {min(chosen.mc, op.m), op.m % chosen.mc or chosen.mc})
    )
    parts = [
        vector_text(kernel.isa, (F32,)),
        emit_microkernel(kernel, "kernel", heights),
        emit_pack("pack", F32, kernel.width, panels=4, rows_ahead=8),
        emit_copy("copy", F32),
        _driver(op, kernel, chosen),
    ]
    flags = (*kernel.isa.compiler_flags, "-mprefer-vector-width=512", "-Wno-unused-function")
    return load_library({"gemm.c": "\n".join(parts)}, flags)


def _driver(op: Gemm, kernel: Microkernel, chosen: Blocking) -> str:
    stride = _stride(chosen)
    words = {
        "PACK_A": f"copy(m, k, k, a + i * {op.k} + p, {op.k}, rows, {stride});",
        "A_BLOCK": f"rows, {stride}",
        "PACK_B": f"pack(n, k, b + p * {op.n} + j, 1, {op.n}, packed, k * {kernel.width});",
        "B_BLOCK": f"packed, k * {kernel.width}",
    }
    if not chosen.pack_a:
        words |= {"PACK_A": "", "A_BLOCK": f"a + i * {op.k} + p, {op.k}"}
    if not chosen.pack_b:
        words |= {"PACK_B": "", "B_BLOCK": f"b + p * {op.n} + j, {op.n}"}
    text = _DRIVER
    for word, value in words.items():
        text = text.replace(word, value)
    numbers = {"MC": chosen.mc, "NC": chosen.nc, "KC": chosen.kc, "M": op.m, "N": op.n, "K": op.k}
    lines = [f"enum {{ {', '.join(f'{k} = {v}' for k, v in numbers.items())} }};"]
    return "\n".join([*lines, text])
