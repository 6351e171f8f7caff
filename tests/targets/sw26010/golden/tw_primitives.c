/* Elementwise primitives on one core's LDM. Generated. */
#include "tw_primitives.h"
/* One pass of loop nest `count`: `at` counts like an odometer, the last loop runs inside. */
static int tw_next(long *at, const long *count)
{
    int d;
    for (d = TW_LOOPS - 2; d >= 0; d--) {
        if (++at[d] < count[d])
            return 1;
        at[d] = 0;
    }
    return 0;
}

static long tw_place(const long *at, const long *stride)
{
    long place = 0;
    int d;
    for (d = 0; d < TW_LOOPS - 1; d++)
        place += at[d] * stride[d];
    return place;
}

static int tw_empty(const long *count)
{
    int d;
    for (d = 0; d < TW_LOOPS; d++)
        if (count[d] <= 0)
            return 1;
    return 0;
}

/* Gives the rows of a packed tile another length in place: zeros where they grow, cropped where
 * they shrink. Rows move in an order in which none is overwritten before it has moved. */
void tw_repack_rows_f64(double *tile, long rows, long new_length, long old_length)
{
    long row, i;
    if (new_length < old_length) {
        for (row = 1; row < rows; row++)
            for (i = 0; i < new_length; i++)
                tile[row * new_length + i] = tile[row * old_length + i];
    } else if (new_length > old_length) {
        for (row = rows - 1; row >= 0; row--) {
            for (i = old_length; i < new_length; i++)
                tile[row * new_length + i] = 0;
            for (i = old_length - 1; i >= 0; i--)
                tile[row * new_length + i] = tile[row * old_length + i];
        }
    }
}

void tw_winograd_input_2_f64(double *y, const double *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column)
{
    const long last = TW_LOOPS - 1, n = count[last];
    const long dy = y_stride[last], dx = x_stride[last];
    long at[TW_LOOPS] = {0}, i, j;
    if (tw_empty(count))
        return;
    do {
        double *to = y + tw_place(at, y_stride);
        const double *from = x + tw_place(at, x_stride);
        for (i = 0; i < n; i++, to += dy, from += dx) {
            double half[4][4];
            for (j = 0; j < 4; j++) {
                const double p0 = from[0 * x_row + j * x_column], p1 = from[1 * x_row + j * x_column], p2 = from[2 * x_row + j * x_column], p3 = from[3 * x_row + j * x_column];
                half[0][j] = p0 - p2;
                half[1][j] = p1 + p2;
                half[2][j] = -p1 + p2;
                half[3][j] = p1 - p3;
            }
            for (j = 0; j < 4; j++) {
                const double p0 = half[j][0], p1 = half[j][1], p2 = half[j][2], p3 = half[j][3];
                to[j * y_row + 0 * y_column] = p0 - p2;
                to[j * y_row + 1 * y_column] = p1 + p2;
                to[j * y_row + 2 * y_column] = -p1 + p2;
                to[j * y_row + 3 * y_column] = p1 - p3;
            }
        }
    } while (tw_next(at, count));
}

void tw_winograd_filter_2_f64(double *y, const double *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column)
{
    const long last = TW_LOOPS - 1, n = count[last];
    const long dy = y_stride[last], dx = x_stride[last];
    long at[TW_LOOPS] = {0}, i, j;
    if (tw_empty(count))
        return;
    do {
        double *to = y + tw_place(at, y_stride);
        const double *from = x + tw_place(at, x_stride);
        for (i = 0; i < n; i++, to += dy, from += dx) {
            double half[4][3];
            for (j = 0; j < 3; j++) {
                const double p0 = from[0 * x_row + j * x_column], p1 = from[1 * x_row + j * x_column], p2 = from[2 * x_row + j * x_column];
                half[0][j] = 2.0 * p0;
                half[1][j] = p0 + p1 + p2;
                half[2][j] = p0 - p1 + p2;
                half[3][j] = 2.0 * p2;
            }
            for (j = 0; j < 4; j++) {
                const double p0 = half[j][0], p1 = half[j][1], p2 = half[j][2];
                to[j * y_row + 0 * y_column] = 2.0 * p0;
                to[j * y_row + 1 * y_column] = p0 + p1 + p2;
                to[j * y_row + 2 * y_column] = p0 - p1 + p2;
                to[j * y_row + 3 * y_column] = 2.0 * p2;
            }
        }
    } while (tw_next(at, count));
}

