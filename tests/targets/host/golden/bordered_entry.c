void pixels(const float *x, const float *residual0, const float *w, float *y, void *workspace)
{
    (void)workspace;
    float *const y_pixels = y;
    for (long pixel = 0; pixel < 2; pixel++) {
        tw_product0(16, 6, 8, w, 128, x + pixel * 6 * 8, 8,
                y_pixels + 112 + pixel * 6 / 4 * 96 + pixel * 6 % 4 * 16, 16, 32, pixel * 6 % 4, 1,
                residual0 + 112 + pixel * 6 / 4 * 96 + pixel * 6 % 4 * 16);
    }
}
