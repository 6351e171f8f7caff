/* Elementwise primitives on one core's LDM. Generated.
 *
 * `count` holds the extents of TW_LOOPS nested loops, outermost first; `y_stride` and `x_stride`
 * say how many elements apart the steps of each loop are. The result is always y. */
#ifndef TW_PRIMITIVES_H
#define TW_PRIMITIVES_H

enum { TW_LOOPS = 6, TW_RANK = 8 };

/* Integer arithmetic that rounds towards minus infinity; the modulus has the sign of b. */
static inline long tw_minimum(long a, long b) { return a < b ? a : b; }
static inline long tw_maximum(long a, long b) { return a < b ? b : a; }
static inline long tw_floor_divide(long a, long b)
{
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}
static inline long tw_modulo(long a, long b) { return a - tw_floor_divide(a, b) * b; }
static inline long tw_ceiling_divide(long a, long b) { return -tw_floor_divide(-a, b); }

/* Another length for the rows of a tile in its place. */
void tw_repack_rows_f64(double *tile, long rows, long new_length, long old_length);

/* Winograd's transforms of one tile of points; _row and _column are the strides of its points. */
void tw_winograd_input_2_f64(double *y, const double *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column);
void tw_winograd_filter_2_f64(double *y, const double *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column);
void tw_winograd_output_2_f64(double *y, const double *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column);
void tw_winograd_input_4_f64(double *y, const double *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column);
void tw_winograd_filter_4_f64(double *y, const double *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column);
void tw_winograd_output_4_f64(double *y, const double *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column);

/* Another length for the rows of a tile in its place. */
void tw_repack_rows_f32(float *tile, long rows, long new_length, long old_length);

/* Winograd's transforms of one tile of points; _row and _column are the strides of its points. */
void tw_winograd_input_2_f32(float *y, const float *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column);
void tw_winograd_filter_2_f32(float *y, const float *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column);
void tw_winograd_output_2_f32(float *y, const float *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column);
void tw_winograd_input_4_f32(float *y, const float *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column);
void tw_winograd_filter_4_f32(float *y, const float *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column);
void tw_winograd_output_4_f32(float *y, const float *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column);

#endif