void tw_winograd_output_2_f64(double *y, const double *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column)
{
    const long last = TW_LOOPS - 1, n = count[last];
    const long dy = y_stride[last], dx = x_stride[last];
    long at[TW_LOOPS] = {0}, i, j;
    if (tw_empty(count))
        return;
    do {
        double *to = y + tw_place(at, y_stride);
        const double *from = x + tw_place(at, x_stride);
        for (i = 0; i < n; i++, to += dy, from += dx) {
            double half[2][4];
            for (j = 0; j < 4; j++) {
                const double p0 = from[0 * x_row + j * x_column], p1 = from[1 * x_row + j * x_column], p2 = from[2 * x_row + j * x_column], p3 = from[3 * x_row + j * x_column];
                half[0][j] = p0 + p1 + p2;
                half[1][j] = p1 - p2 - p3;
            }
            for (j = 0; j < 2; j++) {
                const double p0 = half[j][0], p1 = half[j][1], p2 = half[j][2], p3 = half[j][3];
                to[j * y_row + 0 * y_column] = (p0 + p1 + p2) / 4.0;
                to[j * y_row + 1 * y_column] = (p1 - p2 - p3) / 4.0;
            }
        }
    } while (tw_next(at, count));
}

void tw_winograd_input_4_f64(double *y, const double *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column)
{
    const long last = TW_LOOPS - 1, n = count[last];
    const long dy = y_stride[last], dx = x_stride[last];
    long at[TW_LOOPS] = {0}, i, j;
    if (tw_empty(count))
        return;
    do {
        double *to = y + tw_place(at, y_stride);
        const double *from = x + tw_place(at, x_stride);
        for (i = 0; i < n; i++, to += dy, from += dx) {
            double half[6][6];
            for (j = 0; j < 6; j++) {
                const double p0 = from[0 * x_row + j * x_column], p1 = from[1 * x_row + j * x_column], p2 = from[2 * x_row + j * x_column], p3 = from[3 * x_row + j * x_column], p4 = from[4 * x_row + j * x_column], p5 = from[5 * x_row + j * x_column];
                half[0][j] = 4.0 * p0 - 5.0 * p2 + p4;
                half[1][j] = -4.0 * p1 - 4.0 * p2 + p3 + p4;
                half[2][j] = 4.0 * p1 - 4.0 * p2 - p3 + p4;
                half[3][j] = -2.0 * p1 - p2 + 2.0 * p3 + p4;
                half[4][j] = 2.0 * p1 - p2 - 2.0 * p3 + p4;
                half[5][j] = 4.0 * p1 - 5.0 * p3 + p5;
            }
            for (j = 0; j < 6; j++) {
                const double p0 = half[j][0], p1 = half[j][1], p2 = half[j][2], p3 = half[j][3], p4 = half[j][4], p5 = half[j][5];
                to[j * y_row + 0 * y_column] = 4.0 * p0 - 5.0 * p2 + p4;
                to[j * y_row + 1 * y_column] = -4.0 * p1 - 4.0 * p2 + p3 + p4;
                to[j * y_row + 2 * y_column] = 4.0 * p1 - 4.0 * p2 - p3 + p4;
                to[j * y_row + 3 * y_column] = -2.0 * p1 - p2 + 2.0 * p3 + p4;
                to[j * y_row + 4 * y_column] = 2.0 * p1 - p2 - 2.0 * p3 + p4;
                to[j * y_row + 5 * y_column] = 4.0 * p1 - 5.0 * p3 + p5;
            }
        }
    } while (tw_next(at, count));
}

