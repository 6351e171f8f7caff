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
        const long outer_stride = outer_leads ? x->leading_dimension : 1;
        const long inner_stride = outer_leads ? 1 : x->leading_dimension;
        const T *const from = x->start;
        long i, k;
        for (i = 0; i < outer; i++) {
            const long at = first + i;
            T *const to = panels + at / height * height * whole_k + first_k * height + at % height;
            for (k = 0; k < inner; k++) {
                const T value = from[i * outer_stride + k * inner_stride];
                if (__builtin_expect(value != value, 0) && tw_is_unwritten(&value, sizeof value))
                    tw_note_unwritten(&from[i * outer_stride + k * inner_stride], core);
                to[k * height] = value;
            }
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

/* C of each core = alpha product + beta C. */
static void NAME(scatter)(const T *product, long m, long n, long m_panels, double alpha,
        double beta)
{
    const T scale = (T)alpha, keep = (T)beta;
    int core;
    for (core = 0; core < TW_CORES; core++) {
        const struct tw_matrix *x = &tw_cores_state[core].gemm.c;
        const long first_i = core / TW_COLUMNS * m, first_j = core % TW_COLUMNS * n;
        const long i_stride = x->order == 1 ? x->leading_dimension : 1;
        const long j_stride = x->order == 1 ? 1 : x->leading_dimension;
        T *const c = (T *)x->start;
        long i, j;
        for (j = 0; j < n; j++) {
            const long at = first_j + j;
            for (i = 0; i < m; i++) {
                const long row = first_i + i, panel = at / NR * m_panels + row / NAME(MR);
                const T value = product[(panel * NR + at % NR) * NAME(MR) + row % NAME(MR)];
                T *const to = c + i * i_stride + j * j_stride;
                if (__builtin_expect(*to != *to, 0) && tw_is_unwritten(to, sizeof *to))
                    tw_note_unwritten(to, core);
                *to = keep == 0 ? scale * value : scale * value + keep * *to;
            }
        }
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
    NAME(scatter)(product, m, n, m_panels, call->alpha, call->beta);
}

#undef NAME
#undef GLUE
#undef GLUE_
