/* One matrix product of all cores for element type T: included once per type.
 *
 * The 64 blocks of A and B are gathered into panels (MR elements of A high, NR of B wide; what
 * pads the last panel is never used), multiplied by a register-blocked kernel into one panel-
 * ordered product, which is added to the 64 blocks of C. */

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

/* C = alpha product + beta C for neighbours along m; returns whether a result is no number. */
static int NAME(add_rows)(T *c, const T *product, long rows, long stride, T scale, T keep)
{
    int bad = 0;
    long i;
    if (keep == 0)
        for (i = 0; i < rows; i++)
            c[i * stride] = 0;
    for (i = 0; i < rows; i++) {
        const T value = scale * product[i] + (keep == 0 ? 0 : keep * c[i * stride]);
        c[i * stride] = value;
        bad |= value != value;
    }
    return bad;
}

/* The product goes to the blocks of C. */
static int NAME(scatter)(const T *product, long m, long n, long m_panels, T scale, T keep)
{
    int core, bad = 0;
    for (core = 0; core < TW_CORES; core++) {
        const struct tw_matrix *const x = &tw_cores_state[core].gemm.c;
        const long first_i = core / TW_COLUMNS * m, first_j = core % TW_COLUMNS * n;
        const long i_stride = x->order == 1 ? x->leading_dimension : 1;
        const long j_stride = x->order == 1 ? 1 : x->leading_dimension;
        long i, j, rows;
        for (j = 0; j < n; j++) {
            const long at = first_j + j, panels = at / NR * m_panels;
            for (i = 0; i < m; i += rows) {
                const long row = first_i + i, left = NAME(MR) - row % NAME(MR);
                const long panel = panels + row / NAME(MR);
                const T *const from = product + (panel * NR + at % NR) * NAME(MR) + row % NAME(MR);
                rows = left < m - i ? left : m - i;
                bad |= NAME(add_rows)((T *)x->start + i * i_stride + j * j_stride, from, rows,
                        i_stride, scale, keep);
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
    const long m = call->m, n = call->n, k = call->k, whole_k = k * TW_COLUMNS;
    const long m_panels = (m * TW_ROWS + NAME(MR) - 1) / NAME(MR);
    const long n_panels = (n * TW_COLUMNS + NR - 1) / NR;
    T *const a = tw_workspace(0, m_panels * NAME(MR) * whole_k * sizeof(T));
    T *const b = tw_workspace(1, n_panels * NR * whole_k * sizeof(T));
    T *const product = tw_workspace(2, m_panels * n_panels * NAME(MR) * NR * sizeof(T));
    long from, i, j;
    memset(product, 0, m_panels * n_panels * NAME(MR) * NR * sizeof(T));
    NAME(gather)(a, NAME(MR), m, k, 0);
    NAME(gather)(b, NR, n, k, 1);
    for (from = 0; from < whole_k; from += DEPTH) {
        const long depth = whole_k - from < DEPTH ? whole_k - from : DEPTH;
        for (j = 0; j < n_panels; j++)
            for (i = 0; i < m_panels; i++)
                NAME(block)(a + (i * whole_k + from) * NAME(MR), b + (j * whole_k + from) * NR,
                        product + (j * m_panels + i) * NAME(MR) * NR, depth);
    }
    if (NAME(scatter)(product, m, n, m_panels, (T)call->alpha, (T)call->beta))
        NAME(explain_bad)(call);
}

#undef NAME
#undef GLUE
#undef GLUE_
