"""Micro-kernels as contenders: one call on operands that lie in a chosen memory level.

In: a kernel and extents. Out: something to time (`sampling`). The vectorised operand is taken from
a working set of a given size, call after call, so that it comes from the level that holds the set;
the other operand and C stay near.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from ctypes import c_long
from dataclasses import dataclass

from tilewright.common.dtypes import DType
from tilewright.targets.host.memory import address, aligned
from tilewright.targets.host.native import load_library
from tilewright.targets.host.vectors.instruction_sets import InstructionSet, vector_text
from tilewright.targets.host.vectors.microkernel import DEFAULT_BLOCKS, Microkernel, row_counts
from tilewright.targets.host.vectors.microkernel_text import emit_microkernel
from tilewright.tune.sampling import Contender

_REPEAT = """\
/* Calls the kernel `calls` times; B moves on by `step` elements and begins anew after `sets`. */
void tw_repeat(long calls, long m, long n, long k, const TYPE *a, long lda, const TYPE *b, long ldb,
        TYPE *c, long ldc, long step, long sets)
{
    for (long call = 0; call < calls; call++)
        tw_kernel(m, n, k, a, lda, b + call % sets * step, ldb, c, ldc);
}
"""


@dataclass(frozen=True)
class Extents:
    """m, n and k of one product."""

    m: int
    n: int
    k: int

    @property
    def flops(self) -> int:
        """Floating-point operations."""
        return 2 * self.m * self.n * self.k


def default_kernel(isa: InstructionSet, kind: DType) -> Microkernel:
    """The kernel that the host target multiplies with: A by rows, B in panels."""
    return Microkernel(isa, kind, *DEFAULT_BLOCKS[isa.name], b_layout="panels")


@dataclass(frozen=True)
class TimedKernel:
    """A compiled micro-kernel."""

    kernel: Microkernel
    library: ctypes.CDLL

    def contender(self, extents: Extents, set_bytes: int = 0) -> Contender:
        """One product per call; B comes from a working set of `set_bytes`, at least one B."""
        kernel, kind = self.kernel, self.kernel.dtype
        step = -(-extents.n // kernel.width) * kernel.width * extents.k
        sets = max(1, set_bytes // (step * kind.size_bytes))
        a, c = aligned(extents.m * extents.k, kind), aligned(extents.m * extents.n, kind)
        b = aligned(step * sets, kind)
        shape = [c_long(x) for x in (extents.m, extents.n, extents.k)]
        strides = [c_long(x) for x in (extents.k, kernel.width * extents.k, extents.n, step, sets)]

        def run(calls: int) -> object:
            operands = [address(x) for x in (a, b, c)]
            placed = [x for pair in zip(operands, strides[:3], strict=True) for x in pair]
            return self.library.tw_repeat(c_long(calls), *shape, *placed, *strides[3:])

        return Contender(contender_name(kind, extents, set_bytes), run)


def contender_name(kind: DType, extents: Extents, set_bytes: int = 0) -> str:
    """Name under which a product is timed."""
    return f"{kind} {extents.m} x {extents.n} x {extents.k} from {set_bytes}"


def load_kernel(kernel: Microkernel, rows: Iterable[int]) -> TimedKernel:
    """Compile `kernel` (A by rows, B in panels) for products of these extents along m."""
    counts = frozenset[int]().union(*(row_counts(kernel, m) for m in rows))
    parts = [
        vector_text(kernel.isa, (kernel.dtype,)),
        emit_microkernel(kernel, "tw_kernel", counts),
    ]
    parts.append(_REPEAT.replace("TYPE", kernel.dtype.c_name))
    return TimedKernel(
        kernel, load_library({"kernel.c": "\n".join(parts)}, kernel.isa.compiler_flags)
    )
