/* Emulated <simd.h>: vectors of four lanes and register communication between cores of a row or
 * column. */
#ifndef TW_EMULATED_SIMD_H
#define TW_EMULATED_SIMD_H

#include "tw_emulation.h"

typedef double doublev4 __attribute__((vector_size(32)));
typedef float floatv4 __attribute__((vector_size(16)));

#define simd_load(vector, pointer) ((vector) = *(const __typeof__(vector) *)(pointer))
#define simd_store(vector, pointer) (*(__typeof__(vector) *)(pointer) = (vector))
#define simd_loade(vector, pointer) ((vector) = (__typeof__(vector)){0} + *(pointer))
#define simd_set_doublev4(a, b, c, d) ((doublev4){a, b, c, d})
#define simd_set_floatv4(a, b, c, d) ((floatv4){a, b, c, d})
#define simd_vaddd(a, b) ((a) + (b))
#define simd_vsubd(a, b) ((a) - (b))
#define simd_vmuld(a, b) ((a) * (b))
#define simd_vmad(a, b, c) ((a) * (b) + (c))
#define simd_vnmad(a, b, c) ((c) - (a) * (b))
#define simd_vadds(a, b) ((a) + (b))
#define simd_vsubs(a, b) ((a) - (b))
#define simd_vmuls(a, b) ((a) * (b))
#define simd_vmas(a, b, c) ((a) * (b) + (c))

/* A payload is one 256-bit register; targets from 8 on are the other seven cores. */
#define simd_putr(vector, target) \
    do { doublev4 tw_v = (vector); tw_send(__FILE__, __LINE__, 1, &tw_v, target); } while (0)
#define simd_putc(vector, target) \
    do { doublev4 tw_v = (vector); tw_send(__FILE__, __LINE__, 0, &tw_v, target); } while (0)
#define simd_getr(vector) tw_receive(__FILE__, __LINE__, 1, &(vector))
#define simd_getc(vector) tw_receive(__FILE__, __LINE__, 0, &(vector))

#endif
