"""Measure this computer: the numbers of its machine description, here and now.

In: the processor as detected and a protocol. Out: `Measurements`. Cycles are those of the clock
that ran meanwhile: a chain of dependent additions is timed in the same interleaved run. The matrix
kernel is fitted in the form of `cost.calls`, with one core as the mesh. Private resources of a core
are given by medians, shared ones (memory) by the best sample. A micro-kernel takes its vectorised
operand from a working set of a given size, call after call, so that it comes from the level of
memory that holds the set; the other operand and C stay near.
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
"""Measurements of a kernel before it is given up."""
_LEAST_SHARE = 0.01
"""Of the longest sample, what its multiply-adds take if other programs leave anything to see."""
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
        """One product per call; B comes from a working set of `set_bytes`, at least one B."""
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
    """The rate of copying runs of `run_bytes` between main memory and a packed buffer."""

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

    `exposed_cycles_per_byte`: for each memory level behind the first, what a byte of B that comes
    from there costs beyond the model, nearest level first.
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
    """All measurements, with the date and the load of the machine meanwhile.

    `barrier_seconds` and `saturating` are None where other programs had the processors.
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
    """Interleaved runs with the clock in each."""

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
    """Measure the computer that this runs on; `progress` hears of each finished part.

    Raises ToolError where there is no C compiler, or the computer is too busy for any good sample.
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
    """Seconds for all threads to meet once, None where others had the processors meanwhile."""
    timings = of_threads([probes.barrier(threads)])
    return timings["barrier"].best_seconds / MEETINGS if timings else None


def _saturating(host: HostDescription, probes: Probes, threads: int) -> float | None:
    """Read bandwidth of main memory of all threads together over that of one, at least 1; None
    where others had the processors meanwhile.
    """
    size = working_sets(host)[-1] // threads
    alone, together = probes.read(size * threads), probes.read_together(size, threads)
    times = of_threads([alone, together])
    if times is None:
        return None
    return max(1.0, times[alone.name].best_seconds / times[together.name].best_seconds)


def of_threads(contenders: Sequence[Contender]) -> dict[str, Timing] | None:
    """The timings of contenders with several threads; None where other programs had processors in
    nearly all samples: a thread that has none keeps the others waiting, however long.
    """
    protocol = replace(TOGETHER, sample_seconds=_TOGETHER_SECONDS, rounds=_TOGETHER_ROUNDS)
    try:
        return interleaved(contenders, protocol)
    except BusyError:
        return None


def working_sets(host: HostDescription) -> list[int]:
    """Working sets in bytes: one that fits each cache, and one that fits none. Of a cache that
    several processors share a set takes this one's part, if that is more than the nearer caches.
    """
    found, nearer = [], 0
    for cache in host.caches:
        part = max(cache.size_bytes // cache.shared_by, 2 * nearer)
        found.append(min(cache.size_bytes // 2, part))
        nearer = cache.size_bytes
    return [*found, 4 * nearer]


def read_rate(run: ClockedRun, size_bytes: int) -> Bandwidth:
    """The rate of reading a working set of `size_bytes` again and again."""
    contender = run.probes.read(size_bytes)
    (timing,) = run([contender]).values()
    moved = run.probes.read_bytes(size_bytes)
    return Bandwidth(size_bytes, moved / timing.best_seconds, timing.spread)


def _copies(host: HostDescription, run: ClockedRun, *, out: bool) -> tuple[CopyRate, ...]:
    """Copies from or to a working set in the last cache, where a layer's tensors mostly are."""
    size = working_sets(host)[-2] // 2
    contenders = [run.probes.copy(n, _COPIED_BYTES // n, size, out=out) for n in _RUN_BYTES]
    timings = run(contenders)
    rates = zip(_RUN_BYTES, contenders, strict=True)
    return tuple(CopyRate(n, _COPIED_BYTES / timings[c.name].best_seconds) for n, c in rates)


def _grid(kernel: Microkernel) -> list[ProductExtents]:
    """Samples: full register blocks in both directions, in different numbers, over different k."""
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
    """(cycles of the peak's loop, samples, their fitted coefficients) of the first run in which
    multiply-adds take part of the longest sample. Raises ToolError where they do in none of a few:
    then other programs had the processor.
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
    """1, rows of blocks, blocks, and blocks times k, as `cost.calls` multiplies them."""
    rows = np.array([e.n // kernel.width for e in grid])
    blocks = rows * np.array([e.m // kernel.scalars for e in grid])
    depths = np.array([e.k for e in grid])
    return np.stack([np.ones(len(grid)), rows, blocks, blocks * depths], axis=1)


def _fit_terms(kernel: Microkernel, samples: Sequence[KernelSample]) -> np.ndarray[tuple[int]]:
    """Coefficients of the terms; terms with negative ones are dropped from the model."""
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
    """Cycles per byte of B from each level behind the first, beyond the same product near by; each
    byte is used often enough for its level to keep up.
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
