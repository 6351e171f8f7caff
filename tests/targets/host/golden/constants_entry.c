void constants_pack_w(const double *w, double *packed)
{
    for (long block0 = 0; block0 < 3; block0++) {
        tw_pack_f64_16(40, 8, w + block0 * 320, 1, 40, packed + block0 * 8 * 48, 128);
    }
}

void constants(const double *x, const double *w, double *y, void *workspace)
{
    (void)workspace;
    for (long tap = 0; tap < 3; tap++) {
        tw_product0(40, 10, 8, w + tap * 8 * 3 * 16, 128, x + tap * 8, 8, y, 40, tap == 0);
    }
}
