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
    static __thread void *memory[3];
    static __thread long room[3];
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

static int overlap(const void *x, long x_bytes, const void *y, long y_bytes)
{
    return (const char *)x < (const char *)y + y_bytes
        && (const char *)y < (const char *)x + x_bytes;
}

/* The operand that is read by vectors is packed where its vectorised dimension is strided; the
 * workspace is memory of its own, whose former contents are lost. */
static void check_workspace(const struct tw_gemm_call *call)
{
    const struct tw_matrix *const packed = call->vector == 0 ? &call->a : &call->b;
    const int packs = packed->order == (call->vector == 0 ? 1 : 0);
    const long elements = call->k * (long)(call->vector == 0 ? call->m : call->n);
    const long bytes = elements * call->element_bytes;
    const long a = matrix_bytes(&call->a, call->m, call->k, call->element_bytes);
    const long b = matrix_bytes(&call->b, call->k, call->n, call->element_bytes);
    const long c = matrix_bytes(&call->c, call->m, call->n, call->element_bytes);
    if (!packs || bytes <= 0)
        return;
    if (!call->workspace)
        tw_report_at("%s packs %s, but is handed no workspace of %ld bytes",
                tw_current->primitive, packed == &call->a ? "A" : "B", bytes);
    tw_touch(call->workspace, bytes, 1);
    if (overlap(call->workspace, bytes, call->a.start, a)
            || overlap(call->workspace, bytes, call->b.start, b)
            || overlap(call->workspace, bytes, call->c.start, c))
        tw_report_at("%s: the workspace of %ld bytes overlaps an operand",
                tw_current->primitive, bytes);
    memset(call->workspace, 0xff, bytes);
}

static int same_call(const struct tw_gemm_call *x, const struct tw_gemm_call *y)
{
    return x->element_bytes == y->element_bytes && x->m == y->m && x->n == y->n && x->k == y->k
        && x->links == y->links && x->vector == y->vector && x->alpha == y->alpha && x->beta == y->beta
        && x->a.leading_dimension == y->a.leading_dimension && x->a.order == y->a.order
        && x->b.leading_dimension == y->b.leading_dimension && x->b.order == y->b.order
        && x->c.leading_dimension == y->c.leading_dimension && x->c.order == y->c.order;
}

/* The operands of a chain's link in the place of those of the first. */
static void take_link(int link)
{
    int i;
    for (i = 0; i < TW_CORES; i++) {
        struct tw_gemm_call *const call = &tw_cores_state[i].gemm;
        if (call->links > 1) {
            call->a.start = call->pairs[2 * link];
            call->b.start = call->pairs[2 * link + 1];
        }
    }
}

static void check_calls(const struct tw_gemm_call *first)
{
    struct tw_core *const last = tw_current;
    int i;
    for (i = 0; i < TW_CORES; i++) {
        const struct tw_gemm_call *call = &tw_cores_state[i].gemm;
        tw_current = &tw_cores_state[i];
        if (!same_call(first, call))
            tw_report_at("%s on %d x %d x %d, core (0, 0) calls it on %d x %d x %d "
                    "or with other orders", tw_current->primitive, call->m, call->n, call->k,
                    first->m, first->n, first->k);
        check_operands(call);
        check_workspace(call);
    }
    tw_current = last;
}

void tw_multiply(void)
{
    const struct tw_gemm_call *first = &tw_cores_state[0].gemm;
    int link;
    for (link = 0; link < first->links; link++) {
        take_link(link);
        check_calls(first);
    }
    if (first->m <= 0 || first->n <= 0 || first->k <= 0 || tw_product_elsewhere())
        return;
    for (link = 0; link < first->links; link++) {
        take_link(link);
        if (first->element_bytes == 8)
            multiply_f64(first);
        else
            multiply_f32(first);
    }
}
