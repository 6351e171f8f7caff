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
