/* The matrix kernel: 64 local blocks are one product; computed at once when the last core has
 * called. */
#include <stdlib.h>
#include <string.h>

#include "tw_runtime.h"

/* Register blocks that fit the vector registers of the processor this is compiled for. */
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, MV = 2, NR = 12 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32, MV = 2, NR = 6 };
#else
enum { VECTOR_BYTES = 16, MV = 2, NR = 4 };
#endif
enum { DEPTH = 256 };

static void *tw_workspace(int which, long bytes)
{
    static void *memory[3];
    static long room[3];
    if (bytes > room[which]) {
        free(memory[which]);
        if (posix_memalign(&memory[which], 64, bytes))
            tw_report("no memory for %ld bytes", bytes);
        room[which] = bytes;
    }
    return memory[which];
}

#define T double
#define SUFFIX f64
#include "tw_gemm_kernel.h"
#undef T
#undef SUFFIX
#define T float
#define SUFFIX f32
#include "tw_gemm_kernel.h"

static long matrix_bytes(const struct tw_matrix *x, long rows, long columns, int element_bytes)
{
    const long outer = x->order == 1 ? rows : columns, inner = x->order == 1 ? columns : rows;
    if (rows <= 0 || columns <= 0)
        return 0;
    return ((outer - 1) * x->leading_dimension + inner) * element_bytes;
}

static void check_shape(const char *name, const struct tw_matrix *x, long rows, long columns)
{
    const long inner = x->order == 1 ? columns : rows;
    if (x->leading_dimension < inner)
        tw_report_at("%s: the leading dimension of %s is %d, less than its %ld %s",
                tw_current->primitive, name, x->leading_dimension, inner,
                x->order == 1 ? "columns" : "rows");
}

static void check_operands(const struct tw_gemm_call *call)
{
    check_shape("A", &call->a, call->m, call->k);
    check_shape("B", &call->b, call->k, call->n);
    check_shape("C", &call->c, call->m, call->n);
    tw_touch(call->a.start, matrix_bytes(&call->a, call->m, call->k, call->element_bytes), 0);
    tw_touch(call->b.start, matrix_bytes(&call->b, call->k, call->n, call->element_bytes), 0);
    tw_touch(call->c.start, matrix_bytes(&call->c, call->m, call->n, call->element_bytes), 1);
}

static int same_call(const struct tw_gemm_call *x, const struct tw_gemm_call *y)
{
    return x->element_bytes == y->element_bytes && x->m == y->m && x->n == y->n && x->k == y->k
        && x->vector == y->vector && x->alpha == y->alpha && x->beta == y->beta
        && x->a.leading_dimension == y->a.leading_dimension && x->a.order == y->a.order
        && x->b.leading_dimension == y->b.leading_dimension && x->b.order == y->b.order
        && x->c.leading_dimension == y->c.leading_dimension && x->c.order == y->c.order;
}

void tw_multiply(void)
{
    struct tw_core *const last = tw_current;
    const struct tw_gemm_call *first = &tw_cores_state[0].gemm;
    int i;
    for (i = 0; i < TW_CORES; i++) {
        const struct tw_gemm_call *call = &tw_cores_state[i].gemm;
        tw_current = &tw_cores_state[i];
        if (!same_call(first, call))
            tw_report_at("%s on %d x %d x %d, core (0, 0) calls it on %d x %d x %d "
                    "or with other orders", tw_current->primitive, call->m, call->n, call->k,
                    first->m, first->n, first->k);
        check_operands(call);
    }
    tw_current = last;
    if (first->m <= 0 || first->n <= 0 || first->k <= 0)
        return;
    if (first->element_bytes == 8)
        multiply_f64(first);
    else
        multiply_f32(first);
}
