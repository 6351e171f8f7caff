"""Small C loops of known cost, which measure the processor's best possible rates.

In: an instruction set. Out: functions to time (`Probes`). A chain of additions takes one cycle each
and so measures the clock; independent multiply-adds measure the peak; sums and copies over a
working set measure the bandwidth of the memory level that holds it. Threads start, join and meet at
barriers as in generated code.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from ctypes import c_long
from dataclasses import dataclass, replace
from functools import cache

from tilewright.common.dtypes import F32, FLOATS, DType
from tilewright.common.errors import ToolError
from tilewright.targets.host.native import address, load_library, page_aligned
from tilewright.targets.host.vectors.instruction_sets import InstructionSet, vector_text
from tilewright.tune.sampling import Contender

CHAIN_ADDITIONS = 1024
"""Cycles of one call of the clock probe: each addition waits for the one before."""
PEAK_STEPS = 64
LARGEST_TEAM = 64
"""Most threads in the probes of starting, meeting and reading together."""
MEETINGS = 200
"""Barriers in one call of their probe: enough to make the threads' start negligible."""
_SUMS = 12
"""Independent sums of the peak probe: more than latency times units of any processor."""

_CHAIN = """\
/* The empty statements keep the compiler from adding up the additions, and from knowing the number
   that is added: some processors add constants while they rename registers, two or more a cycle. */
void tw_chain(long calls)
{
    long x = calls, one = 1;
    __asm__ volatile("" : "+r"(one));
    for (long i = 0; i < calls * (CHAIN / 8); i++) {
        STEP STEP STEP STEP
        STEP STEP STEP STEP
    }
}
"""
_CHAIN_STEP = 'x += one; __asm__ volatile("" : "+r"(x));'

_PEAK = """\
void tw_peak_NAME(long calls, TYPE *out)
{
    const tw_vector_NAME a = tw_broadcast_NAME((TYPE)0.5), b = tw_broadcast_NAME((TYPE)0.25);
    tw_vector_NAME SUMS;
    for (long i = 0; i < calls * STEPS; i++) {
BODY
    }
    tw_store_NAME(out, TOTAL);
}
"""

_MEMORY = """\
/* Reads n floats, a multiple of 4 vectors, `calls` times. */
void tw_read(long calls, const float *x, long n, float *out)
{
    tw_vector_f32 s0 = tw_broadcast_f32(0), s1 = s0, s2 = s0, s3 = s0;
    for (long call = 0; call < calls; call++) {
        for (long i = 0; i < n; i += 4 * LANES) {
            s0 = tw_add_f32(s0, tw_load_f32(x + i));
            s1 = tw_add_f32(s1, tw_load_f32(x + i + LANES));
            s2 = tw_add_f32(s2, tw_load_f32(x + i + 2 * LANES));
            s3 = tw_add_f32(s3, tw_load_f32(x + i + 3 * LANES));
        }
    }
    tw_store_f32(out, tw_add_f32(tw_add_f32(s0, s1), tw_add_f32(s2, s3)));
}

/* Copies `blocks` blocks of n floats, `stride` apart, into a packed buffer, or back (`out`). The
   next call goes on where this one ended, so that the strided side stays as far away as it is. */
void tw_copy(long calls, float *packed, float *strided, long blocks, long n, long stride,
        long size, int out)
{
    long start = 0;
    for (long call = 0; call < calls; call++) {
        if (start + blocks * stride > size)
            start = 0;
        for (long b = 0; b < blocks; b++) {
            float *const to = out ? strided + start + b * stride : packed + b * n;
            const float *const from = out ? packed + b * n : strided + start + b * stride;
            long i = 0;
            for (; i + LANES <= n; i += LANES)
                tw_store_f32(to + i, tw_load_f32(from + i));
            if (i < n)
                tw_store_first_f32(to + i, n - i, tw_load_first_f32(from + i, n - i));
        }
        start += blocks * stride;
    }
}
"""

