"""Vector instruction sets of host processors, each as a few C functions on one vector type.

In: an instruction set and an element type. Out: C text of `tw_vector_f32` (or `_f64`) and of the
operations on it that the micro-kernels are written in: GCC's vector extensions, with GCC's built-in
functions of AVX-512 and AVX2 for the rest. (The header of the intrinsics takes it half a second to
read, as long as a kernel; other compilers, and whoever defines TW_INTRINSICS, read it.) Everything
else has vectors of 16 bytes, which every processor has a register for. Loads and fused products, of
which a kernel has hundreds, are macros: a compiler inlines no functions as fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from tilewright.common.dtypes import DType
from tilewright.common.errors import ToolError


@dataclass(frozen=True)
class InstructionSet:
    """One way to compute with vectors.

    `cpu_flags` are the words in /proc/cpuinfo that a processor must have; gcc and clang accept the
    text with `compiler_flags`. `registers` counts vector registers. An instruction set that
    `streams` has non-temporal stores of whole vectors.
    """

    name: str
    vector_bytes: int
    registers: int
    cpu_flags: tuple[str, ...] = ()
    compiler_flags: tuple[str, ...] = ()
    streams: bool = False

    def lanes(self, kind: DType) -> int:
        """Elements of one vector."""
        return self.vector_bytes // kind.size_bytes


WRAPPING = ("-fwrapv",)
"""Compiler flags that make sums of integers wrap."""

AVX512 = InstructionSet(
    # Processors with AVX-512 have AVX2: gcc's tuning for the first processors with AVX2, which
    # ignores older ones, takes up to 3 % less time in blocks whose rows come in runs.
    "avx512", 64, 32, ("avx512f",), ("-mavx512f", "-mfma", "-mtune=haswell"), True
)  # fmt: skip
AVX2 = InstructionSet("avx2", 32, 16, ("avx2", "fma"), ("-mavx2", "-mfma"), True)
PORTABLE = InstructionSet("portable", 16, 16)
INSTRUCTION_SETS: tuple[InstructionSet, ...] = (AVX512, AVX2, PORTABLE)
"""Best first."""


def instruction_set(name: str) -> InstructionSet:
    """The instruction set called `name`. Raises ToolError if there is none.

    >>> instruction_set("avx2").registers
    16
    """
    for candidate in INSTRUCTION_SETS:
        if candidate.name == name:
            return candidate
    known = ", ".join(candidate.name for candidate in INSTRUCTION_SETS)
    raise ToolError(f"unknown instruction set {name!r}", fix=f"use one of {known}")


def best_instruction_set(cpu_flags: Iterable[str]) -> InstructionSet:
    """The first of `INSTRUCTION_SETS` that a processor with these flags can execute.

    >>> best_instruction_set(["fpu", "avx2", "fma"]).name
    'avx2'
    """
    there = frozenset(cpu_flags)
    return next(one for one in INSTRUCTION_SETS if there.issuperset(one.cpu_flags))


_VECTORS = """\
typedef TYPE tw_vector_NAME __attribute__((vector_size(BYTES)));
typedef TYPE tw_anywhere_NAME __attribute__((vector_size(BYTES), aligned(SIZE), may_alias));
#define tw_load_NAME(p) (*(const tw_anywhere_NAME *)(p))
static inline void tw_store_NAME(TYPE *p, tw_vector_NAME v) { *(tw_anywhere_NAME *)p = v; }
static inline tw_vector_NAME tw_broadcast_NAME(TYPE x)
{
    return (tw_vector_NAME){COPIES};
}
static inline tw_vector_NAME tw_add_NAME(tw_vector_NAME a, tw_vector_NAME b) { return a + b; }
static inline tw_vector_NAME tw_multiply_NAME(tw_vector_NAME a, tw_vector_NAME b) { return a * b; }
"""

_AVX512 = """\
#ifdef TW_INTRINSICS
#define tw_first_NAME(p, mask) _mm512_maskz_loadu_PS(mask, p)
#define tw_put_first_NAME(p, mask, v) _mm512_mask_storeu_PS(p, mask, v)
#define tw_past_caches_NAME(p, v) _mm512_stream_PS(p, v)
#define tw_fused_NAME(a, b, c) _mm512_fmadd_PS(a, b, c)
#define tw_larger_NAME(a, b) _mm512_max_PS(a, b)
#define tw_smaller_NAME(a, b) _mm512_min_PS(a, b)
#define tw_scaled_NAME(a, n) _mm512_scalef_PS(a, n)
#else
#define tw_first_NAME(p, mask) \\
    __builtin_ia32_loaduPS512_mask((const void *)(p), (tw_vector_NAME){0}, mask)
