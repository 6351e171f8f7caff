"""Measure this computer: the numbers of its machine description.

In: the detected processor and a sampling protocol. Out: `Measurements`. Cycles refer to the clock
during the samples: a chain of dependent additions is timed in the same interleaved run. The matrix
kernel is fitted in the form of `cost.calls`, with one core as the mesh. Private resources of a core
are measured by medians, shared ones (memory) by the best sample. A micro-kernel reads its
vectorised operand from a working set of a given size, call after call, so that it comes from the
memory level that holds the set; the other operand and C stay near.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from ctypes import c_long
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product

import numpy as np

from tilewright.codegen.fitting import fit_relative
from tilewright.common.dtypes import FLOATS, DType
from tilewright.common.errors import BusyError, ToolError
from tilewright.common.progress import Progress, silent
from tilewright.targets.host.calibrating.probes import (
    CHAIN_ADDITIONS,
    LARGEST_TEAM,
    MEETINGS,
    Probes,
    load_probes,
    peak_flops_per_call,
)
from tilewright.targets.host.detect import HostDescription
from tilewright.targets.host.native import address, load_library, page_aligned
from tilewright.targets.host.vectors.instruction_sets import InstructionSet, vector_text
from tilewright.targets.host.vectors.microkernel import (
    DEFAULT_BLOCKS,
    PREFETCHES,
    Microkernel,
    row_counts,
)
from tilewright.targets.host.vectors.microkernel_text import emit_microkernel
from tilewright.tune.sampling import (
    DEFAULT_PROTOCOL,
    TOGETHER,
    Contender,
    Protocol,
    Timing,
    interleaved,
)

_RUNS = 8
"""Attempts to measure a kernel before giving up."""
_LEAST_SHARE = 0.01
"""Least share of the longest sample in its multiply-adds; with less, other programs hid them."""
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
class ProductExtents:
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

    def contender(self, extents: ProductExtents, set_bytes: int = 0) -> Contender:
        """Contender with one product per call; B comes from a working set of `set_bytes`, at least
        one B.
        """
        kernel, kind = self.kernel, self.kernel.dtype
        step = -(-extents.n // kernel.width) * kernel.width * extents.k
        sets = max(1, set_bytes // (step * kind.size_bytes))
        a, c = page_aligned(extents.m * extents.k, kind), page_aligned(extents.m * extents.n, kind)
        b = page_aligned(step * sets, kind)
        shape = [c_long(x) for x in (extents.m, extents.n, extents.k)]
        strides = [c_long(x) for x in (extents.k, kernel.width * extents.k, extents.n, step, sets)]

        def run(calls: int) -> object:
            operands = [address(x) for x in (a, b, c)]
            placed = [x for pair in zip(operands, strides[:3], strict=True) for x in pair]
            return self.library.tw_repeat(c_long(calls), *shape, *placed, *strides[3:])

        return Contender(contender_name(kind, extents, set_bytes), run)


def contender_name(kind: DType, extents: ProductExtents, set_bytes: int = 0) -> str:
    """Name under which a product is timed."""
    return f"{kind} {extents.m} x {extents.n} x {extents.k} from {set_bytes}"


def _load_kernel(kernel: Microkernel, rows: Iterable[int]) -> TimedKernel:
    """Compile `kernel` (A by rows, B in panels) for products with these numbers of rows."""
    counts = frozenset[int]().union(*(row_counts(kernel, m) for m in rows))
    parts = [
        vector_text(kernel.isa, (kernel.dtype,)),
        emit_microkernel(kernel, "tw_kernel", counts),
    ]
    parts.append(_REPEAT.replace("TYPE", kernel.dtype.c_name))
    return TimedKernel(
        kernel, load_library({"kernel.c": "\n".join(parts)}, kernel.isa.compiler_flags)
    )


_DEPTHS = (16, 64, 144, 256)
_BLOCK_COUNTS = (1, 2, 4)
_RUN_BYTES = (64, 128, 256, 512, 1024, 4096)
_COPIED_BYTES = 65536
_STREAM_DEPTH, _STREAM_BLOCKS, _STREAM_PANELS = 128, 4, 8
_TOGETHER_ROUNDS = 20
_WAITING_SECONDS, _WAITING_ROUNDS = 2e-4, 60
_TOGETHER_SECONDS = 1e-3


_STAGE, _PARTS = "measuring", len(FLOATS) + 3


@dataclass(frozen=True)
class Bandwidth:
    """The read rate of a loop over a working set of `size_bytes`, and the spread of its samples."""

    size_bytes: int
    bytes_per_cycle: float
    spread: float


@dataclass(frozen=True)
class CopyRate:
    """The rate of copying runs of `run_bytes` between the last cache and a packed buffer."""

    run_bytes: int
    bytes_per_cycle: float


@dataclass(frozen=True)
class KernelSample:
    """The cycles of one product."""

    extents: ProductExtents
    cycles: float
    spread: float


@dataclass(frozen=True)
class KernelTiming:
    """The matrix kernel of one element type: the fitted numbers, in cycles, and their errors.

    `exposed_cycles_per_byte` has, for each memory level beyond the first, nearest first, the cost
    of a byte of B from there in addition to the model.
    """

    block: str
    peak_flops_per_cycle: float
    call_cycles: float
    row_cycles: float
    block_cycles: float
    cycles_per_k: float
    mean_error: float
    worst_error: float
    best_peak_fraction: float
    exposed_cycles_per_byte: tuple[float, ...]
    samples: tuple[KernelSample, ...]


@dataclass(frozen=True)
class Measurements:
    """All measurements, with their date and the load of the computer.

    `barrier_seconds` and `saturating` are None if other programs occupied the processors.
    """

    host: HostDescription
    date: str
    load: float
    clock_hz: float
    kernels: Mapping[str, KernelTiming]
    reads: tuple[Bandwidth, ...]
    gets: tuple[CopyRate, ...]
    puts: tuple[CopyRate, ...]
    thread_start_seconds: float
    barrier_seconds: float | None
    threads: int
    saturating: float | None


class ClockedRun:
    """Interleaved runs, each with a measurement of the clock."""

    def __init__(self, probes: Probes, protocol: Protocol) -> None:
        self.probes, self.protocol = probes, protocol
        self.clocks: list[float] = []

    def __call__(self, contenders: Sequence[Contender]) -> dict[str, Timing]:
        """Timings in cycles instead of seconds."""
        timings = interleaved([self.probes.clock(), *contenders], self.protocol)
        hertz = CHAIN_ADDITIONS / timings.pop("clock").seconds
        self.clocks.append(hertz)
        return {
            name: replace(t, by_round={i: s * hertz for i, s in t.by_round.items()})
            for name, t in timings.items()
        }


def measure_host(
    host: HostDescription, protocol: Protocol = DEFAULT_PROTOCOL, progress: Progress = silent
) -> Measurements:
    """Measure the computer that this runs on; reports each finished part to `progress`.

    Raises ToolError without a C compiler, or if the computer is too busy for any good sample.
    """
    probes = load_probes(host.instruction_set)
    run = ClockedRun(probes, protocol)
    kernels = {}
    for number, kind in enumerate(FLOATS):
        progress(_STAGE, number, _PARTS)
        kernels[kind.name] = _kernel_timing(host, kind, run)
    progress(_STAGE, len(FLOATS), _PARTS)
    reads = tuple(read_rate(run, size) for size in working_sets(host))
    progress(_STAGE, len(FLOATS) + 1, _PARTS)
    gets, puts = _copies(host, run, out=False), _copies(host, run, out=True)
    progress(_STAGE, len(FLOATS) + 2, _PARTS)
    threads = min(host.processors, LARGEST_TEAM)
    waiting = replace(protocol, share=0.0, sample_seconds=_WAITING_SECONDS, rounds=_WAITING_ROUNDS)
    start = interleaved([probes.start(threads)], waiting)["start"]
    return Measurements(
        host,
        datetime.now(UTC).date().isoformat(),
        os.getloadavg()[0],
        float(np.median(run.clocks)),
        kernels,
        reads,
        gets,
        puts,
        start.best_seconds,
        _barrier_seconds(probes, threads),
        threads,
        _saturating(host, probes, threads),
    )


def _barrier_seconds(probes: Probes, threads: int) -> float | None:
    """Seconds of one barrier of all threads, None if other programs occupied the processors."""
    timings = of_threads([probes.barrier(threads)])
    return timings["barrier"].best_seconds / MEETINGS if timings else None


def _saturating(host: HostDescription, probes: Probes, threads: int) -> float | None:
    """Ratio, at least 1, of all threads' read bandwidth from main memory to that of one thread;
    None if other programs occupied the processors.
    """
    size = working_sets(host)[-1] // threads
    alone, together = probes.read(size * threads), probes.read_together(size, threads)
    times = of_threads([alone, together])
    if times is None:
        return None
    return max(1.0, times[alone.name].best_seconds / times[together.name].best_seconds)


def of_threads(contenders: Sequence[Contender]) -> dict[str, Timing] | None:
    """Timings of contenders with several threads; None if other programs occupied processors in
    nearly all samples, as one thread without a processor keeps all others waiting.
    """
    protocol = replace(TOGETHER, sample_seconds=_TOGETHER_SECONDS, rounds=_TOGETHER_ROUNDS)
    try:
        return interleaved(contenders, protocol)
    except BusyError:
        return None


def working_sets(host: HostDescription) -> list[int]:
    """Working sets in bytes: one that fits each cache, and one that fits none. In a cache that
    several processors share, a set fits one processor's part if that exceeds the nearer caches.
    """
    found, nearer = [], 0
    for cache in host.caches:
        part = max(cache.size_bytes // cache.shared_by, 2 * nearer)
        found.append(min(cache.size_bytes // 2, part))
        nearer = cache.size_bytes
    return [*found, 4 * nearer]


def read_rate(run: ClockedRun, size_bytes: int) -> Bandwidth:
    """The rate of repeatedly reading a working set of `size_bytes`."""
    contender = run.probes.read(size_bytes)
    (timing,) = run([contender]).values()
    moved = run.probes.read_bytes(size_bytes)
    return Bandwidth(size_bytes, moved / timing.best_seconds, timing.spread)


def _copies(host: HostDescription, run: ClockedRun, *, out: bool) -> tuple[CopyRate, ...]:
    """Rates of copies from or to (`out`) the last cache, which mostly holds a layer's tensors."""
    size = working_sets(host)[-2] // 2
    contenders = [run.probes.copy(n, _COPIED_BYTES // n, size, out=out) for n in _RUN_BYTES]
    timings = run(contenders)
    rates = zip(_RUN_BYTES, contenders, strict=True)
    return tuple(CopyRate(n, _COPIED_BYTES / timings[c.name].best_seconds) for n, c in rates)


def _grid(kernel: Microkernel) -> list[ProductExtents]:
    """Extents to sample: several numbers of full register blocks in both directions, several k."""
    counts = product(_BLOCK_COUNTS, _BLOCK_COUNTS, _DEPTHS)
    return [ProductExtents(s * kernel.scalars, v * kernel.width, k) for s, v, k in counts]


def _kernel_timing(host: HostDescription, kind: DType, run: ClockedRun) -> KernelTiming:
    kernel = default_kernel(host.instruction_set, kind)
    grid = _grid(kernel)
    timed = _load_kernel(kernel, {e.m for e in grid})
    peak = run.probes.peak(kind)

    def sampled() -> tuple[float, tuple[KernelSample, ...]]:
        timings = run([peak, *(timed.contender(e) for e in grid)])
        found = [(e, timings[contender_name(kind, e)]) for e in grid]
        samples = tuple(KernelSample(e, t.seconds, t.spread) for e, t in found)
        return timings[peak.name].seconds, samples

    peak_cycles, samples, coefficients = undisturbed(kernel, sampled)
    peak_flops = peak_flops_per_call(kernel.isa, kind) / peak_cycles
    predicted = _terms(kernel, grid) @ coefficients
    errors = np.abs(predicted / np.array([s.cycles for s in samples]) - 1)
    call, row, block, rate = (float(c) for c in coefficients)
    return KernelTiming(
        f"{kernel.scalars} x {kernel.width}",
        peak_flops,
        call,
        row,
        block,
        rate,
        float(errors.mean()),
        float(errors.max()),
        max(s.extents.flops / s.cycles for s in samples) / peak_flops,
        exposed(host, kernel, run),
        samples,
    )


def undisturbed(
    kernel: Microkernel, sampled: Callable[[], tuple[float, tuple[KernelSample, ...]]]
) -> tuple[float, tuple[KernelSample, ...], np.ndarray[tuple[int]]]:
    """(cycles of the peak probe, samples, fitted coefficients) of the first run in which
    multiply-adds account for some of the longest sample. Raises ToolError after `_RUNS` runs
    without: other programs occupied the processor.
    """
    for _ in range(_RUNS):
        peak_cycles, samples = sampled()
        coefficients = _fit_terms(kernel, samples)
        longest = max(samples, key=lambda s: s.extents.flops)
        terms = _terms(kernel, [longest.extents])[0] * coefficients
        if terms[-1] > _LEAST_SHARE * terms.sum():
            return peak_cycles, samples, coefficients
    raise ToolError(
        f"in {_RUNS} runs the time of the {kernel.dtype.name} kernel did not grow with k",
        fix="calibrate while nothing else runs",
    )


def _terms(kernel: Microkernel, grid: Sequence[ProductExtents]) -> np.ndarray[tuple[int, int]]:
    """(samples, 4): 1, rows of blocks, blocks, and blocks times k, the terms of `cost.calls`."""
    rows = np.array([e.n // kernel.width for e in grid])
    blocks = rows * np.array([e.m // kernel.scalars for e in grid])
    depths = np.array([e.k for e in grid])
    return np.stack([np.ones(len(grid)), rows, blocks, blocks * depths], axis=1)


def _fit_terms(kernel: Microkernel, samples: Sequence[KernelSample]) -> np.ndarray[tuple[int]]:
    """Fitted coefficients of the terms; a term with a negative one is dropped, its entry is 0."""
    matrix = _terms(kernel, [s.extents for s in samples])
    names = ("1", "V", "V S", "V S K")
    cycles = [s.cycles for s in samples]
    kept = [True] * len(names)
    while True:
        used = [i for i, keep in enumerate(kept) if keep]
        found = fit_relative(matrix[:, used], cycles, [names[i] for i in used], "blocks")
        if found.min() >= 0:
            break
        kept[used[int(found.argmin())]] = False
    full = np.zeros(len(names))
    full[used] = found
    return full


def exposed(host: HostDescription, kernel: Microkernel, run: ClockedRun) -> tuple[float, ...]:
    """Cycles per byte of B from each level beyond the first, in addition to the same product with B
    in the first. Each byte is used often enough for its level to keep up.
    """
    kind = kernel.dtype
    timed = _load_kernel(replace(kernel, prefetch=PREFETCHES), {_STREAM_BLOCKS * kernel.scalars})
    columns = _STREAM_PANELS * kernel.width
    extents = ProductExtents(_STREAM_BLOCKS * kernel.scalars, columns, _STREAM_DEPTH)
    sizes = working_sets(host)[1:]
    timings = run([timed.contender(extents), *(timed.contender(extents, s) for s in sizes)])
    near = timings[contender_name(kind, extents)].best_seconds
    moved = columns * extents.k * kind.size_bytes
    far = [timings[contender_name(kind, extents, s)].best_seconds for s in sizes]
    return tuple(max(0.0, (cycles - near) / moved) for cycles in far)