void tw_winograd_filter_4_f64(double *y, const double *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column)
{
    const long last = TW_LOOPS - 1, n = count[last];
    const long dy = y_stride[last], dx = x_stride[last];
    long at[TW_LOOPS] = {0}, i, j;
    if (tw_empty(count))
        return;
    do {
        double *to = y + tw_place(at, y_stride);
        const double *from = x + tw_place(at, x_stride);
        for (i = 0; i < n; i++, to += dy, from += dx) {
            double half[6][3];
            for (j = 0; j < 3; j++) {
                const double p0 = from[0 * x_row + j * x_column], p1 = from[1 * x_row + j * x_column], p2 = from[2 * x_row + j * x_column];
                half[0][j] = 6.0 * p0;
                half[1][j] = -4.0 * p0 - 4.0 * p1 - 4.0 * p2;
                half[2][j] = -4.0 * p0 + 4.0 * p1 - 4.0 * p2;
                half[3][j] = p0 + 2.0 * p1 + 4.0 * p2;
                half[4][j] = p0 - 2.0 * p1 + 4.0 * p2;
                half[5][j] = 24.0 * p2;
            }
            for (j = 0; j < 6; j++) {
                const double p0 = half[j][0], p1 = half[j][1], p2 = half[j][2];
                to[j * y_row + 0 * y_column] = 6.0 * p0;
                to[j * y_row + 1 * y_column] = -4.0 * p0 - 4.0 * p1 - 4.0 * p2;
                to[j * y_row + 2 * y_column] = -4.0 * p0 + 4.0 * p1 - 4.0 * p2;
                to[j * y_row + 3 * y_column] = p0 + 2.0 * p1 + 4.0 * p2;
                to[j * y_row + 4 * y_column] = p0 - 2.0 * p1 + 4.0 * p2;
                to[j * y_row + 5 * y_column] = 24.0 * p2;
            }
        }
    } while (tw_next(at, count));
}

void tw_winograd_output_4_f64(double *y, const double *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column)
{
    const long last = TW_LOOPS - 1, n = count[last];
    const long dy = y_stride[last], dx = x_stride[last];
    long at[TW_LOOPS] = {0}, i, j;
    if (tw_empty(count))
        return;
    do {
        double *to = y + tw_place(at, y_stride);
        const double *from = x + tw_place(at, x_stride);
        for (i = 0; i < n; i++, to += dy, from += dx) {
            double half[4][6];
            for (j = 0; j < 6; j++) {
                const double p0 = from[0 * x_row + j * x_column], p1 = from[1 * x_row + j * x_column], p2 = from[2 * x_row + j * x_column], p3 = from[3 * x_row + j * x_column], p4 = from[4 * x_row + j * x_column], p5 = from[5 * x_row + j * x_column];
                half[0][j] = p0 + p1 + p2 + p3 + p4;
                half[1][j] = p1 - p2 + 2.0 * p3 - 2.0 * p4;
                half[2][j] = p1 + p2 + 4.0 * p3 + 4.0 * p4;
                half[3][j] = p1 - p2 + 8.0 * p3 - 8.0 * p4 + p5;
            }
            for (j = 0; j < 4; j++) {
                const double p0 = half[j][0], p1 = half[j][1], p2 = half[j][2], p3 = half[j][3], p4 = half[j][4], p5 = half[j][5];
                to[j * y_row + 0 * y_column] = (p0 + p1 + p2 + p3 + p4) / 576.0;
                to[j * y_row + 1 * y_column] = (p1 - p2 + 2.0 * p3 - 2.0 * p4) / 576.0;
                to[j * y_row + 2 * y_column] = (p1 + p2 + 4.0 * p3 + 4.0 * p4) / 576.0;
                to[j * y_row + 3 * y_column] = (p1 - p2 + 8.0 * p3 - 8.0 * p4 + p5) / 576.0;
            }
        }
    } while (tw_next(at, count));
}