#define tw_put_first_NAME(p, mask, v) __builtin_ia32_storeuPS512_mask((void *)(p), v, mask)
#define tw_past_caches_NAME(p, v) __builtin_ia32_movntPS512(p, v)
#define tw_fused_NAME(a, b, c) __builtin_ia32_vfmaddPS512_mask(a, b, c, ALL, 4)
#define tw_larger_NAME(a, b) __builtin_ia32_maxPS512_mask(a, b, a, ALL, 4)
#define tw_smaller_NAME(a, b) __builtin_ia32_minPS512_mask(a, b, a, ALL, 4)
#define tw_scaled_NAME(a, n) __builtin_ia32_scalefPS512_mask(a, n, a, ALL, 4)
#define tw_signs_NAME(c) __builtin_ia32_ptestmWORD512(c, c, ALL)
#endif
#define tw_mask_NAME(n) ((1u << (n)) - 1)
typedef TYPE tw_half_NAME __attribute__((vector_size(32)));
#ifdef TW_INTRINSICS
#define tw_half_multiply_add_NAME(a, b, c) _mm256_fmadd_PS(a, b, c)
#define tw_lower_NAME(v) _mm512_castPS512_PS256(v)
#define tw_whole_NAME(v) _mm512_castPS256_PS512(v)
#else
typedef double tw_doubles_NAME __attribute__((vector_size(64)));
typedef double tw_half_doubles_NAME __attribute__((vector_size(32)));
#define tw_half_multiply_add_NAME(a, b, c) __builtin_ia32_vfmaddPS256(a, b, c)
#define tw_lower_NAME(v) ((tw_half_NAME)__builtin_ia32_extractf64x4_mask( \\
    (tw_doubles_NAME)(v), 0, (tw_half_doubles_NAME){0}, (unsigned char)-1))
#define tw_whole_NAME(v) __builtin_ia32_PS512_256PS(v)
#endif
"""

_AVX2 = """\
#ifdef TW_INTRINSICS
#define tw_first_NAME(p, mask) _mm256_maskload_PS(p, (__m256i)(mask))
#define tw_past_caches_NAME(p, v) _mm256_stream_PS(p, v)
#define tw_fused_NAME(a, b, c) _mm256_fmadd_PS(a, b, c)
#define tw_larger_NAME(a, b) _mm256_max_PS(a, b)
#define tw_smaller_NAME(a, b) _mm256_min_PS(a, b)
#else
#define tw_first_NAME(p, mask) __builtin_ia32_maskloadPS256((const tw_vector_NAME *)(p), mask)
#define tw_past_caches_NAME(p, v) __builtin_ia32_movntPS256(p, v)
#define tw_fused_NAME(a, b, c) __builtin_ia32_vfmaddPS256(a, b, c)
#define tw_larger_NAME(a, b) __builtin_ia32_maxPS256(a, b)
#define tw_smaller_NAME(a, b) __builtin_ia32_minPS256(a, b)
#define tw_signs_NAME(c) __builtin_ia32_movmskPS256((tw_vector_NAME)(c))
#endif
static inline tw_truth_NAME tw_mask_NAME(long n) { return (TRUTH)n > (tw_truth_NAME){NUMBERS}; }
"""

_MASKED_LOADS = """\
static inline tw_vector_NAME tw_load_first_NAME(const TYPE *p, long n)
{
    return tw_first_NAME(p, tw_mask_NAME(n));
}
"""

_BY_MASK = """\
static inline void tw_store_first_NAME(TYPE *p, long n, tw_vector_NAME v)
{
    tw_put_first_NAME(p, tw_mask_NAME(n), v);
}
"""

_BY_PARTS = """\
/* By parts of a power of two: with a mask one store takes 13 cycles of a Zen 3, by these 4. They
   stay in registers: with an array the compiler would keep v in memory while it is summed. */