_THREADS = """\
#include <pthread.h>
static void *tw_idle(void *x) { return x; }
/* Starts and joins `threads` - 1 threads. */
int tw_start(long calls, int threads)
{
    pthread_t started[LARGEST_TEAM];
    for (long call = 0; call < calls; call++) {
        for (int i = 1; i < threads; i++)
            if (pthread_create(&started[i], 0, tw_idle, 0))
                return 1;
        for (int i = 1; i < threads; i++)
            pthread_join(started[i], 0);
    }
    return 0;
}

struct tw_meeting { long calls; int threads, arrived, round; };
/* A barrier that spins: the last to arrive lets the others go on. */
static void tw_meet(struct tw_meeting *m)
{
    const int round = __atomic_load_n(&m->round, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&m->arrived, 1, __ATOMIC_ACQ_REL) == m->threads) {
        __atomic_store_n(&m->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&m->round, round + 1, __ATOMIC_RELEASE);
        return;
    }
    while (__atomic_load_n(&m->round, __ATOMIC_ACQUIRE) == round)
        PAUSE;
}
static void *tw_member(void *x)
{
    struct tw_meeting *const m = x;
    for (long call = 0; call < m->calls; call++)
        tw_meet(m);
    return 0;
}
/* `threads` threads meet MEETINGS times a call. */
int tw_barrier(long calls, int threads)
{
    struct tw_meeting m = {calls * MEETINGS, threads, 0, 0};
    pthread_t started[LARGEST_TEAM];
    for (int i = 1; i < threads; i++)
        if (pthread_create(&started[i], 0, tw_member, &m))
            return 1;
    tw_member(&m);
    for (int i = 1; i < threads; i++)
        pthread_join(started[i], 0);
    return 0;
}

struct tw_reader { long calls, n; const float *x; float out[LANES]; };
static void *tw_reading(void *x)
{
    struct tw_reader *const r = x;
    tw_read(r->calls, r->x, r->n, r->out);
    return 0;
}
/* Each of `threads` threads reads n floats of its own, as `tw_read` does. */
int tw_read_together(long calls, int threads, const float *x, long n)
{
    pthread_t started[LARGEST_TEAM];
    struct tw_reader readers[LARGEST_TEAM];
    for (int i = 0; i < threads; i++)
        readers[i] = (struct tw_reader){calls, n, x + i * n, {0}};
    for (int i = 1; i < threads; i++)
        if (pthread_create(&started[i], 0, tw_reading, readers + i))
            return 1;
    tw_reading(readers);
    for (int i = 1; i < threads; i++)
        pthread_join(started[i], 0);
    return 0;
}
"""

_PAUSES = {"x86_64": "__builtin_ia32_pause()"}


def probe_source(isa: InstructionSet) -> str:
    """The C of all probes."""
    chain = _CHAIN.replace("CHAIN", str(CHAIN_ADDITIONS)).replace("STEP", _CHAIN_STEP)
    peaks = [_peak(kind) for kind in FLOATS]
    memory = _MEMORY.replace("LANES", str(isa.lanes(F32)))
    threads = _THREADS.replace("PAUSE", _PAUSES.get(platform.machine(), ""))
    threads = threads.replace("LANES", str(isa.lanes(F32))).replace("MEETINGS", str(MEETINGS))
    threads = threads.replace("LARGEST_TEAM", str(LARGEST_TEAM))
    return "\n".join([vector_text(isa, FLOATS), chain, *peaks, memory, threads])


def _peak(kind: DType) -> str:
    sums = [f"s{i}" for i in range(_SUMS)]
    total = sums[0]
    for name in sums[1:]:
        total = f"tw_add_{kind}({total}, {name})"
    words = {
        "SUMS": ", ".join(f"{s} = tw_broadcast_{kind}({i})" for i, s in enumerate(sums)),
        "BODY": "\n".join(f"        {s} = tw_multiply_add_{kind}({s}, a, b);" for s in sums),
        "TOTAL": total,
        "STEPS": str(PEAK_STEPS),
        "NAME": kind.name,
        "TYPE": kind.c_name,
    }
    text = _PEAK
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def peak_flops_per_call(isa: InstructionSet, kind: DType) -> int:
    """Floating-point operations of one call of the peak probe."""
    return 2 * isa.lanes(kind) * _SUMS * PEAK_STEPS