/* Gives the rows of a packed tile another length in place: zeros where they grow, cropped where
 * they shrink. Rows move in an order in which none is overwritten before it has moved. */
void tw_repack_rows_f32(float *tile, long rows, long new_length, long old_length)
{
    long row, i;
    if (new_length < old_length) {
        for (row = 1; row < rows; row++)
            for (i = 0; i < new_length; i++)
                tile[row * new_length + i] = tile[row * old_length + i];
    } else if (new_length > old_length) {
        for (row = rows - 1; row >= 0; row--) {
            for (i = old_length; i < new_length; i++)
                tile[row * new_length + i] = 0;
            for (i = old_length - 1; i >= 0; i--)
                tile[row * new_length + i] = tile[row * old_length + i];
        }
    }
}

void tw_winograd_input_2_f32(float *y, const float *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column)
{
    const long last = TW_LOOPS - 1, n = count[last];
    const long dy = y_stride[last], dx = x_stride[last];
    long at[TW_LOOPS] = {0}, i, j;
    if (tw_empty(count))
        return;
    do {
        float *to = y + tw_place(at, y_stride);
        const float *from = x + tw_place(at, x_stride);
        for (i = 0; i < n; i++, to += dy, from += dx) {
            double half[4][4];
            for (j = 0; j < 4; j++) {
                const double p0 = from[0 * x_row + j * x_column], p1 = from[1 * x_row + j * x_column], p2 = from[2 * x_row + j * x_column], p3 = from[3 * x_row + j * x_column];
                half[0][j] = p0 - p2;
                half[1][j] = p1 + p2;
                half[2][j] = -p1 + p2;
                half[3][j] = p1 - p3;
            }
            for (j = 0; j < 4; j++) {
                const double p0 = half[j][0], p1 = half[j][1], p2 = half[j][2], p3 = half[j][3];
                to[j * y_row + 0 * y_column] = (float)(p0 - p2);
                to[j * y_row + 1 * y_column] = (float)(p1 + p2);
                to[j * y_row + 2 * y_column] = (float)(-p1 + p2);
                to[j * y_row + 3 * y_column] = (float)(p1 - p3);
            }
        }
    } while (tw_next(at, count));
}

void tw_winograd_filter_2_f32(float *y, const float *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column)
{
    const long last = TW_LOOPS - 1, n = count[last];
    const long dy = y_stride[last], dx = x_stride[last];
    long at[TW_LOOPS] = {0}, i, j;
    if (tw_empty(count))
        return;
    do {
        float *to = y + tw_place(at, y_stride);
        const float *from = x + tw_place(at, x_stride);
        for (i = 0; i < n; i++, to += dy, from += dx) {
            double half[4][3];
            for (j = 0; j < 3; j++) {
                const double p0 = from[0 * x_row + j * x_column], p1 = from[1 * x_row + j * x_column], p2 = from[2 * x_row + j * x_column];
                half[0][j] = 2.0 * p0;
                half[1][j] = p0 + p1 + p2;
                half[2][j] = p0 - p1 + p2;
                half[3][j] = 2.0 * p2;
            }
            for (j = 0; j < 4; j++) {
                const double p0 = half[j][0], p1 = half[j][1], p2 = half[j][2];
                to[j * y_row + 0 * y_column] = (float)(2.0 * p0);
                to[j * y_row + 1 * y_column] = (float)(p0 + p1 + p2);
                to[j * y_row + 2 * y_column] = (float)(p0 - p1 + p2);
                to[j * y_row + 3 * y_column] = (float)(2.0 * p2);
            }
        }
    } while (tw_next(at, count));
}