static inline void tw_store_first_NAME(TYPE *p, long n, tw_vector_NAME v)
{
    typedef TYPE part __attribute__((vector_size(BYTES / 2)));
    part left = {LOWER};
    if (n & LANES) { tw_store_NAME(p, v); return; }
    if (n & LANES / 2) { memcpy(p, &left, sizeof left); p += LANES / 2; left = (part){UPPER}; }PAIR
    if (n & 1) p[0] = left[0];
}
"""

_PAIR = """
    if (n & 2) { p[0] = left[0]; p[1] = left[1]; p += 2; left[0] = left[2]; }"""

_FROM_X86 = """\
static inline void tw_stream_NAME(TYPE *p, tw_vector_NAME v) { tw_past_caches_NAME(p, v); }
#define tw_multiply_add_NAME(a, b, c) tw_fused_NAME(a, b, c)
static inline tw_vector_NAME tw_maximum_NAME(tw_vector_NAME a, tw_vector_NAME b)
{
    return tw_larger_NAME(a, b);
}
static inline tw_vector_NAME tw_minimum_NAME(tw_vector_NAME a, tw_vector_NAME b)
{
    return tw_smaller_NAME(a, b);
}
"""

_PORTABLE = """\
static inline tw_vector_NAME tw_load_first_NAME(const TYPE *p, long n)
{
    tw_vector_NAME v = {0};
    memcpy(&v, p, (unsigned long)n * sizeof *p);
    return v;
}
static inline void tw_store_first_NAME(TYPE *p, long n, tw_vector_NAME v)
{
    memcpy(p, &v, (unsigned long)n * sizeof *p);
}
static inline tw_vector_NAME tw_multiply_add_NAME(
        tw_vector_NAME a, tw_vector_NAME b, tw_vector_NAME c)
{
    return a * b + c;
}
static inline tw_vector_NAME tw_maximum_NAME(tw_vector_NAME a, tw_vector_NAME b)
{
    tw_vector_NAME v;
    for (long i = 0; i < LANES; i++)
        v[i] = a[i] > b[i] ? a[i] : b[i];
    return v;
}
static inline tw_vector_NAME tw_minimum_NAME(tw_vector_NAME a, tw_vector_NAME b)
{
    tw_vector_NAME v;
    for (long i = 0; i < LANES; i++)
        v[i] = a[i] < b[i] ? a[i] : b[i];
    return v;
}
"""

_TRUTHS = "typedef TRUTH tw_truth_NAME __attribute__((vector_size(BYTES)));"
_CHOICES = """\
static inline tw_vector_NAME tw_select_NAME(tw_truth_NAME c, tw_vector_NAME a, tw_vector_NAME b)
{
    return (tw_vector_NAME)((c & (tw_truth_NAME)a) | (~c & (tw_truth_NAME)b));
}
static inline int tw_all_NAME(tw_truth_NAME c)
{
#ifdef tw_signs_NAME
    return tw_signs_NAME(c) == (1 << LANES) - 1;
#else
    TRUTH every = -1;
    for (long i = 0; i < LANES; i++)
        every &= c[i];
    return every != 0;
#endif
}
static inline tw_vector_NAME tw_size_NAME(tw_vector_NAME a)
{
    return (tw_vector_NAME)((tw_truth_NAME)a & (TRUTH)(~(uTRUTH)0 >> 1));
}
"""

_HEADER = """\
#ifdef __clang__
#define TW_INTRINSICS
#endif
#ifdef TW_INTRINSICS
#include <immintrin.h>
#endif
"""
_TEXTS = {
    "avx512": _AVX512 + _MASKED_LOADS + _BY_MASK + _FROM_X86,
    "avx2": _AVX2 + _MASKED_LOADS + _BY_PARTS + _FROM_X86,
    "portable": _PORTABLE,
}


_WIDENED = """\
typedef FROM tw_narrow_FROM_NAME_NAME __attribute__((vector_size(NARROW)));
static inline tw_vector_NAME tw_load_first_FROM_NAME_NAME(const FROM *p, long n)
{
    tw_narrow_FROM_NAME_NAME v = {0};
    memcpy(&v, p, (unsigned long)n * sizeof *p);
    return __builtin_convertvector(v, tw_vector_NAME);
}
static inline tw_vector_NAME tw_load_FROM_NAME_NAME(const FROM *p)
{
    return tw_load_first_FROM_NAME_NAME(p, LANES);
}
"""

Widening = tuple[DType, DType]
"""(element type of an operand, wider type of the sums)."""


@cache
def vector_text(
    isa: InstructionSet, kinds: tuple[DType, ...], widened: tuple[Widening, ...] = ()
) -> str:
    """C text of the vector types and operations for the element types `kinds`, and of loads that
    widen elements (`widened`).

    A translation unit includes it once, before the kernels, and is compiled with the instruction
    set's `compiler_flags`; if integers wrap, with `WRAPPING` too. Operations on integers are those
    of GCC's vector extensions.
    """
    parts = ["#include <string.h>\n", *([_HEADER] if isa.streams else [])]
    for kind in kinds:
        own = (_TRUTHS, _TEXTS[isa.name], _CHOICES) if kind.is_float else (_PORTABLE,)
        parts += (_for_type(text, isa, kind) for text in (_VECTORS, *own))
    for narrow, kind in widened:
        bytes_ = str(isa.lanes(kind) * narrow.size_bytes)
        text = _WIDENED.replace("FROM_NAME", narrow.name).replace("FROM", narrow.c_name)
        parts.append(_for_type(text.replace("NARROW", bytes_), isa, kind))
    return "\n".join(parts)


def _for_type(text: str, isa: InstructionSet, kind: DType) -> str:
    lanes, double = isa.lanes(kind), kind.size_bytes == 8
    words = {
        "uTRUTH": "unsigned long long" if double else "unsigned",
        "TRUTH": "long long" if double else "int",
        "ALL": f"(unsigned {'char' if double else 'short'})-1",
        "NAME": kind.name,
        "TYPE": kind.c_name,
        "PS": "pd" if double else "ps",
        "WORD": "q" if double else "d",
        "BYTES": str(isa.vector_bytes),
        "LANES": str(lanes),
        "SIZE": str(kind.size_bytes),
        "COPIES": ", ".join(["x"] * lanes),
        "LOWER": ", ".join(f"v[{i}]" for i in range(lanes // 2)),
        "UPPER": ", ".join(f"v[{i}]" for i in range(lanes // 2, lanes)),
        "PAIR": "" if double else _PAIR,
        "NUMBERS": ", ".join(map(str, range(lanes))),
    }
    for word, value in words.items():
        text = text.replace(word, value)
    return text
