/* One matrix product of all cores for element type T: included once per type.
 *
 * The 64 blocks of A and B are gathered into panels (MR elements of A high, NR of B wide; what
 * pads the last panel is never used), multiplied by a register-blocked kernel into one panel-
 * ordered product, which is added to the 64 blocks of C. Where rows of C are contiguous, A and B
 * change places, so that what lies together in a panel of the product does so in C. */

#define GLUE_(a, b) a##_##b
#define GLUE(a, b) GLUE_(a, b)
#define NAME(stem) GLUE(stem, SUFFIX)

typedef T NAME(vector) __attribute__((vector_size(VECTOR_BYTES)));
enum { NAME(LANES) = VECTOR_BYTES / sizeof(T), NAME(MR) = MV * NAME(LANES) };

/* `rows` neighbours along the outer axis, at most one panel high, for all k of one block. */
static void NAME(gather_rows)(T *to, int height, const T *from, long rows, long depth,
        long outer_stride, long inner_stride)
{
    long i, k;
    if (outer_stride == 1) {
        for (k = 0; k < depth; k++)
            for (i = 0; i < rows; i++)
                to[k * height + i] = from[i + k * inner_stride];
    } else {
        for (i = 0; i < rows; i++)
            for (k = 0; k < depth; k++)
                to[k * height + i] = from[i * outer_stride + k];
    }
}

/* Panels of `height` indices of the outer axis; each holds, for each k, `height` neighbours. */
static void NAME(gather)(T *panels, int height, long outer, long inner, int is_b)
{
    const long whole_k = inner * (is_b ? TW_ROWS : TW_COLUMNS);
    int core;
    for (core = 0; core < TW_CORES; core++) {
        const struct tw_gemm_call *const call = &tw_cores_state[core].gemm;
        const struct tw_matrix *const x = is_b ? &call->b : &call->a;
        const int row = core / TW_COLUMNS, column = core % TW_COLUMNS;
        const long first = (is_b ? column : row) * outer, first_k = (is_b ? row : column) * inner;
        /* Row-major (1): the outer axis of A has the leading dimension, that of B has stride 1. */
        const int outer_leads = (x->order == 1) != is_b;
        const long stride = outer_leads ? x->leading_dimension : 1;
        const long inner_stride = outer_leads ? 1 : x->leading_dimension;
        long i, rows;
        for (i = 0; i < outer; i += rows) {
            const long at = first + i, left = height - at % height;
            T *const to = panels + (at / height * whole_k + first_k) * height + at % height;
            rows = left < outer - i ? left : outer - i;
            NAME(gather_rows)(to, height, (const T *)x->start + i * stride, rows, inner, stride,
                    inner_stride);
        }
    }
}

/* product (MR x NR, columns packed) += panel of A times panel of B over `depth` values of k. */
static void NAME(block)(const T *restrict a, const T *restrict b, T *restrict product, long depth)
{
    NAME(vector) sum[NR][MV];
    long k;
    int i, j;
    for (j = 0; j < NR; j++)
        for (i = 0; i < MV; i++)
            memcpy(&sum[j][i], product + j * NAME(MR) + i * NAME(LANES), VECTOR_BYTES);
    for (k = 0; k < depth; k++) {
        NAME(vector) av[MV];
#pragma GCC unroll 8
        for (i = 0; i < MV; i++)
            memcpy(&av[i], a + k * NAME(MR) + i * NAME(LANES), VECTOR_BYTES);
#pragma GCC unroll 16
        for (j = 0; j < NR; j++) {
            const NAME(vector) bv = (NAME(vector)){0} + b[k * NR + j];
#pragma GCC unroll 8
            for (i = 0; i < MV; i++)
                sum[j][i] += av[i] * bv;
        }
    }
    for (j = 0; j < NR; j++)
        for (i = 0; i < MV; i++)
            memcpy(product + j * NAME(MR) + i * NAME(LANES), &sum[j][i], VECTOR_BYTES);
}

/* C = alpha product + beta C for neighbours; returns whether a result is no number. */
static inline int NAME(add)(T *c, const T *product, long count, T scale, T keep)
{
    int bad = 0;
    long i;
    for (i = 0; i < count; i++) {
        const T value = scale * product[i] + (keep == 0 ? 0 : keep * c[i]);
        c[i] = value;
        bad |= value != value;
    }
    return bad;
}