void tw_winograd_output_2_f32(float *y, const float *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column)
{
    const long last = TW_LOOPS - 1, n = count[last];
    const long dy = y_stride[last], dx = x_stride[last];
    long at[TW_LOOPS] = {0}, i, j;
    if (tw_empty(count))
        return;
    do {
        float *to = y + tw_place(at, y_stride);
        const float *from = x + tw_place(at, x_stride);
        for (i = 0; i < n; i++, to += dy, from += dx) {
            double half[2][4];
            for (j = 0; j < 4; j++) {
                const double p0 = from[0 * x_row + j * x_column], p1 = from[1 * x_row + j * x_column], p2 = from[2 * x_row + j * x_column], p3 = from[3 * x_row + j * x_column];
                half[0][j] = p0 + p1 + p2;
                half[1][j] = p1 - p2 - p3;
            }
            for (j = 0; j < 2; j++) {
                const double p0 = half[j][0], p1 = half[j][1], p2 = half[j][2], p3 = half[j][3];
                to[j * y_row + 0 * y_column] = (float)((p0 + p1 + p2) / 4.0);
                to[j * y_row + 1 * y_column] = (float)((p1 - p2 - p3) / 4.0);
            }
        }
    } while (tw_next(at, count));
}

void tw_winograd_input_4_f32(float *y, const float *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column)
{
    const long last = TW_LOOPS - 1, n = count[last];
    const long dy = y_stride[last], dx = x_stride[last];
    long at[TW_LOOPS] = {0}, i, j;
    if (tw_empty(count))
        return;
    do {
        float *to = y + tw_place(at, y_stride);
        const float *from = x + tw_place(at, x_stride);
        for (i = 0; i < n; i++, to += dy, from += dx) {
            double half[6][6];
            for (j = 0; j < 6; j++) {
                const double p0 = from[0 * x_row + j * x_column], p1 = from[1 * x_row + j * x_column], p2 = from[2 * x_row + j * x_column], p3 = from[3 * x_row + j * x_column], p4 = from[4 * x_row + j * x_column], p5 = from[5 * x_row + j * x_column];
                half[0][j] = 4.0 * p0 - 5.0 * p2 + p4;
                half[1][j] = -4.0 * p1 - 4.0 * p2 + p3 + p4;
                half[2][j] = 4.0 * p1 - 4.0 * p2 - p3 + p4;
                half[3][j] = -2.0 * p1 - p2 + 2.0 * p3 + p4;
                half[4][j] = 2.0 * p1 - p2 - 2.0 * p3 + p4;
                half[5][j] = 4.0 * p1 - 5.0 * p3 + p5;
            }
            for (j = 0; j < 6; j++) {
                const double p0 = half[j][0], p1 = half[j][1], p2 = half[j][2], p3 = half[j][3], p4 = half[j][4], p5 = half[j][5];
                to[j * y_row + 0 * y_column] = (float)(4.0 * p0 - 5.0 * p2 + p4);
                to[j * y_row + 1 * y_column] = (float)(-4.0 * p1 - 4.0 * p2 + p3 + p4);
                to[j * y_row + 2 * y_column] = (float)(4.0 * p1 - 4.0 * p2 - p3 + p4);
                to[j * y_row + 3 * y_column] = (float)(-2.0 * p1 - p2 + 2.0 * p3 + p4);
                to[j * y_row + 4 * y_column] = (float)(2.0 * p1 - p2 - 2.0 * p3 + p4);
                to[j * y_row + 5 * y_column] = (float)(4.0 * p1 - 5.0 * p3 + p5);
            }
        }
    } while (tw_next(at, count));
}

