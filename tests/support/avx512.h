/* The built-in functions of AVX-512 that generated code uses, lane by lane, for processors without
   them.

   Masked loads and stores touch no lane whose bit is not set, and a store past the caches traps at
   an address that is no multiple of a vector, as the instructions do. */
#include <stdint.h>

#define TW_LANES(VECTOR) (sizeof(VECTOR) / sizeof((VECTOR){0}[0]))
#define TW_EACH_LANE(VECTOR) for (unsigned i = 0; i < TW_LANES(VECTOR); i++)

#define TW_EMULATED(PS, TYPE, TRUTH, MASK, FMA, SCALE)                                 \
    typedef TYPE tw_emulated_##PS __attribute__((vector_size(64)));                    \
    static inline tw_emulated_##PS tw_emulated_load_##PS(                              \
        const TYPE *p, tw_emulated_##PS v, MASK mask)                                  \
    {                                                                                  \
        TW_EACH_LANE(tw_emulated_##PS) if (mask >> i & 1) v[i] = p[i];                 \
        return v;                                                                      \
    }                                                                                  \
    static inline void tw_emulated_store_##PS(TYPE *p, tw_emulated_##PS v, MASK mask)  \
    {                                                                                  \
        TW_EACH_LANE(tw_emulated_##PS) if (mask >> i & 1) p[i] = v[i];                 \
    }                                                                                  \
    static inline void tw_emulated_stream_##PS(TYPE *p, tw_emulated_##PS v)            \
    {                                                                                  \
        if ((uintptr_t)p % sizeof v)                                                   \
            __builtin_trap();                                                          \
        tw_emulated_store_##PS(p, v, (MASK)-1);                                        \
    }                                                                                  \
    static inline tw_emulated_##PS tw_emulated_fmadd_##PS(                             \
        tw_emulated_##PS a, tw_emulated_##PS b, tw_emulated_##PS c)                    \
    {                                                                                  \
        TW_EACH_LANE(tw_emulated_##PS) c[i] = FMA(a[i], b[i], c[i]);                   \
        return c;                                                                      \
    }                                                                                  \
    static inline tw_emulated_##PS tw_emulated_max_##PS(                               \
        tw_emulated_##PS a, tw_emulated_##PS b)                                        \
    {                                                                                  \
        TW_EACH_LANE(tw_emulated_##PS) b[i] = a[i] > b[i] ? a[i] : b[i];               \
        return b;                                                                      \
    }                                                                                  \
    static inline tw_emulated_##PS tw_emulated_min_##PS(                               \
        tw_emulated_##PS a, tw_emulated_##PS b)                                        \
    {                                                                                  \
        TW_EACH_LANE(tw_emulated_##PS) b[i] = a[i] < b[i] ? a[i] : b[i];               \
        return b;                                                                      \
    }                                                                                  \
    static inline tw_emulated_##PS tw_emulated_scale_##PS(                             \
        tw_emulated_##PS a, tw_emulated_##PS n)                                        \
    {                                                                                  \
        TW_EACH_LANE(tw_emulated_##PS)                                                 \
            n[i] = n[i] == n[i] ? SCALE(a[i], (int)n[i]) : n[i];                       \
        return n;                                                                      \
    }                                                                                  \
    typedef TRUTH tw_emulated_truth_##PS __attribute__((vector_size(64)));             \
    static inline MASK tw_emulated_test_##PS(                                          \
        tw_emulated_truth_##PS a, tw_emulated_truth_##PS b)                            \
    {                                                                                  \
        MASK set = 0;                                                                  \
        TW_EACH_LANE(tw_emulated_truth_##PS) set |= (MASK)(((a[i] & b[i]) != 0) << i); \
        return set;                                                                    \
    }

TW_EMULATED(ps, float, int, uint16_t, __builtin_fmaf, __builtin_ldexpf)
TW_EMULATED(pd, double, long long, uint8_t, __builtin_fma, __builtin_ldexp)

#define __builtin_ia32_loadups512_mask tw_emulated_load_ps
#define __builtin_ia32_loadupd512_mask tw_emulated_load_pd
#define __builtin_ia32_storeups512_mask tw_emulated_store_ps
#define __builtin_ia32_storeupd512_mask tw_emulated_store_pd
#define __builtin_ia32_movntps512 tw_emulated_stream_ps
#define __builtin_ia32_movntpd512 tw_emulated_stream_pd
#define __builtin_ia32_vfmaddps512_mask(a, b, c, mask, mode) tw_emulated_fmadd_ps(a, b, c)
#define __builtin_ia32_vfmaddpd512_mask(a, b, c, mask, mode) tw_emulated_fmadd_pd(a, b, c)
#define __builtin_ia32_maxps512_mask(a, b, without, mask, mode) tw_emulated_max_ps(a, b)
#define __builtin_ia32_maxpd512_mask(a, b, without, mask, mode) tw_emulated_max_pd(a, b)
#define __builtin_ia32_minps512_mask(a, b, without, mask, mode) tw_emulated_min_ps(a, b)
#define __builtin_ia32_minpd512_mask(a, b, without, mask, mode) tw_emulated_min_pd(a, b)
#define __builtin_ia32_scalefps512_mask(a, n, without, mask, mode) tw_emulated_scale_ps(a, n)
#define __builtin_ia32_scalefpd512_mask(a, n, without, mask, mode) tw_emulated_scale_pd(a, n)
#define __builtin_ia32_ptestmd512(a, b, mask) tw_emulated_test_ps(a, b)
#define __builtin_ia32_ptestmq512(a, b, mask) tw_emulated_test_pd(a, b)
