/* y = x over 2 ** shift, rounded, CLAMPED. */
static void NAME(TO *y, const FROM *x, STRIDED, long shift)
{
    const long last = TW_LOOPS - 1, n = count[last], dy = y_stride[last], dx = x_stride[last];
    const FROM mask = ((FROM)1 << shift) - 1, half = shift ? (FROM)1 << (shift - 1) : 1;
    long at[TW_LOOPS] = {0}, i;
    (void)half;
    if (tw_empty(count))
        return;
    do {
        TO *const to = y + tw_place(at, y_stride);
        const FROM *const from = x + tw_place(at, x_stride);
        for (i = 0; i < n; i++) {
            const FROM down = from[i * dx] >> shift, rest = from[i * dx] & mask;
            FROM value = down + (UP);
            (void)rest;
LIMITS            to[i * dy] = (TO)value;
        }
    } while (tw_next(at, count));
}