/* The product goes to the blocks of C: `high` neighbours along the panels' height, `wide` across. */
static int NAME(scatter)(const T *product, long high, long wide, long panels_high, T scale, T keep)
{
    int core, bad = 0;
    for (core = 0; core < TW_CORES; core++) {
        const struct tw_matrix *const x = &tw_cores_state[core].gemm.c;
        const int row = core / TW_COLUMNS, column = core % TW_COLUMNS;
        const long first_i = (x->order == 1 ? column : row) * high;
        const long first_j = (x->order == 1 ? row : column) * wide;
        long i, j, count;
        for (j = 0; j < wide; j++) {
            const long at = first_j + j, panels = at / NR * panels_high;
            for (i = 0; i < high; i += count) {
                const long place = first_i + i, left = NAME(MR) - place % NAME(MR);
                const long panel = panels + place / NAME(MR);
                const T *const from = product + (panel * NR + at % NR) * NAME(MR) + place % NAME(MR);
                count = left < high - i ? left : high - i;
                bad |= NAME(add)((T *)x->start + i + j * x->leading_dimension, from, count, scale,
                        keep);
            }
        }
    }
    return bad;
}

/* Notes the first element that nothing was written to; C is looked at after the product, which
 * keeps the mark. */
static void NAME(find_unwritten)(const struct tw_matrix *x, long rows, long columns, int core)
{
    const long outer = x->order == 1 ? rows : columns, inner = x->order == 1 ? columns : rows;
    const T *const start = x->start;
    long i, j;
    for (i = 0; i < outer; i++)
        for (j = 0; j < inner; j++)
            if (tw_is_unwritten(&start[i * x->leading_dimension + j], sizeof(T)))
                tw_note_unwritten(&start[i * x->leading_dimension + j], core);
}

static void NAME(explain_bad)(const struct tw_gemm_call *call)
{
    int which, core;
    for (which = 0; which < 3; which++)
        for (core = 0; core < TW_CORES; core++) {
            const struct tw_gemm_call *const own = &tw_cores_state[core].gemm;
            if (which == 0)
                NAME(find_unwritten)(&own->a, call->m, call->k, core);
            else if (which == 1)
                NAME(find_unwritten)(&own->b, call->k, call->n, core);
            else
                NAME(find_unwritten)(&own->c, call->m, call->n, core);
        }
}

static void NAME(multiply)(const struct tw_gemm_call *call)
{
    const int swapped = call->c.order == 1;
    const long high = swapped ? call->n : call->m, wide = swapped ? call->m : call->n;
    const long k = call->k, whole_k = k * TW_COLUMNS;
    const long all_high = high * (swapped ? TW_COLUMNS : TW_ROWS);
    const long all_wide = wide * (swapped ? TW_ROWS : TW_COLUMNS);
    const long panels_high = (all_high + NAME(MR) - 1) / NAME(MR);
    const long panels_wide = (all_wide + NR - 1) / NR;
    const long product_bytes = panels_high * panels_wide * NAME(MR) * NR * sizeof(T);
    T *const a = tw_workspace(0, panels_high * NAME(MR) * whole_k * sizeof(T));
    T *const b = tw_workspace(1, panels_wide * NR * whole_k * sizeof(T));
    T *const product = tw_workspace(2, product_bytes);
    long from, i, j;
    memset(product, 0, product_bytes);
    NAME(gather)(a, NAME(MR), high, k, swapped);
    NAME(gather)(b, NR, wide, k, !swapped);
    for (from = 0; from < whole_k; from += DEPTH) {
        const long depth = whole_k - from < DEPTH ? whole_k - from : DEPTH;
        for (j = 0; j < panels_wide; j++)
            for (i = 0; i < panels_high; i++)
                NAME(block)(a + (i * whole_k + from) * NAME(MR), b + (j * whole_k + from) * NR,
                        product + (j * panels_high + i) * NAME(MR) * NR, depth);
    }
    if (NAME(scatter)(product, high, wide, panels_high, (T)call->alpha, (T)call->beta))
        NAME(explain_bad)(call);
}

#undef NAME
#undef GLUE
#undef GLUE_