void tw_winograd_filter_4_f32(float *y, const float *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column)
{
    const long last = TW_LOOPS - 1, n = count[last];
    const long dy = y_stride[last], dx = x_stride[last];
    long at[TW_LOOPS] = {0}, i, j;
    if (tw_empty(count))
        return;
    do {
        float *to = y + tw_place(at, y_stride);
        const float *from = x + tw_place(at, x_stride);
        for (i = 0; i < n; i++, to += dy, from += dx) {
            double half[6][3];
            for (j = 0; j < 3; j++) {
                const double p0 = from[0 * x_row + j * x_column], p1 = from[1 * x_row + j * x_column], p2 = from[2 * x_row + j * x_column];
                half[0][j] = 6.0 * p0;
                half[1][j] = -4.0 * p0 - 4.0 * p1 - 4.0 * p2;
                half[2][j] = -4.0 * p0 + 4.0 * p1 - 4.0 * p2;
                half[3][j] = p0 + 2.0 * p1 + 4.0 * p2;
                half[4][j] = p0 - 2.0 * p1 + 4.0 * p2;
                half[5][j] = 24.0 * p2;
            }
            for (j = 0; j < 6; j++) {
                const double p0 = half[j][0], p1 = half[j][1], p2 = half[j][2];
                to[j * y_row + 0 * y_column] = (float)(6.0 * p0);
                to[j * y_row + 1 * y_column] = (float)(-4.0 * p0 - 4.0 * p1 - 4.0 * p2);
                to[j * y_row + 2 * y_column] = (float)(-4.0 * p0 + 4.0 * p1 - 4.0 * p2);
                to[j * y_row + 3 * y_column] = (float)(p0 + 2.0 * p1 + 4.0 * p2);
                to[j * y_row + 4 * y_column] = (float)(p0 - 2.0 * p1 + 4.0 * p2);
                to[j * y_row + 5 * y_column] = (float)(24.0 * p2);
            }
        }
    } while (tw_next(at, count));
}

void tw_winograd_output_4_f32(float *y, const float *x,
        const long *count, const long *y_stride, const long *x_stride,
        long y_row, long y_column, long x_row, long x_column)
{
    const long last = TW_LOOPS - 1, n = count[last];
    const long dy = y_stride[last], dx = x_stride[last];
    long at[TW_LOOPS] = {0}, i, j;
    if (tw_empty(count))
        return;
    do {
        float *to = y + tw_place(at, y_stride);
        const float *from = x + tw_place(at, x_stride);
        for (i = 0; i < n; i++, to += dy, from += dx) {
            double half[4][6];
            for (j = 0; j < 6; j++) {
                const double p0 = from[0 * x_row + j * x_column], p1 = from[1 * x_row + j * x_column], p2 = from[2 * x_row + j * x_column], p3 = from[3 * x_row + j * x_column], p4 = from[4 * x_row + j * x_column], p5 = from[5 * x_row + j * x_column];
                half[0][j] = p0 + p1 + p2 + p3 + p4;
                half[1][j] = p1 - p2 + 2.0 * p3 - 2.0 * p4;
                half[2][j] = p1 + p2 + 4.0 * p3 + 4.0 * p4;
                half[3][j] = p1 - p2 + 8.0 * p3 - 8.0 * p4 + p5;
            }
            for (j = 0; j < 4; j++) {
                const double p0 = half[j][0], p1 = half[j][1], p2 = half[j][2], p3 = half[j][3], p4 = half[j][4], p5 = half[j][5];
                to[j * y_row + 0 * y_column] = (float)((p0 + p1 + p2 + p3 + p4) / 576.0);
                to[j * y_row + 1 * y_column] = (float)((p1 - p2 + 2.0 * p3 - 2.0 * p4) / 576.0);
                to[j * y_row + 2 * y_column] = (float)((p1 + p2 + 4.0 * p3 + 4.0 * p4) / 576.0);
                to[j * y_row + 3 * y_column] = (float)((p1 - p2 + 8.0 * p3 - 8.0 * p4 + p5) / 576.0);
            }
        }
    } while (tw_next(at, count));
}
