/* Included between the generated headers and the generated sources: primitives say which LDM they
 * touch. */
#ifndef TW_WATCH_H
#define TW_WATCH_H

static inline long tw_span(const long *count, const long *stride)
{
    long span = 1, d;
    for (d = 0; d < TW_LOOPS; d++) {
        if (count[d] <= 0)
            return 0;
        span += (count[d] - 1) * stride[d];
    }
    return span;
}

#define TW_SPAN(p, count, stride, writes) tw_touch(p, tw_span(count, stride) * sizeof *(p), writes)
#define TW_POINTS(p, count, stride, row, column, side, writes) \
    tw_touch(p, (tw_span(count, stride) + ((side) - 1) * ((row) + (column))) * sizeof *(p), writes)

/* A map: the operands' addresses are an array, or 0; pointers move by what is left to the next
 * iteration of each loop. */
static inline void tw_touch_map(const void *y, const void *const *x, long operands,
        const long *count, const long *move, long bytes)
{
    long stride[TW_LOOPS], i, d;
    for (i = 0; i <= operands; i++, move += TW_LOOPS) {
        for (d = TW_LOOPS - 1; d >= 0; d--)
            stride[d] = move[d] + (d < TW_LOOPS - 1 ? count[d + 1] * stride[d + 1] : 0);
        tw_touch(i ? x[i - 1] : y, tw_span(count, stride) * bytes, i == 0);
    }
}

#define tw_watch_map(f, y, x, count, move) \
    (tw_at(__FILE__, __LINE__, #f), tw_touch_map(y, (const void *const *)(x), \
     sizeof(x) / sizeof(void *), count, move, sizeof *(y)), (f)(y, x, count, move))
#define tw_watch_rows(f, tile, rows, to, from) \
    (tw_at(__FILE__, __LINE__, #f), tw_touch(tile, (rows) * (from) * sizeof *(tile), 1), \
     tw_touch(tile, (rows) * (to) * sizeof *(tile), 1), (f)(tile, rows, to, from))
#define tw_watch_winograd(f, ys, xs, y, x, count, dy, dx, yr, yc, xr, xc) \
    (tw_at(__FILE__, __LINE__, #f), TW_POINTS(x, count, dx, xr, xc, xs, 0), \
     TW_POINTS(y, count, dy, yr, yc, ys, 1), (f)(y, x, count, dy, dx, yr, yc, xr, xc))

#define tw_repack_rows_f64(...) tw_watch_rows(tw_repack_rows_f64, __VA_ARGS__)
#define tw_repack_rows_f32(...) tw_watch_rows(tw_repack_rows_f32, __VA_ARGS__)
#define tw_winograd_input_2_f64(...) tw_watch_winograd(tw_winograd_input_2_f64, 4, 4, __VA_ARGS__)
#define tw_winograd_input_2_f32(...) tw_watch_winograd(tw_winograd_input_2_f32, 4, 4, __VA_ARGS__)
#define tw_winograd_input_4_f64(...) tw_watch_winograd(tw_winograd_input_4_f64, 6, 6, __VA_ARGS__)
#define tw_winograd_input_4_f32(...) tw_watch_winograd(tw_winograd_input_4_f32, 6, 6, __VA_ARGS__)
#define tw_winograd_filter_2_f64(...) tw_watch_winograd(tw_winograd_filter_2_f64, 4, 3, __VA_ARGS__)
#define tw_winograd_filter_2_f32(...) tw_watch_winograd(tw_winograd_filter_2_f32, 4, 3, __VA_ARGS__)
#define tw_winograd_filter_4_f64(...) tw_watch_winograd(tw_winograd_filter_4_f64, 6, 3, __VA_ARGS__)
#define tw_winograd_filter_4_f32(...) tw_watch_winograd(tw_winograd_filter_4_f32, 6, 3, __VA_ARGS__)
#define tw_winograd_output_2_f64(...) tw_watch_winograd(tw_winograd_output_2_f64, 2, 4, __VA_ARGS__)
#define tw_winograd_output_2_f32(...) tw_watch_winograd(tw_winograd_output_2_f32, 2, 4, __VA_ARGS__)
#define tw_winograd_output_4_f64(...) tw_watch_winograd(tw_winograd_output_4_f64, 4, 6, __VA_ARGS__)
#define tw_winograd_output_4_f32(...) tw_watch_winograd(tw_winograd_output_4_f32, 4, 6, __VA_ARGS__)

#define tw_watch_gemm(bytes, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, vd, oa, ob, oc, \
        workspace) \
    do { \
        struct tw_matrix tw_a = {a, lda, oa}, tw_b = {b, ldb, ob}, tw_c = {c, ldc, oc}; \
        tw_gemm(__FILE__, __LINE__, bytes, m, n, k, alpha, beta, vd, tw_a, tw_b, tw_c, \
                workspace); \
    } while (0)
#define tw_dispatched(f, name, ...) (tw_at(__FILE__, __LINE__, name), (f)(__VA_ARGS__))
#define spm_gemm_f64(...) tw_watch_gemm(8, __VA_ARGS__)
#define spm_gemm_f32(...) tw_watch_gemm(4, __VA_ARGS__)

#endif
