void copies(const float *a, const float *b, float *c, void *workspace)
{
    char *const region = (char *)(((unsigned long)workspace + 63) / 64 * 64);
    float *const c_tile = (float *)(region + 0);
    float *const b_tile = (float *)(region + 3840);
    for (long col = 0; col < 2; col++) {
        {
            const long count[TW_LOOPS] = {1, 1, 1, 1, 1, 960};
            const long y_stride[TW_LOOPS] = {0, 0, 0, 0, 0, 1};
            tw_fill_f32(c_tile, count, y_stride, 0.0);
        }
        for (long depth = 0; depth < 2; depth++) {
            tw_pack_f32_32(32, 20, b + col * 32 * 40 + depth * 20, 40, 1, b_tile, 640);
            tw_product0(30, 32, 20, a + depth * 20, 40, b_tile, 640, c_tile, 32);
        }
        {
            tw_copy_rows_f32(30, 32, 32, c_tile, 32, c + col * 32, 64);
        }
    }
}
