"""Description of a GEMM micro-kernel: block, layouts, start and epilogue as one checked value.

A register block of `scalars` x `vectors` sums stays in registers while k runs; each step loads the
vectors of one operand and multiplies them by broadcast elements of the other (Goto and van de Geijn
2008; Van Zee and van de Geijn 2015). `microkernel_text` writes the C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilewright.common.dtypes import DType
from tilewright.common.errors import ScheduleError
from tilewright.targets.host.vectors.epilogue import PLAIN_SUMS, Along, Finish
from tilewright.targets.host.vectors.instruction_sets import InstructionSet

Layout = Literal["row", "column", "panels"]
Start = Literal["accumulate", "overwrite", "either"]
Prefetch = Literal["c", "rows", "panels", "stream"]
PREFETCHES: frozenset[Prefetch] = frozenset(("c", "rows", "panels"))


LINE_BYTES = 64
"""Bytes of a cache line: x86-64 processors have no other, nor do most of AArch64. Where lines are
longer, results are the same, and some lines are fetched twice.
"""


VARYING = -1
"""Value of `c_run` if an argument of the call has the rows in a run of C."""


@dataclass(frozen=True)
class UnderWay:
    """Operations that a processor overlaps: `sums` independent multiply-adds, and `lines` that the
    level 1 cache fetches during loads. A block prefetches rows in place `lines_ahead`, a stream of
    panels `steps_ahead` of k. Main memory delivers within `latency_steps` of k: for a block of
    fewer steps, the previous block prefetches its part of C.
    """

    sums: int = 1
    lines: int = 1
    lines_ahead: int = 1
    steps_ahead: int = 1
    latency_steps: int = 1


@dataclass(frozen=True)
class Sets:
    """Sets of the first cache, of `ways` lines each: addresses a multiple of `way_bytes` apart
    share one.
    """

    way_bytes: int
    ways: int


@dataclass(frozen=True)
class Microkernel:
    """The choices of one micro-kernel.

    `vectors` x `scalars` is the register block; `vectorised` says which dimension of C lies along
    the vectors: n with C stored by rows, m with C stored by columns. The vectorised operand must be
    contiguous along the vectors or packed.

    Layouts and leading dimensions (in elements): `row` and `column` as in BLAS; `panels` are blocks
    of `scalars` or `vectors * lanes` along m or n, stored one after the other, k outside, and the
    leading dimension is the distance of two panels. Rows of the broadcast operand may come in
    `runs`: some a leading dimension apart, then a gap, as the pixels of an image with a border. So
    may those of C that are no vectors, `c_run` at a time; 0: they do not, `VARYING`: an argument
    says. Rows of the broadcast operand that lie along k are copied where they would share one of
    the `sets`; None: nowhere.

    `start`: C is added to, overwritten, or either by the argument `first`. With `offsets`, the
    kernel sums over a list of pairs of operands (batch-reduce), k elements each. With an
    `epilogue`, the argument `last` marks complete sums. The loop over blocks along `inner` is the
    inner one.

    A block may `prefetch` its part of C ("c"), the broadcast operand's rows for the next block
    ("rows"), and the other operand's next panel ("panels"), or its later rows if it is in place.
    After the last panel of a call comes the first of the `next_call`, so many elements after this
    call's first, or the next panel in memory. If a single block reads each panel, it prefetches
    along the "stream" of panels. Other kernels may fetch `lines_next` lines of the next panel at
    the start of each block; a kernel of one row reads `walks` parts of a panel side by side, each
    with sums of its own. `under_way` has the distances. A kernel that `streams` uses non-temporal
    stores where rows of C are whole lines; other threads see them after a fence.

    If the processor `halves`, multiply-adds of half a vector take half the time: blocks with at
    most half of their last vector in C use them.

    Sums and C are of type `dtype`, and so are operands without a narrower `a_dtype` or `b_dtype`.
    """

    isa: InstructionSet
    dtype: DType
    vectors: int
    scalars: int
    vectorised: Along = "n"
    a_layout: Layout = "row"
    b_layout: Layout = "row"
    start: Start = "accumulate"
    epilogue: Finish = PLAIN_SUMS
    offsets: bool = False
    inner: Along = "m"
    unroll: int = 4
    prefetch: frozenset[Prefetch] = frozenset()
    under_way: UnderWay = UnderWay()
    sets: Sets | None = None
    next_call: int | None = None
    lines_next: int = 0
    walks: int = 1
    runs: bool = False
    c_run: int = 0
    streams: bool = False
    halves: bool = False
    a_dtype: DType | None = None
    b_dtype: DType | None = None

    @property
    def of_c(self) -> tuple[str, ...]:
        """Names of the C parameters that describe runs of C."""
        run = ("z_run",) if self.c_run == VARYING else ()
        return ("z_gap", "z_first", *run) if self.c_run else ()

    @property
    def rows_in_run(self) -> str:
        """C text of the rows in a run of C."""
        return "z_run" if self.c_run == VARYING else str(self.c_run)

    def __post_init__(self) -> None:
        needed = self.vectors * self.scalars + self.vectors + 1
        if self.vectors < 1 or self.scalars < 1 or self.unroll < 1:
            raise ScheduleError("the extents of a register block and the unrolling are at least 1")
        if needed > self.isa.registers:
            raise ScheduleError(
                f"a block of {self.scalars} x {self.vectors} vectors needs {needed} registers, "
                f"{self.isa.name} has {self.isa.registers}",
                fix="take fewer scalars or vectors",
            )
        operand, wrong = ("b", "column") if self.vectorised == "n" else ("a", "row")
        if self.vector_layout == wrong:
            raise ScheduleError(
                f"{operand} in {wrong} layout is not contiguous along {self.vectorised}",
                fix="pack it into panels",
            )
        if self.runs and not self.scalar_runs_along_k:
            raise ScheduleError(
                "rows of a broadcast operand that come in runs have to lie along k",
                fix="its other layout",
            )
        if self.walks > 1 and (self.vector_layout != "panels" or self.offsets or self.halves):
            raise ScheduleError(
                "parts of k are walked side by side in panels, of one product, by whole vectors",
                fix="one walk",
            )
        if self.streams and not (self.start == "overwrite" and self.can_stream):
            raise ScheduleError(
                "non-temporal stores take whole cache lines that nothing is added to",
                fix=f"C = A B by rows, blocks of a multiple of {LINE_BYTES} bytes",
            )

    @property
    def lanes(self) -> int:
        """Elements of one vector."""
        return self.isa.lanes(self.dtype)

    @property
    def width(self) -> int:
        """Elements of the register block along the vectors."""
        return self.vectors * self.lanes

    @property
    def vector_dtype(self) -> DType:
        """The element type of the operand that is loaded by vectors."""
        return (self.b_dtype if self.vectorised == "n" else self.a_dtype) or self.dtype

    @property
    def scalar_dtype(self) -> DType:
        """The element type of the operand that is broadcast."""
        return (self.a_dtype if self.vectorised == "n" else self.b_dtype) or self.dtype

    @property
    def can_stream(self) -> bool:
        """True if non-temporal stores apply: the instruction set has them, the elements are floats,
        and a row of a block is whole lines.
        """
        streams = self.isa.streams and self.dtype.is_float
        return streams and self.width * self.dtype.size_bytes % LINE_BYTES == 0

    @property
    def vector_layout(self) -> Layout:
        """The layout of the operand that is loaded by vectors."""
        return self.b_layout if self.vectorised == "n" else self.a_layout

    @property
    def scalar_layout(self) -> Layout:
        """The layout of the operand that is broadcast."""
        return self.a_layout if self.vectorised == "n" else self.b_layout

    @property
    def scalar_runs_along_k(self) -> bool:
        """True if the broadcast operand is contiguous in memory along k."""
        return self.scalar_layout == ("row" if self.vectorised == "n" else "column")


DEFAULT_BLOCKS = {"avx512": (2, 14), "avx2": (2, 6), "portable": (2, 6)}
"""Vectors and scalars that fill the registers with the fewest loads for each multiplication."""


def row_counts(kernel: Microkernel, extent: int | None) -> frozenset[int]:
    """The heights of register blocks that a call needs for `extent` along the scalar dimension;
    None for any extent.

    Blocks of unpacked operands are as equal as possible; panels are full except the last.
    """
    if extent is None:
        return frozenset(range(1, kernel.scalars + 1))
    if kernel.scalar_layout == "panels":
        return _whole_and_rest(extent, kernel.scalars)
    blocks = -(-extent // kernel.scalars)
    return frozenset({extent // blocks, -(-extent // blocks)}) if blocks else frozenset()


def column_counts(kernel: Microkernel, extent: int | None) -> frozenset[int]:
    """The widths of register blocks, in elements, that a call needs for `extent` along the vectors;
    None for any extent.

    >>> from tilewright.common.dtypes import F32
    >>> from tilewright.targets.host.vectors.instruction_sets import AVX2
    >>> [sorted(column_counts(Microkernel(AVX2, F32, 2, 6), n)) for n in (7, 32, 33)]
    [[7], [16], [1, 16]]
    """
    if extent is None:
        return frozenset(range(1, kernel.width + 1))
    return _whole_and_rest(extent, kernel.width)


def _whole_and_rest(extent: int, most: int) -> frozenset[int]:
    return frozenset(({most} if extent >= most else set()) | {extent % most} - {0})