@dataclass(frozen=True)
class Probes:
    """The compiled probes; the docstring of each contender describes one call of it."""

    isa: InstructionSet
    library: ctypes.CDLL

    def clock(self) -> Contender:
        """Takes `CHAIN_ADDITIONS` cycles."""
        return Contender("clock", lambda calls: self.library.tw_chain(c_long(calls)))

    def peak(self, kind: DType) -> Contender:
        """Executes `peak_flops_per_call` operations."""
        function = getattr(self.library, f"tw_peak_{kind}")
        out = page_aligned(self.isa.lanes(kind), kind)
        return Contender(f"peak {kind}", lambda calls: function(c_long(calls), address(out)))

    def read(self, size_bytes: int) -> Contender:
        """Reads `read_bytes(size_bytes)` bytes, the same ones in every call."""
        x, out = (
            page_aligned(self.read_bytes(size_bytes) // 4, F32),
            page_aligned(self.isa.lanes(F32), F32),
        )
        function, n = self.library.tw_read, c_long(len(x))
        name = f"read {size_bytes}"
        return Contender(name, lambda calls: function(c_long(calls), address(x), n, address(out)))

    def read_together(self, size_bytes: int, threads: int) -> Contender:
        """Reads `read_bytes(size_bytes)` bytes of its own in each thread."""
        x = page_aligned(threads * self.read_bytes(size_bytes) // 4, F32)
        function, n = self.library.tw_read_together, c_long(len(x) // threads)

        def read(calls: object, count: object) -> int:
            return int(function(calls, count, address(x), n))

        contender = self._threaded(f"read {size_bytes} together", read, threads)
        return replace(contender, threads=threads)

    def read_bytes(self, size_bytes: int) -> int:
        """Largest multiple of the reading loop's step up to `size_bytes`, at least one step."""
        step = 4 * self.isa.vector_bytes
        return max(step, size_bytes // step * step)

    def copy(self, run_bytes: int, runs: int, size_bytes: int, *, out: bool) -> Contender:
        """Copies `runs` runs, twice their length apart, between a working set of `size_bytes` and a
        packed buffer: into the buffer, or `out` of it.
        """
        n, name = run_bytes // 4, f"{'put' if out else 'get'} {run_bytes}"
        packed, strided = page_aligned(n * runs, F32), page_aligned(size_bytes // 4, F32)
        sizes = [c_long(x) for x in (runs, n, 2 * n, len(strided))]
        function, direction = self.library.tw_copy, ctypes.c_int(out)
        memory = address(packed), address(strided)
        kept = packed, strided

        def run(calls: int) -> object:
            assert kept
            return function(c_long(calls), *memory, *sizes, direction)

        return Contender(name, run)

    def start(self, threads: int) -> Contender:
        """Starts and joins all threads but the first."""
        return self._threaded("start", self.library.tw_start, threads)

    def barrier(self, threads: int) -> Contender:
        """Starts all threads, which then meet `MEETINGS` times."""
        return replace(self._threaded("barrier", self.library.tw_barrier, threads), threads=threads)

    def _threaded(self, name: str, function: Callable[..., int], threads: int) -> Contender:
        def run(calls: int) -> None:
            if function(c_long(calls), ctypes.c_int(threads)):
                raise ToolError(f"{threads} threads cannot be started")

        return Contender(name, run)


@cache
def load_probes(isa: InstructionSet) -> Probes:
    """Compile and load the probes. Raises ToolError without a C compiler."""
    flags = (*isa.compiler_flags, "-pthread")
    return Probes(isa, load_library({"probes.c": probe_source(isa)}, flags))
