/* The AVX-512 intrinsics that generated code uses, lane by lane, for processors without them.

   Masked loads and stores touch no lane whose bit is not set, and a store past the caches traps at
   an address that is no multiple of a vector, as the instructions do. */
#include <immintrin.h>
#include <stdint.h>

#define TW_LANES(VECTOR) (sizeof(VECTOR) / sizeof((VECTOR){0}[0]))
#define TW_EACH_LANE(VECTOR) for (unsigned i = 0; i < TW_LANES(VECTOR); i++)

#define TW_EMULATED(PS, TYPE, VECTOR, MASK, FMA)                                       \
    static inline VECTOR tw_emulated_maskz_loadu_##PS(MASK mask, const TYPE *p)        \
    {                                                                                  \
        VECTOR v = {0};                                                                \
        TW_EACH_LANE(VECTOR) if (mask >> i & 1) v[i] = p[i];                           \
        return v;                                                                      \
    }                                                                                  \
    static inline void tw_emulated_mask_storeu_##PS(TYPE *p, MASK mask, VECTOR v)      \
    {                                                                                  \
        TW_EACH_LANE(VECTOR) if (mask >> i & 1) p[i] = v[i];                           \
    }                                                                                  \
    static inline VECTOR tw_emulated_loadu_##PS(const TYPE *p)                         \
    {                                                                                  \
        return tw_emulated_maskz_loadu_##PS((MASK)-1, p);                              \
    }                                                                                  \
    static inline void tw_emulated_storeu_##PS(TYPE *p, VECTOR v)                      \
    {                                                                                  \
        tw_emulated_mask_storeu_##PS(p, (MASK)-1, v);                                  \
    }                                                                                  \
    static inline void tw_emulated_stream_##PS(TYPE *p, VECTOR v)                      \
    {                                                                                  \
        if ((uintptr_t)p % sizeof v)                                                   \
            __builtin_trap();                                                          \
        tw_emulated_storeu_##PS(p, v);                                                 \
    }                                                                                  \
    static inline VECTOR tw_emulated_set1_##PS(TYPE x)                                 \
    {                                                                                  \
        VECTOR v;                                                                      \
        TW_EACH_LANE(VECTOR) v[i] = x;                                                 \
        return v;                                                                      \
    }                                                                                  \
    static inline VECTOR tw_emulated_add_##PS(VECTOR a, VECTOR b) { return a + b; }    \
    static inline VECTOR tw_emulated_mul_##PS(VECTOR a, VECTOR b) { return a * b; }    \
    static inline VECTOR tw_emulated_fmadd_##PS(VECTOR a, VECTOR b, VECTOR c)          \
    {                                                                                  \
        TW_EACH_LANE(VECTOR) c[i] = FMA(a[i], b[i], c[i]);                             \
        return c;                                                                      \
    }                                                                                  \
    static inline VECTOR tw_emulated_max_##PS(VECTOR a, VECTOR b)                      \
    {                                                                                  \
        TW_EACH_LANE(VECTOR) b[i] = a[i] > b[i] ? a[i] : b[i];                         \
        return b;                                                                      \
    }

TW_EMULATED(ps, float, __m512, __mmask16, __builtin_fmaf)
TW_EMULATED(pd, double, __m512d, __mmask8, __builtin_fma)

#define _mm512_loadu_ps tw_emulated_loadu_ps
#define _mm512_loadu_pd tw_emulated_loadu_pd
#define _mm512_storeu_ps tw_emulated_storeu_ps
#define _mm512_storeu_pd tw_emulated_storeu_pd
#define _mm512_maskz_loadu_ps tw_emulated_maskz_loadu_ps
#define _mm512_maskz_loadu_pd tw_emulated_maskz_loadu_pd
#define _mm512_mask_storeu_ps tw_emulated_mask_storeu_ps
#define _mm512_mask_storeu_pd tw_emulated_mask_storeu_pd
#define _mm512_stream_ps tw_emulated_stream_ps
#define _mm512_stream_pd tw_emulated_stream_pd
#define _mm512_set1_ps tw_emulated_set1_ps
#define _mm512_set1_pd tw_emulated_set1_pd
#define _mm512_add_ps tw_emulated_add_ps
#define _mm512_add_pd tw_emulated_add_pd
#define _mm512_mul_ps tw_emulated_mul_ps
#define _mm512_mul_pd tw_emulated_mul_pd
#define _mm512_fmadd_ps tw_emulated_fmadd_ps
#define _mm512_fmadd_pd tw_emulated_fmadd_pd
#define _mm512_max_ps tw_emulated_max_ps
#define _mm512_max_pd tw_emulated_max_pd
